"""Every promise of SECURITY.md names a test that exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_names_its_test():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 20
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {test}"
    promises = [line for line in re.split(r"\n(?=- |#|\n)", text.partition("## Reading")[2]) if line.startswith("- ")]
    assert all("`tests/" in promise for promise in promises)
