"""What the commands do: demo, fit, score and report on real files, JSON for machines, nothing overwritten."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import BytesIO

import numpy as np
import pandas as pd
import pytest

import coassoc as ca
from coassoc.cli import Progress, main
from coassoc.consensus.auto import evidence
from coassoc.report.plain_text import seconds

RNG = np.random.default_rng(4)
TRUTH = RNG.integers(0, 3, size=70)
TABLE = np.column_stack([np.where(RNG.random(70) < 0.1, RNG.integers(0, 3, 70), TRUTH) for _ in range(5)])
IDS = [f"x{i:03d}" for i in range(70)]


@pytest.fixture
def labels(tmp_path):
    frame = pd.DataFrame(TABLE, index=pd.Index(IDS, name="id"), columns=list("abcde"))
    frame.assign(kind=np.array(["u", "v", "w"])[TRUTH]).to_csv(tmp_path / "labels.csv")
    return tmp_path / "labels.csv"


@pytest.fixture
def run(capsys):
    """Runs a command; what it prints, read where it is JSON."""

    def command(*words):
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out) if "--json" in words else said.out

    return command


def refused(capsys, *words) -> str:
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


def test_fit_writes_the_library_consensus_back_into_the_table(labels, tmp_path, run):
    out = tmp_path / "out.csv"
    text = run("fit", labels, "-k", 3, "--class-column", "kind", "--seed", 2, "-o", out, "--engine", "numpy")
    expected = ca.KMeansConsensus(3, random_state=2, engine="numpy").fit(TABLE).labels_
    found = pd.read_csv(out)
    assert found.pop("consensus").tolist() == ca.metrics.order_by_size(expected).tolist()
    assert found.equals(pd.read_csv(labels))
    assert "70 items, 5 clusterings of 3 clusters" in text
    assert "one clustering, the best" in text and "NMI with the known classes" in text


def test_fit_json_says_everything_and_matches_the_library(labels, tmp_path, run):
    told = run("fit", labels, "-k", 3, "-m", "kmeans", "--exclude", "kind", "--json", "--engine", "numpy")
    found = ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE).labels_
    assert told["scores"]["density"] == ca.density(TABLE, found)
    assert told["scores"]["ensemble_nmi"] == ca.ensemble_nmi(TABLE, found)
    assert told["scores"]["zero_effort_nmi"]["best"] == ca.zero_effort(TABLE).best
    assert sum(told["cluster_sizes"]) == 70 and told["method"] == "KMeansConsensus"
    chance = told["chance"]
    assert chance["exceeded"] is True and chance["warning"] is None
    assert chance["used_clusterings"] == 5 and chance["p_value"] < 1e-3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.csv"]


def test_fit_chooses_the_number_of_clusters_and_says_why(labels, run):
    answer = ca.Consensus(random_state=0).fit(TABLE)
    for k in ((), ("-k", "auto"), ("-k", "2:9")):
        told = run("fit", labels, *k, "--exclude", "kind", "--json")
        assert told["method"] == "Consensus" and told["clusters"] == answer.n_clusters_ == 3
        assert told["verdict"] == answer.verdict_ and told["supported"] is True
        assert told["alternatives"] and len(told["partition_weights"]) == 5
    assert answer.verdict_ in run("fit", labels, "--exclude", "kind")
    assert run("fit", labels, "-k", "5:6", "--exclude", "kind", "--json")["clusters"] in (5, 6)


@pytest.mark.parametrize(("kind", "scale"), [("csv", ()), ("parquet", ("--memory", "1MB")), ("npz", ())])
def test_confidence_is_one_more_column(labels, tmp_path, kind, scale, run):
    out = tmp_path / f"out.{kind}"
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    run("fit", labels, "--exclude", "kind", "--confidence", "--name", "answer", "-o", out, *scale)
    answer = ca.Consensus(random_state=0).fit(TABLE)
    found = {"csv": pd.read_csv, "parquet": pd.read_parquet, "npz": np.load}[kind](out)
    assert [int(label) for label in found["answer"]] == answer.labels_.tolist()
    assert [float(x) for x in found["answer_confidence"]] == pytest.approx(answer.confidence_.tolist(), abs=5.1e-5)


def test_own_estimators_come_from_the_current_folder(labels, tmp_path, monkeypatch, run, capsys):
    (tmp_path / "mine_own.py").write_text(
        "import coassoc, sklearn.cluster\nclass Mine(coassoc.KMeansConsensus):\n    pass\n"
        "def foreign():\n    return sklearn.cluster.AgglomerativeClustering(linkage='average')\n"
    )
    monkeypatch.chdir(tmp_path)
    asked = ("--exclude", "kind", "-k", 3)
    told = [run("fit", labels, *asked, "-m", method, "--json") for method in ("mine_own:Mine", "kmeans")]
    assert told[0]["method"] == "Mine" and told[0]["cluster_sizes"] == told[1]["cluster_sizes"]
    text = run("compare", labels, *asked, "-m", "mine_own:Mine,kmeans,mine_own:foreign")
    assert "mine_own:Mine" in text and "mine_own:foreign" in text and "did not run" not in text
    for wrong in ("mine_own:Other", "no_such_module:X"):
        assert f"method '{wrong}' cannot be imported" in refused(capsys, "fit", labels, "-m", wrong)


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_fit_between_pipes(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    ca.write_ensemble(path, ca.Ensemble(TABLE))
    done = subprocess.run(
        [sys.executable, "-m", "coassoc", "fit", "-", "-k", "3", "-m", "BisectingConsensus", "-o", "-", "--json"],
        input=path.read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    told, rows = json.loads(done.stderr), pd.read_csv(BytesIO(done.stdout))
    assert told["items"] == len(rows) == 70 and told["clusters"] == 3
    assert set(rows) >= {"consensus"} | ({*told["columns"]} if kind == "csv" else set())


def test_fit_joins_one_file_per_clustering(tmp_path, run):
    for j in range(3):
        rows = [f"{IDS[i]},{TABLE[i, j]}" for i in range(70) if i % 10 != j]
        (tmp_path / f"run{j}.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    run("fit", *(tmp_path / f"run{j}.csv" for j in range(3)), "-k", 3, "-o", tmp_path / "joined.csv")
    found = pd.read_csv(tmp_path / "joined.csv", index_col="id")["consensus"].sort_index()
    assert found.index.tolist() == IDS and ca.nmi(TRUTH, found) > 0.7


def test_an_earlier_consensus_among_the_clusterings_is_noticed(labels, tmp_path, run, capsys):
    out = tmp_path / "out.csv"
    run("fit", labels, "-k", 3, "--exclude", "kind", "-o", out)
    assert main(["fit", str(out), "-k", "3", "--exclude", "kind"]) == 0
    assert "--exclude consensus" in capsys.readouterr().err
    assert main(["fit", str(out), "-k", "3", "--exclude", "kind", "consensus"]) == 0
    assert capsys.readouterr().err == ""


def test_score_agrees_with_the_library(labels, tmp_path, run):
    out, items, other = tmp_path / "out.csv", tmp_path / "items.csv", tmp_path / "other.csv"
    run("fit", labels, "-k", 3, "--class-column", "kind", "-o", out)
    told = run("score", out, "--class-column", "kind", "--json")
    found = pd.read_csv(out)["consensus"].to_numpy()
    assert told["density"] == ca.density(TABLE, found) and told["partitions"] == 5
    assert told["ensemble_nmi"] == ca.ensemble_nmi(TABLE, found)
    assert told["class_nmi"] == ca.nmi(TRUTH, found)
    text = run("score", out, "--class-column", "kind", "--items", items)
    assert "says nothing about true classes" in text
    table = pd.read_csv(items, index_col="item")
    assert table.index.tolist() == IDS and table["own"].tolist() == ca.item_consensus(TABLE, found).own.tolist()
    # another file, joined by id
    pd.DataFrame({"id": IDS, "mine": TRUTH}).sample(frac=1, random_state=0).to_csv(other, index=False)
    words = ("--exclude", "kind", "--labels-file", other, "--labels", "mine", "--json")
    assert run("score", labels, *words)["density"] == ca.density(TABLE, TRUTH)


def test_report_writes_a_page(labels, tmp_path, run, capsys):
    pytest.importorskip("jinja2")
    page, out, features = tmp_path / "report.html", tmp_path / "out.csv", tmp_path / "x.npy"
    told = run("report", labels, "-k", 3, "--class-column", "kind", "-o", page, "--json")
    assert told["bytes"] == page.stat().st_size < 5_000_000 and told["n_clusters"] == 3
    text = page.read_text()
    assert "Consensus of labels.csv" in text and "Known classes in the clusters" in text
    assert told["supported"] is True and told["camps"] == [] and 0.8 < told["nearest"]["ari"] <= 1
    # on a given consensus, and with features
    run("fit", labels, "-k", 3, "--exclude", "kind", "-o", out)
    np.save(features, 9 * np.eye(3)[TRUTH] + RNG.normal(scale=0.1, size=(70, 3)))
    given = ("report", out, "--labels", "consensus", "-o", page, "--force")
    run(*given, "--exclude", "kind", "--features", features)
    text = page.read_text()
    assert "labels given" in text and "What tells them apart" in text
    # by id: every item needs features
    (tmp_path / "short.csv").write_text("name,x,y\n" + "".join(f"{IDS[i]},{i},{-i}\n" for i in range(1, 70)))
    error = refused(capsys, *given, "--features", tmp_path / "short.csv", "--features-id", "name")
    assert "has no row for the item 'x000'" in error


def test_report_takes_ids_of_features_and_excludes_their_columns(labels, tmp_path, run, capsys):
    pytest.importorskip("jinja2")
    features = tmp_path / "features.csv"
    lines = [f"{IDS[i]},{i},note {i},{i % 5 or ''}\n" for i in range(70)]
    features.write_text("id,x,note,y\n" + "".join(lines[::-1]))  # joined by id
    words = ["report", labels, "-k", 3, "--class-column", "kind", "--features", features, "--force"]
    words += ["-o", tmp_path / "page.html"]
    error = refused(capsys, *words)
    assert "column 'note', row 1 is 'note 69', not a number; leave it out (--exclude), or code it as numbers" in error
    run(*words, "--exclude", "note")
    page = (tmp_path / "page.html").read_text()
    told = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))["tables"]["profile"]
    inside = {tuple(row[:3:2]): row[3] for row in told["rows"]}  # of cluster and feature
    items = np.flatnonzero(ca.metrics.order_by_size(ca.Consensus(3, random_state=0).fit(TABLE).labels_) == 0)
    assert {name for _, name in inside} == {"x", "y"}
    assert inside[0, "x"] == pytest.approx(items.mean(), rel=1e-5)
    assert inside[0, "y"] == pytest.approx((items % 5)[items % 5 > 0].mean(), rel=1e-5)


def test_fit_says_what_the_verdict_says_where_a_sample_is_compared(tmp_path, run, monkeypatch):
    monkeypatch.setattr(evidence, "MOST_COMPARED", 25)
    rng = np.random.default_rng(0)
    weak = np.where(rng.random((1000, 3)) < 0.6, rng.integers(0, 4, (1000, 3)), np.arange(1000)[:, None] % 4)
    np.save(tmp_path / "weak.npy", weak)
    told = run("fit", tmp_path / "weak.npy", "--json")
    assert told["supported"] is told["chance"]["exceeded"] is False and told["verdict"].startswith("No consensus")
    assert f"(p = {told['chance']['p_value']:.2g})" in told["verdict"]
    assert run("fit", tmp_path / "weak.npy", "-m", "kmeans", "--json")["chance"]["exceeded"] is True


def test_random_partitions_are_no_more_than_chance(tmp_path, run, capsys):
    pytest.importorskip("jinja2")
    np.save(tmp_path / "noise.npy", np.random.default_rng(3).integers(0, 5, size=(200, 6)))
    assert run("fit", tmp_path / "noise.npy", "-k", 5, "--json")["chance"]["exceeded"] is False
    assert main(["report", str(tmp_path / "noise.npy"), "-k", "5", "-o", str(tmp_path / "report.html")]) == 0
    assert "coassoc: warning: the clusterings agree no more than chance" in capsys.readouterr().err


def test_select_k_compares_labels_with_permuted_ones_and_features_with_gaussian_data(labels, tmp_path, run):
    pytest.importorskip("matplotlib")
    words = ("select-k", labels, "--exclude", "kind", "-k", "2:5", "--references", 6)
    text = run(*words)
    assert "agree more than chance" in text and "reference: permuted" in text
    told = run(*words, "--json", "--plot", tmp_path / "k.png")
    assert told["k"] == 3 and told["structure"] is True
    assert len(told["curves"]["stability"]) == len(told["ks"]) == len(told["score"])
    assert (tmp_path / "k.png").read_bytes().startswith(b"\x89PNG")
    np.save(tmp_path / "x.npy", RNG.standard_normal((60, 2)) + 20 * (np.arange(60) % 2)[:, None])
    told = run("select-k", "--features", tmp_path / "x.npy", "-k", "2:3", "--references", 4, "--json")
    assert told["reference"] == "gaussian" and told["k"] == 2


def test_demo_runs_twice_without_a_network(tmp_path, monkeypatch, run, capsys):
    monkeypatch.chdir(tmp_path)
    text = run("demo", "--partitions", 6)
    for word in ("density", "ensemble NMI", "on average", "the best", "ms", "coassoc-demo/consensus.csv"):
        assert word in text
    assert (tmp_path / "coassoc-demo" / "coassociation.png").read_bytes().startswith(b"\x89PNG")
    found = pd.read_csv(tmp_path / "coassoc-demo" / "consensus.csv")
    assert len(found) == 1797 and ca.nmi(found["digit"], found["kmeans"]) > 0.6
    again = run("demo", "--partitions", 3, "--json")
    assert again["files"]["labels"] == "coassoc-demo-2/consensus.csv"
    assert [row["method"] for row in again["results"]][:2] == ["default consensus", "k-means consensus"]
    assert "--force" in refused(capsys, "demo", "-o", "coassoc-demo")


def test_progress_shows_on_a_terminal(labels):
    pytest.importorskip("rich")
    leader, follower = pytest.importorskip("pty").openpty()
    words = [sys.executable, "-m", "coassoc", "fit", str(labels), "-k", "3", "--exclude", "kind"]
    subprocess.run(words, stdout=subprocess.PIPE, stderr=follower, check=True)
    os.close(follower)
    shown = os.read(leader, 10_000).decode()
    os.close(leader)
    assert "reading" in shown
    assert "reading" not in shown[max(shown.rfind("\x1b[2K"), shown.rfind("\r")) :]  # and is wiped at the end


def test_progress_in_a_log_file_is_a_line_now_and_then(capsys):
    with Progress("runs", every=0.0) as progress:
        progress.step("1/4 \x1b[31mred", 0.25)
    assert re.fullmatch(r"runs: 1/4 \\u001b\[31mred, 25%, \d+ ms left\n", capsys.readouterr().err)
    assert [seconds(s) for s in (None, 0.0, 0.25, 5, 600, 7200)] == ["–", "0 ms", "250 ms", "5.0 s", "10 min", "2.0 h"]
    for quiet, every in ((True, 0.0), (False, 60.0)):
        Progress("runs", quiet, every)(1, 4)
    assert capsys.readouterr().err == ""
