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

import numpy as np
import pytest

import coassoc as ca

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
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
  const visible = (e) => { const b = e.getBoundingClientRect(); return b.width > 40 && b.height > 40; };
  seen.pictures = all("figure svg[role=img], figure img").map(visible);
  seen.loaded = all("figure img").map((i) => i.complete && i.naturalWidth > 0);
  seen.marks = all("[data-tip]").length;
  seen.width = document.documentElement.scrollWidth - innerWidth;
  seen.background = getComputedStyle(document.body).backgroundColor;

  const bar = document.querySelector("#clusters [data-tip]");
  bar.dispatchEvent(new PointerEvent("pointerenter"));
  seen.tip = document.getElementById("tip").textContent;
  bar.dispatchEvent(new PointerEvent("pointerleave"));
  seen.hidden = document.getElementById("tip").hidden;

  const table = document.querySelector("#clusters table");
  const sizes = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.v));
  const head = table.querySelectorAll("th button")[1];
  head.focus();
  seen.focusable = document.activeElement === head;
  head.click();
  seen.rising = sizes();
  head.click();
  seen.falling = sizes();

  const frame = document.querySelector("[data-matrix=coassociation]");
  frame.focus();
  frame.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true, cancelable: true}));
  seen.readout = frame.parentElement.querySelector(".readout").textContent;

  const first = document.querySelector("#stability svg [data-tip][tabindex='0']");
  first.focus();
  first.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true, cancelable: true}));
  seen.moved = document.activeElement !== first && document.activeElement.hasAttribute("data-tip");

  for (const button of all("button.save")) button.click();
  seen.saved = all("button.save").map((b) => Number(b.dataset.saved || 0));

  document.getElementById("theme").click();
  seen.toggled = getComputedStyle(document.body).backgroundColor;
  await pause(50);
  seen.requests = performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !n.startsWith("data:"));
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
});
</script>"""


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(8)
    truth = rng.integers(0, 5, size=400)
    table = np.column_stack([np.where(rng.random(400) < 0.15, rng.integers(0, 5, 400), truth) for _ in range(10)])
    X = np.eye(5)[truth] + rng.normal(scale=0.1, size=(400, 5))
    ensemble = ca.Ensemble.from_partitions(list(table.T), names=[f"run <{j}>" for j in range(10)])
    return ca.report(ensemble, 5, features=X, k_range=range(2, 5), compare=["bisecting", "sec"], engine="numpy")


def look(page: str, *flags: str, window: str = "1200,900") -> tuple[dict, list[str]]:
    """What the probe saw, and every path the browser asked the page's server for."""
    asked: list[str] = []
    body = page.replace("<style>", WATCH + "<style>", 1).replace("</body>", PROBE + "</body>", 1).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200 if self.path == "/report.html" else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            if self.path == "/report.html":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, tempfile.TemporaryDirectory() as profile:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            command = [CHROMIUM, *FLAGS, f"--window-size={window}", f"--user-data-dir={profile}", *flags]
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


def test_every_picture_is_visible_and_loaded(desktop):
    seen, _ = desktop
    assert len(seen["pictures"]) >= 10
    assert all(seen["pictures"])
    assert seen["loaded"] == [True, True]
    assert seen["marks"] > 60


def test_nothing_goes_wrong_in_the_console(desktop):
    assert desktop[0]["errors"] == []


def test_no_request_leaves_the_page(desktop):
    seen, asked = desktop
    assert seen["requests"] == []
    assert asked == ["/report.html"]


def test_hovering_tells_the_number(desktop):
    seen, _ = desktop
    assert re.match(r"cluster 0: \d+ items, density 0\.\d+", seen["tip"])
    assert seen["hidden"]


def test_tables_sort_both_ways(desktop):
    seen, _ = desktop
    assert seen["focusable"]
    assert seen["rising"] == sorted(seen["rising"])
    assert seen["falling"] == sorted(seen["rising"], reverse=True)
    assert len(seen["rising"]) == 5


def test_pictures_answer_to_the_keyboard(desktop):
    seen, _ = desktop
    assert re.match(r"cluster 0, items? [\d, to]+ of the order × cluster 0, .*: [01]\.\d{3}", seen["readout"])
    assert seen["moved"]


def test_numbers_are_saved(desktop):
    seen, _ = desktop
    assert len(seen["saved"]) >= 10
    assert min(seen["saved"]) > 20


def test_it_fits_a_phone(page):
    seen, _ = look(page, window="500,900")
    assert seen["width"] <= 0  # nothing sticks out sideways
    assert all(seen["pictures"])
    assert seen["errors"] == []


def test_it_follows_dark_mode_and_the_button(page, desktop):
    def brightness(colour: str) -> int:
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    dark, _ = look(page, "--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    light = desktop[0]
    assert brightness(light["background"]) > 600
    assert brightness(light["toggled"]) < 150
    assert brightness(dark["background"]) < 150
    assert brightness(dark["toggled"]) > 600
