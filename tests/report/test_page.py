"""The page: self-contained, small whatever n, safe with hostile names, every number downloadable."""

from __future__ import annotations

import base64
import html.parser
import json
import re
import struct
import zlib

import numpy as np
import pytest

import coassoc as ca
from coassoc.report.charts import ticks
from coassoc.report.page import render, tables, verdict
from coassoc.report.png import colours, heat_map_png, png
from coassoc.report.summary import summarize

pytest.importorskip("jinja2")
RNG = np.random.default_rng(8)
TRUTH = RNG.integers(0, 4, size=120)
TABLE = np.column_stack([np.where(RNG.random(120) < 0.15, RNG.integers(0, 4, 120), TRUTH) for _ in range(8)])


@pytest.fixture(scope="module")
def told():
    ensemble = ca.Ensemble(TABLE)
    ensemble.classes = TRUTH
    return summarize(ensemble, 4, engine="numpy", compare=["bisecting"], title="A <title> & more")


class Reader(html.parser.HTMLParser):
    """Tags, their attributes, and what must be closed."""

    VOID = ("meta", "link", "img", "line", "circle", "rect", "path", "polyline", "input", "br")

    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def embedded(page: str, name: str):
    return json.loads(re.search(rf'id="{name}">(.*?)</script>', page, re.DOTALL).group(1))


def test_it_is_well_formed_and_asks_nothing_of_the_network(told):
    page = render(told)
    reader = read(page)
    for tag, attributes in reader.tags:
        for name in ("src", "href", "srcset", "action", "data"):
            value = attributes.get(name) or ""
            assert not value or value.startswith(("data:", "#")), (tag, name, value)
    assert "http://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", page)
    assert "https://" not in page
    assert "@import" not in page
    policy = dict(reader.tags[3][1]) if reader.tags[3][0] == "meta" else {}
    assert "default-src 'none'" in next(
        a["content"] for t, a in reader.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ), policy


def test_every_section_and_picture_is_there(told):
    page = render(told)
    ids = [a.get("id") for _, a in read(page).tags]
    for name in ("overview", "input", "clusters", "coassociation", "tree", "stability", "partitions", "pairs", "over-k",
                 "comparison"):  # fmt: skip
        assert name in ids
        assert f'href="#{name}"' in page
    assert page.count('role="img"') >= 6
    assert page.count("data:image/png;base64,") == 2
    assert "Not shown: only k = 4" in page
    assert "A &lt;title&gt; &amp; more" in page


def test_the_numbers_of_every_picture_can_be_downloaded(told):
    page = render(told)
    data = embedded(page, "tables")
    wanted = {a["data-table"] for _, a in read(page).tags if "data-table" in a}
    assert wanted == set(data)
    for name, table in data.items():
        assert all(len(row) == len(table["columns"]) for row in table["rows"]), name
        assert table["rows"], name
    blocks = np.array([row[3:] for row in data["coassociation"]["rows"]], dtype=float)
    assert np.abs(blocks - told.blocks.values).max() < 1e-5
    assert [row[1] for row in data["clusters"]["rows"]] == [row["size"] for row in told.clusters]
    assert data["cdf"]["rows"][-1] == [1.0, 1.0]


def test_hostile_names_stay_text():
    evil = "</script><script>alert(1)</script>"
    ensemble = ca.Ensemble.from_partitions(list(TABLE.T), names=[evil, '"><img src=x onerror=alert(1)>', *"cdefgh"])
    ensemble.item_ids = np.array([f"{evil}{i}" for i in range(120)], dtype=object)
    page = render(summarize(ensemble, 4, engine="numpy", compare=False, title=evil))
    reader = read(page)
    assert [tag for tag, _ in reader.tags].count("script") == 3
    assert not any("onerror" in attributes for _, attributes in reader.tags)
    assert evil in embedded(page, "tables")["agreement"]["columns"]


def test_it_stays_small_with_many_items_partitions_and_clusters():
    rng, n = np.random.default_rng(0), 12_000
    centres = rng.integers(0, 40, size=(300, 30))
    table = centres[rng.integers(0, 300, size=n)]
    table = np.where(rng.random(table.shape) < 0.1, rng.integers(0, 40, table.shape), table)
    ensemble = ca.Ensemble(table)
    ensemble.item_ids = np.array([f"a rather long name of an item, number {i}" for i in range(n)])
    page = ca.report(ensemble, labels=np.arange(n) % 900, compare=False)
    assert len(page.encode()) < 5_000_000


def test_it_says_when_a_member_is_better_and_when_not(told):
    kinds = dict((text.split(" agrees ")[0], kind) for kind, text in verdict(told))
    assert kinds["The consensus"] == "good"
    poor = summarize(ca.Ensemble(TABLE), labels=np.arange(120) % 2, compare=False, engine="numpy")
    assert verdict(poor)[0][0] == "warn"
    assert "agrees less" in verdict(poor)[0][1]


def test_the_file_is_whole_or_absent(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    written = ca.report(TABLE, 4, path=target, compare=False, engine="numpy")
    assert written == target
    assert target.read_text().rstrip().endswith("</html>")
    with pytest.raises(FileExistsError, match="--force"):
        ca.report(TABLE, 4, path=target, compare=False)
    ca.report(TABLE, 3, path=target, force=True, compare=False, engine="numpy")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_label_file_can_be_named(tmp_path):
    ca.write_ensemble(tmp_path / "labels.csv", ca.Ensemble(TABLE))
    from_file = ca.report(tmp_path / "labels.csv", 4, compare=False, engine="numpy")
    assert (
        embedded(from_file, "tables")["clusters"]
        == embedded(ca.report(TABLE, 4, compare=False, engine="numpy"), "tables")["clusters"]
    )


def test_tables_hold_no_nan(told):
    json.dumps(tables(told), allow_nan=False)


def test_png_is_what_its_format_says():
    values = np.array([[0.0, 0.5], [1.0, np.nan]])
    data = heat_map_png(values, 3, [1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (width, height, depth, kind) == (6, 6, 8, 2)
    start = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[start - 8 : start - 4])
    raw = np.frombuffer(zlib.decompress(data[start : start + length]), np.uint8).reshape(6, 19)
    assert (raw[:, 0] == 0).all()
    pixels = raw[:, 1:].reshape(6, 6, 3)
    assert pixels[0, 0].tolist() == [0x44, 0x01, 0x54]
    assert pixels[4, 0].tolist() == [0xFD, 0xE7, 0x25]
    assert (pixels[3] == 255).all()
    assert png(pixels) == data


def test_png_reads_back_in_matplotlib(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    values = RNG.random((7, 5))
    (tmp_path / "m.png").write_bytes(heat_map_png(values))
    read_back = (image.imread(tmp_path / "m.png")[..., :3] * 255).round().astype(np.uint8)
    assert (read_back == colours(values)).all()


def test_the_embedded_pictures_are_the_block_means(told):
    page = render(told)
    data = base64.b64decode(re.search(r"data:image/png;base64,([^\"]+)", page).group(1))
    assert data == heat_map_png(told.blocks.values)


def test_ticks_are_round_and_inside():
    for low, high in [(0, 1), (0, 3), (-1, 1), (0, 1234567), (0.31, 0.34), (2, 10)]:
        found = ticks(low, high)
        assert 2 <= len(found) <= 11
        assert low - 1e-9 <= found[0] <= found[-1] <= high + 1e-9
