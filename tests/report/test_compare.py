"""compare: every method scored alike, failures kept in their rows, as table, JSON and plot."""

import json
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
import oracle
from coassoc import cli
from coassoc.consensus.registry import compared_methods
from coassoc.report.comparison import compare, left_out_nmi

QUICK = ["kmeans", "sec", "ecc", "mcla", "cspa", "eac-average", "eac-single", "eac-micro"]


TABLE = oracle.planted(np.random.default_rng(0), n=120, p=8, k=4, noise=0.3, most=8)


def test_scores_are_those_of_the_library():
    table, classes = TABLE, np.repeat(["a", "b", "c"], 40)
    result = compare(table, 4, QUICK, classes, engine="numpy")
    assert [row.method for row in result.rows] == QUICK
    for row in result.rows:
        labels = result.labels[row.method]
        assert row.error is None and row.seconds > 0
        assert row.density == ca.density(table, labels, engine="numpy")
        assert row.ensemble_nmi == pytest.approx(ca.ensemble_nmi(table, labels, engine="numpy"), rel=1e-12)
        assert row.class_nmi == ca.nmi(classes, labels)
        assert row.class_ari == adjusted_rand_score(classes, labels)
        assert row.clusters == len(set(labels.tolist()))
    assert result.zero_effort_nmi == ca.zero_effort(table)._asdict()
    assert result.zero_effort_density == ca.zero_effort(table, "density")._asdict()
    expected = ca.SEC(4, random_state=0, engine="numpy").fit(table).labels_
    assert (result.labels["sec"] == expected).all()


class FirstColumn(ClusterMixin, BaseEstimator):
    """A clusterer of others: it gives every row a cluster, also rows without a label."""

    def fit(self, X, y=None):
        self.labels_ = X[:, 0] + 1
        return self


@pytest.mark.parametrize("model", [ca.KMeansConsensus(4, random_state=0), ca.Consensus(random_state=0), FirstColumn()])
def test_the_nmi_left_out_is_that_of_whole_fits_to_two_halves(model):
    table = TABLE.copy()
    order = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0x1EF7,))).permutation(8)
    table[:30, order[:4]] = -1  # items that only one half labels
    found = []
    for used, left in ((order[:4], order[4:]), (order[4:], order[:4])):
        # a missing label moves the codes of the other labels of its column, and nothing else
        labels = clone(model).fit(table[:, used]).labels_
        known = (table[:, used] >= 0).any(axis=1)
        assert known.sum() == (90 if used[0] == order[0] else 120)
        found += [ca.nmi(labels[known], table[known, j]) for j in left]
    assert left_out_nmi(model, ca.Ensemble(table), 0, "numpy") == pytest.approx(np.mean(found))


def test_all_methods_of_the_installation_run_by_default():
    result = compare(TABLE[:60], 3, engine="numpy")
    assert [row.method for row in result.rows] == list(compared_methods())
    assert [row.method for row in result.rows if row.error] == []


def test_a_method_that_cannot_run_says_why_and_the_others_are_compared_and_drawn(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    result = compare(TABLE, 3, ["kmeans", "cspa", "sec"], engine="numpy")
    assert "pip install 'coassoc[metis]'" in result["cspa"].error
    assert set(result.labels) == {"kmeans", "sec"} and "cspa: did not run." in "\n".join(result.notes())
    ax = pytest.importorskip("matplotlib.figure").Figure().subplots()
    assert result.plot(ax=ax) is ax
    assert [text.get_text() for text in ax.get_yticklabels()] == ["sec", "kmeans"]
    density, best = ax.get_lines()[:2]
    assert density.get_xdata().tolist() == [result["sec"].density, result["kmeans"].density]
    assert best.get_xdata()[0] == result.zero_effort_density["best"]


def test_says_when_the_best_single_clustering_agrees_more():
    rng = np.random.default_rng(1)
    good = np.repeat(np.arange(6), 20)
    table = np.stack([good, good, good, rng.integers(6, size=120)], axis=1)
    result = compare(table, 2, ["kmeans"], engine="numpy")
    assert result["kmeans"].left_out_nmi < result.zero_effort_nmi["best"]
    assert any("kmeans: NMI left out is below" in note for note in result.notes())
    fine = compare(table, 6, ["kmeans"], engine="numpy")
    assert not any("left out is below" in note for note in fine.notes())


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="at least one method"):
        compare(TABLE, 3, [])
    with pytest.raises(ValueError, match="classes must have one entry per item"):
        compare(TABLE, 3, ["kmeans"], classes=[1, 2])


def test_command_prints_a_table_or_json_and_draws(tmp_path, capsys):
    ensemble, picture = ca.Ensemble(TABLE), tmp_path / "compare.png"
    ensemble.classes = np.arange(120) // 40
    ca.write_ensemble(tmp_path / "labels.csv", ensemble)
    words = ["compare", str(tmp_path / "labels.csv"), "-k", "4"]
    assert cli.main([*words, "-m", "kmeans,eac", "--class-column", "class"]) == 0
    out = capsys.readouterr().out
    for part in ("120 items, 8 clusterings, 4 clusters asked for", "kmeans", "eac ", "class ARI", "the best"):
        assert part in out
    assert cli.main([*words, "--exclude", "class", "-m", "kmeans,sec", "--json", "--plot", str(picture)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in data["methods"]] == ["kmeans", "sec"]
    assert data["methods"][0]["density"] == compare(TABLE, 4, ["kmeans", "sec"])["kmeans"].density
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["compare.png", "labels.csv"]
