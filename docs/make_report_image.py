"""The picture of the report in README and docs: the page of `coassoc report` on the digits, in headless Chromium.

    python docs/make_report_image.py          # writes docs/images/report.png
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

import coassoc as ca

TARGET = Path(__file__).parent / "images" / "report.png"


def main() -> None:
    X, digits = load_digits(return_X_y=True)
    ensemble = ca.make_ensemble(X, 20, (5, 20), n_init=1, random_state=0)
    ensemble.classes = digits
    browser = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder:
        settings = {"title": "Handwritten digits", "random_state": 0}
        page = ca.report.write_report(ensemble, path=Path(folder) / "report.html", **settings)
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=8000"]
        flags += ["--window-size=1200,1385", f"--user-data-dir={folder}", f"--screenshot={TARGET}"]
        subprocess.run([browser, *flags, str(page)], check=True, capture_output=True, timeout=120)
    Image.open(TARGET).convert("RGB").quantize(128).save(TARGET, optimize=True)
    print(f"{TARGET}: {TARGET.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
