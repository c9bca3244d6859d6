"""The page: self-contained, small whatever n, safe with hostile names, honest about noise, with all its numbers."""

from __future__ import annotations

import html.parser
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
from coassoc.report.comparison import left_out_nmi
from coassoc.report.page import cards, findings, render, tables
from coassoc.report.plain_text import number
from coassoc.report.summary import summarize

pytest.importorskip("jinja2")
RNG = np.random.default_rng(8)
TRUTH = RNG.integers(0, 4, size=120)
TABLE = np.column_stack([np.where(RNG.random(120) < 0.15, RNG.integers(0, 4, 120), TRUTH) for _ in range(8)])
CLASSES = ["ant", "bee", "cat", "dog"]
NOISE = np.random.default_rng(0).integers(0, 5, (200, 8))


@pytest.fixture(scope="module")
def told():
    ensemble = ca.Ensemble(TABLE)
    ensemble.classes = np.array(CLASSES)[TRUTH]
    return summarize(ensemble, engine="numpy", title="A <title> & more")


class Reader(html.parser.HTMLParser):
    """Tags, their attributes, and what must be closed."""

    VOID = ("meta", "link", "img", "input", "br")

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def all(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]


def embedded(page: str):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))


def test_it_is_well_formed_and_asks_nothing_of_the_network(told):
    reader = Reader(render(told))
    for name in ("src", "href", "srcset", "action"):
        assert all(value.startswith(("data:", "#")) for value in reader.all(name))
    policies = [a["content"] for t, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]
    assert "@import" not in render(told)


def test_every_picture_and_table_has_its_numbers(told):
    page = render(told)
    reader, data = Reader(page), embedded(page)["tables"]
    assert data == json.loads(json.dumps(tables(told), allow_nan=False))
    assert set(data) == set(reader.all("data-save"))
    drawn = {*reader.all("data-chart"), *reader.all("data-table")}
    assert drawn - {"inputs"} == set(data) and "inputs" in drawn  # which shows the table of clusterings
    assert {name[1:] for name in reader.all("href")[2:]} <= {*reader.all("id")}
    for name, table in data.items():
        assert table["rows"] and all(len(row) == len(table["columns"]) for row in table["rows"]), name
    blocks = np.array([row[1:] for row in data["coassociation"]["rows"]], dtype=float)
    assert np.abs(blocks - told.blocks.values).max() < 6e-4
    assert [row[1] for row in data["clusters"]["rows"]] == told.clusters["size"].tolist()
    assert [number(v, 3) for v in (-0.0001, -0.0006, None, float("nan"))] == ["0.000", "-0.001", "–", "–"]
    assert "A &lt;title&gt; &amp; more" in page and "120 items · 8 clusterings of\n      4 clusters" in page
    # it opens with the verdict and the number of clusters
    first, rest = told.consensus["verdict"].split(". ", 1)
    assert page.index(f">{first}. <span>{rest}</span>") < page.index('class="cards"')
    assert f"The clusterings suggest <strong>{told.number['suggested']}</strong>" in page
    assert told.number["suggested"] == 4 == told.consensus["n_clusters"]


def test_flows_and_classes_count_every_item(told):
    data = tables(told)
    rows = data["flow k"]["rows"]
    for pair in {(row[0], row[2]) for row in rows}:
        assert sum(row[4] for row in rows if (row[0], row[2]) == pair) == 120
    assert {name for row in data["flow k"]["rows"] for name in (row[0], row[2])} >= {"k = 3", "k = 4 (this report)"}
    columns = list(dict.fromkeys(name for row in data["flow inputs"]["rows"] for name in (row[0], row[2])))
    assert columns == [*"01234567", "this report"]  # of as many clusters, the answer comes last
    for name, *counts in data["classes"]["rows"]:
        assert counts == np.bincount(told.labels[np.array(CLASSES)[TRUTH] == name], minlength=4).tolist()


