"""The page in a real browser: pictures visible, no console error, no request, keyboard, phone and dark mode.

Headless Chromium prints the page's final DOM. A probe added to the page drives it as a reader would and writes down
what it saw.
"""

from __future__ import annotations

import html
import http.server
import json
import re
import shutil
import subprocess
import tempfile
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca
from coassoc.report.page import render
from coassoc.report.summary import summarize

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)"),
]
pytest.importorskip("jinja2")

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
         "--virtual-time-budget=8000"]  # fmt: skip

WATCH = """<script>
window.seen = {errors: []};
addEventListener("error", (e) => seen.errors.push(String(e.message)));
addEventListener("unhandledrejection", (e) => seen.errors.push(String(e.reason)));
addEventListener("securitypolicyviolation", (e) => seen.errors.push("blocked: " + e.blockedURI));
console.error = (...words) => seen.errors.push(words.join(" "));
</script>"""

PROBE = """<script>
addEventListener("load", async () => {
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const all = (selector) => [...document.querySelectorAll(selector)];
  const press = (box, key) => box.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  await pause(200);
  // every picture has a canvas with something on it, or an SVG with marks
  const painted = (one) => one.getContext("2d").getImageData(0, 0, one.width, one.height).data.some((v) => v);
  seen.pictures = Object.fromEntries(all(".chart").map((box) => [box.dataset.chart,
    box.clientWidth > 40 && (all(`[data-chart="${box.dataset.chart}"] canvas`).some(painted)
      || box.querySelectorAll("svg path").length > 2)]));
  seen.width = document.documentElement.scrollWidth - innerWidth;
  seen.background = getComputedStyle(document.body).backgroundColor;

  // the arrow keys read the numbers of every picture
  seen.readouts = {};
  for (const box of all(".chart")) {
    box.focus();
    seen.focusable = (seen.focusable ?? true) && document.activeElement === box;
    for (const name of ["ArrowRight", "ArrowRight", "ArrowDown"]) press(box, name);
    seen.readouts[box.dataset.chart] = box.nextElementSibling.textContent;
  }

  const table = document.querySelector("[data-table=items]");
  const read = (j) => [...table.querySelectorAll("tbody tr")].map((row) => row.cells[j].textContent);
  const head = [...table.querySelectorAll("th button")].find((one) => one.textContent === "margin");
  const place = [...head.closest("tr").cells].indexOf(head.parentElement);
  head.focus();
  head.click();
  seen.rising = read(place).map(Number);
  head.click();
  seen.falling = read(place).map(Number);
  seen.sorted = head.parentElement.getAttribute("aria-sort");
  const filter = table.querySelector("input");
  filter.value = "cluster=2 margin<0.5";
  filter.dispatchEvent(new Event("input"));
  const cluster = [...head.closest("tr").cells].findIndex((one) => one.textContent === "cluster");
  seen.filtered = [read(cluster), read(place).map(Number)];
  seen.status = table.querySelector("output").textContent;

  let saved = [];
  const blob = URL.createObjectURL;
  URL.createObjectURL = (what) => { saved.push(what.text()); return blob.call(URL, what); };
  for (const button of all("[data-save]")) button.click();
  saved = await Promise.all(saved);
  seen.saved = Object.fromEntries(all("[data-save]").map((button, i) => [button.dataset.save, saved[i].slice(0, 400)]));

  document.getElementById("theme").click();
  seen.toggled = getComputedStyle(document.body).backgroundColor;
  await pause(50);
  seen.requests = performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !/^(data|blob):/.test(n));
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
});
</script>"""

PICTURES_ALONE = PROBE[: PROBE.index("  const table =")] + PROBE[PROBE.index('  document.getElementById("theme")') :]


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(8)
    truth = rng.integers(0, 5, size=400)
    table = np.column_stack([np.where(rng.random(400) < 0.15, rng.integers(0, 5, 400), truth) for _ in range(10)])
    ensemble = ca.Ensemble.from_partitions(list(table.T), names=["=1+1", *(f"run <{j}>" for j in range(9))])
    ensemble.classes = truth
    return ca.report.write_report(ensemble, engine="numpy")


def look(page: str, *flags: str, window: str = "1200,900", probe: str = PROBE) -> tuple[dict, list[str]]:
    """What the probe saw, and every path the browser asked the page's server for."""
    asked: list[str] = []
    folder = tempfile.TemporaryDirectory()
    body = page.replace("<style>", WATCH + "<style>", 1).replace("</body>", probe + "</body>", 1)
    Path(folder.name, "report.html").write_text(body, encoding="utf-8")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    with folder, http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder.name)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            command = [CHROMIUM, *FLAGS, f"--window-size={window}", f"--user-data-dir={folder.name}/profile", *flags]
            address = f"http://127.0.0.1:{server.server_port}/report.html"
            done = subprocess.run([*command, "--dump-dom", address], capture_output=True, text=True, timeout=120)
        finally:
            server.shutdown()
    match = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stderr[-2000:]
    return json.loads(html.unescape(match.group(1))), asked


@pytest.fixture(scope="module")
def desktop(page):
    return look(page)


NOISE = np.random.default_rng(0).integers(0, 5, (200, 8))
PICTURES = {"k", "inputs", "flow inputs", "flow k", "clusters", "coassociation", "confidence", "agreement"}


def test_every_picture_is_drawn_without_an_error_or_a_request(desktop):
    seen, asked = desktop
    assert seen["pictures"] == dict.fromkeys(seen["pictures"], True) and set(seen["pictures"]) == PICTURES
    assert seen["errors"] == [] and seen["requests"] == [] and asked == ["/report.html"]


def test_camps_and_profiles_are_drawn():
    rng = np.random.default_rng(0)
    camps = [rng.integers(4, size=300)] * 4 + [rng.integers(3, size=300)] * 4
    table = [np.where(rng.random(300) < 0.1, rng.integers(3, size=300), camp) for camp in camps]
    told = summarize(np.column_stack(table), engine="numpy")
    assert len(told.camps) == 2
    profile = {"cluster": [0, 0, 1, 1], "feature": ["a", "b"] * 2, "size": [9, 9, 5, 5], "effect": [-1, np.nan, 1, 0.5]}
    profile |= {"inside": [1.0, 2.0, 3.0, 4.0], "rest": [3.0, 4.0, 1.0, 2.0]}
    seen, _ = look(render(replace(told, profile=profile)), probe=PICTURES_ALONE)
    assert seen["errors"] == [] and all(seen["pictures"].values()) and all(seen["readouts"].values())
    assert {"flow camps", "effects"} <= set(seen["pictures"])
    assert seen["readouts"]["effects"] == "cluster 1, b: effect 0.50"


def test_the_arrow_keys_read_every_picture(desktop):
    seen, _ = desktop
    assert seen["focusable"]
    told = seen["readouts"]
    assert re.fullmatch(r"cluster 0, items? .* of the order × cluster 0, .*: [01]\.\d{3}", told["coassociation"])
    assert re.fullmatch(r"run <0> × run <0>: 1\.000", told["agreement"])
    assert re.fullmatch(r"k = 3: agreement 0\.\d{3}", told["k"])
    assert re.fullmatch(r"cluster 1: \d+ items, density 0\.\d{3}", told["clusters"])
    assert re.search(r"cluster \d → k = \d.*, cluster \d: \d+ items", told["flow k"])
    assert all(told.values())


def test_the_table_of_items_is_sorted_and_filtered(desktop):
    seen, _ = desktop
    assert seen["rising"] == sorted(seen["rising"]) and len(seen["rising"]) == 15
    assert seen["falling"] == sorted(seen["falling"], reverse=True) and seen["falling"][0] > seen["rising"][-1]
    assert seen["sorted"] == "descending"
    clusters, margins = seen["filtered"]
    assert set(clusters) == {"2"} and max(margins) < 0.5 and re.fullmatch(r"\d+ of \d+ rows", seen["status"])


def test_every_number_is_saved_and_formulas_are_marked(desktop):
    saved = desktop[0]["saved"]
    assert set(saved) >= (PICTURES - {"inputs"}) | {"items", "classes", "clusterings", "alternatives"}
    assert saved["clusterings"].splitlines()[1].startswith("'=1+1,5,1,")
    assert saved["items"].splitlines()[0] == "item,class,confidence,cluster,own,nearest,other,margin,role"


@pytest.mark.parametrize("table", [[[0], [0]], [[0, 1], [1, 0]], NOISE, np.full((20, 3), 4)])
def test_odd_input_has_a_page_that_works(table):
    seen, _ = look(ca.report.write_report(table, engine="numpy"), probe=PICTURES_ALONE)
    assert seen["errors"] == [] and all(seen["pictures"].values()) and all(seen["readouts"].values())


def test_it_fits_a_phone(page):
    seen, _ = look(page, window="500,900")
    assert seen["width"] <= 0  # nothing sticks out sideways
    assert all(seen["pictures"].values()) and seen["errors"] == []


def test_it_prints_to_pdf(page, tmp_path):
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={tmp_path / 'report.pdf'}"]
    subprocess.run([*command, str(tmp_path / "report.html")], capture_output=True, timeout=120, check=True)
    pdf = (tmp_path / "report.pdf").read_bytes()
    assert pdf[:5] == b"%PDF-" and 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20


def test_it_follows_dark_mode_and_the_button(page, desktop):
    def brightness(colour: str) -> int:
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    dark, _ = look(page, "--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    light = desktop[0]
    assert brightness(light["background"]) > 600
    assert brightness(light["toggled"]) < 150
    assert brightness(dark["background"]) < 150
    assert brightness(dark["toggled"]) > 600