@pytest.mark.parametrize("k", [None, 5])
def test_noise_gets_a_page_without_a_consensus(k):
    told = summarize(NOISE, k, engine="numpy")
    page = render(told)
    assert "No consensus: the 8 clusterings agree no more than chance" in page
    assert "another number of clusters will not" in page
    assert "surely placed" not in page and "support no number" in page
    assert not list(findings(told))
    assert [card[:3] for card in cards(told)] == [("clusters", str(told.consensus["n_clusters"]), "warn")]


def test_consensus_and_members_are_compared_left_out_and_at_the_same_k(told):
    matched = told.consensus["left_out"]
    members = [np.mean([ca.nmi(TABLE[:, i], TABLE[:, j]) for j in range(8) if j != i]) for i in range(8)]
    assert matched["member"] == pytest.approx(max(members)) and matched["name"] == str(int(np.argmax(members)))
    assert matched["k"] == 4
    assert matched["consensus"] == left_out_nmi(ca.Consensus(4, random_state=0), ca.Ensemble(TABLE), 0, "numpy")
    value, best = round(matched["consensus"], 2), round(max(members), 2)
    assert list(cards(told))[3][:3] == ("agreement with clusterings left out", f"{value:.2f}", "good")
    assert list(cards(told))[3][4].startswith(f"Good: at least {best:.2f}, that of the best single clustering")
    fine = np.column_stack([TABLE, TABLE[:, :1] * 2 + (np.arange(120) % 2)[:, None]] * 1)
    other = summarize(fine, 2, method="kmeans", engine="numpy").consensus["left_out"]
    assert other == summarize(fine, 4, method="kmeans", engine="numpy").consensus["left_out"] and other["k"] == 4


def test_it_opens_with_at_most_four_numbers_that_say_what_is_good_and_bad(told):
    page, told_cards = render(told), list(cards(told))
    names = ("clusters", "stability", "items surely placed", "agreement with clusterings left out")
    assert [card[:3:2] for card in told_cards] == [(name, "good") for name in names]
    for name, value, _, _, scale in told_cards:
        assert scale.startswith("Good: ") and " Bad: " in scale
        assert page.index(name) < page.index(f">{value}<") < page.index('id="number"')
    answer = ca.Consensus(random_state=0, engine="numpy").fit(TABLE)
    assert told_cards[1][1] == f"{answer.stability_:.2f}"
    assert told_cards[2][1] == f"{100 * (answer.confidence_ >= 0.85).mean():.1f} %"
    closest = "The clustering <strong>{}</strong> is closest to this consensus (adjusted Rand index {:.2f})."
    assert closest.format(*answer.nearest_partition_[1:]) in page
    shaky = replace(told, consensus={**told.consensus, "stability": 0.4, "sure_share": 0.6, "n_clusters": 9})
    assert [card[2] for card in cards(shaky)][:3] == ["warn", "warn", "fair"]


def test_camps_come_first_with_members_numbers_and_disputed_items():
    rng = np.random.default_rng(0)
    camps = [rng.integers(4, size=300)] * 5 + [rng.integers(3, size=300)] * 4
    table = [np.where(rng.random(300) < 0.1, rng.integers(3, size=300), camp) for camp in camps]
    names = [*(f"colour {i}" for i in range(5)), *(f"shape {i}" for i in range(4))]
    told = summarize(ca.Ensemble.from_partitions(table, names=names), engine="numpy")
    answer = ca.Consensus(random_state=0, engine="numpy").fit(np.column_stack(table))
    assert [camp["members"] for camp in told.camps] == [names[:5], names[5:]]
    assert [camp["clusters"] for camp in told.camps] == [4, 3] == [a.n_clusters for a in answer.alternatives_[:2]]
    assert told.camps[0]["disputed"] == answer.disputed_.mean() > 0.5
    page = render(told)
    texts = ("are two camps of 5 and 4", "camp 1: 5", "camp 2: 4", "are disputed", "stability</span>")
    assert [page.index(text) for text in texts] == sorted(map(page.index, texts))
    assert "colour 0, colour 1" in page and 'data-chart="flow camps"' in page
    assert sum(row[4] for row in tables(told)["flow camps"]["rows"]) == 300
    assert next(cards(told))[2] == "warn" and summarize(TABLE, engine="numpy").camps == []


def test_the_profile_names_five_features_per_cluster(told):
    rng = np.random.default_rng(0)
    effects, order = rng.normal(size=(2, 40)).round(3), rng.permutation(80)
    profile = {
        "cluster": np.repeat([0, 1], 40), "feature": np.array([f"f{i}" for i in range(40)] * 2),
        "size": np.repeat([70, 50], 40), "inside": rng.normal(size=80), "rest": np.zeros(80), "effect": effects.ravel(),
    }  # fmt: skip
    data = tables(replace(told, profile={name: values[order] for name, values in profile.items()}))
    for cluster in (0, 1):
        named = [row[1] for row in data["profile"]["rows"] if row[0] == cluster]
        assert named == [f"f{i}" for i in sorted(range(40), key=lambda i: -abs(effects[cluster, i]))[:5]]
    drawn = data["effects"]["columns"][1:]
    assert len(drawn) == 25 and set(drawn) >= {row[1] for row in data["profile"]["rows"][:3]}
    assert data["effects"]["rows"][1][1:] == [effects[1, int(name[1:])] for name in drawn]


def test_the_verdict_is_not_taken_for_one_on_other_labels():
    labels = np.where(np.arange(120) < 20, -1, TRUTH)
    told = summarize(TABLE, labels=labels, engine="numpy")
    texts = [text for _, text in findings(told)]
    both = told.labels >= 0
    index = adjusted_rand_score(ca.Consensus(random_state=0).fit(TABLE).labels_[both], TRUTH[both])
    assert texts[0].endswith(f"(given labels); their adjusted Rand index with its answer is {index:.3f}.")
    assert texts[-1] == "Items without a label, which take no part: 20." and "surely placed" not in render(told)


def test_hostile_names_stay_text():
    evil = "</script><script>alert(1)</script>"
    ensemble = ca.Ensemble.from_partitions(list(TABLE.T), names=[evil, '"><img src=x onerror=alert(1)>', *"cdefgh"])
    ensemble.item_ids = np.array([f"{evil}{i}" for i in range(120)], dtype=object)
    ensemble.classes = np.where(TRUTH > 1, evil, "other")
    page = render(summarize(ensemble, 4, engine="numpy", title=evil))
    reader = Reader(page)
    assert [tag for tag, _ in reader.tags].count("script") == 3
    assert not any("onerror" in attributes for _, attributes in reader.tags)
    assert evil in embedded(page)["tables"]["agreement"]["columns"]


def test_it_stays_small_with_many_items_partitions_and_clusters():
    rng, n = np.random.default_rng(0), 6_000
    centres = rng.integers(0, 40, size=(300, 10))
    table = centres[rng.integers(0, 300, size=n)]
    table = np.where(rng.random(table.shape) < 0.1, rng.integers(0, 40, table.shape), table)
    ensemble = ca.Ensemble(table)
    ensemble.item_ids = np.array([f"a rather long name of an item, number {i}" for i in range(n)])
    page = ca.report.write_report(ensemble, labels=np.arange(n) % 500)
    assert len(page.encode()) < 5_000_000
    rows = embedded(page)["tables"]["items"]["rows"]
    assert len(rows) == 5000 and "5,000 of 6,000 items: the least certain" in page
    margins = ca.item_consensus(ensemble, np.arange(n) % 500).margin
    assert [row[-2] for row in rows] == pytest.approx(np.sort(margins)[:5000], abs=1e-5)


def test_the_file_is_whole_or_absent_and_a_label_file_can_be_named(tmp_path):
    target = tmp_path / "report.html"
    ca.write_ensemble(tmp_path / "labels.csv", ca.Ensemble(TABLE))
    assert ca.report.write_report(tmp_path / "labels.csv", 4, path=target, engine="numpy") == target
    text = target.read_text()
    assert text.rstrip().endswith("</html>")
    with pytest.raises(FileExistsError, match="--force"):
        ca.report.write_report(TABLE, 4, path=target)
    ca.report.write_report(TABLE, 4, path=target, force=True, engine="numpy")
    assert embedded(target.read_text())["tables"]["clusters"] == embedded(text)["tables"]["clusters"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.csv", "report.html"]
