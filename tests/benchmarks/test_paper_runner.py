"""The evaluation runner and its rows: equal for any number of jobs, resumed after interruptions."""

import numpy as np
import pytest
from scipy.sparse import issparse

import coassoc as ca
from benchmarks.datasets import Dataset
from benchmarks.paper.__main__ import main
from benchmarks.paper.methods import find_method, known_methods
from benchmarks.paper.protocol import Protocol, base_ensemble, ensemble_seed, features, method_seed, scaling_of
from benchmarks.paper.runner import DataSource, run_evaluation
from benchmarks.paper.store import append_row, read_rows, row_key
from coassoc.consensus.registry import methods

PROTOCOL = Protocol(n_repeats=2, n_partitions=4, n_clusters=5, n_init=1)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(c, 0.6, size=(25, 3)) for c in (0, 2, 4)])
    path = tmp_path_factory.mktemp("data") / "mine.csv"
    lines = ["a,b,c,kind"] + [",".join(map(repr, row)) + f",k{i // 25}" for i, row in enumerate(X.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


def evaluate(table, folder, methods=("KM", "H-KM"), **settings):
    folder.mkdir(exist_ok=True)
    source = DataSource("mine", csv=str(table))
    return run_evaluation([source], list(methods), PROTOCOL, folder / "rows.jsonl", **settings)


def test_rows_hold_the_scores_of_the_seeded_run(table, tmp_path):
    outcome = evaluate(table, tmp_path)
    assert len(outcome.rows) == 2 * 4 and outcome.done_now == 8 and not outcome.failures
    dataset = DataSource("mine", csv=str(table)).load("paper")
    ens = ca.make_ensemble(dataset.X, 4, n_classes=3, n_init=1, random_state=ensemble_seed(0, "mine", 1))
    seed = method_seed(0, "mine", 1, "KM")
    labels = ca.KMeansConsensus(5, n_init=10, random_state=seed).fit(ens).labels_
    row = next(r for r in outcome.rows if r["method"] == "KM" and r["repeat"] == 1)
    assert row["nmi"] == ca.ensemble_nmi(ens, labels) and row["density"] == ca.density(ens, labels)
    assert row["method_seed"] == seed and row["clusters"] == len(set(labels.tolist())) and row["seconds"] > 0
    best = next(r for r in outcome.rows if r["method"] == "Max" and r["repeat"] == 1)
    assert best["nmi"] == ca.zero_effort(ens, "nmi").best and best["density"] == ca.zero_effort(ens, "density").best
    assert "numpy" in row["versions"]


def test_finished_rows_are_not_run_again_and_jobs_and_cache_change_none(table, tmp_path):
    first = evaluate(table, tmp_path, methods=["KM"], cache=tmp_path / "cache")
    again = evaluate(table, tmp_path, methods=["KM"], cache=tmp_path / "cache")
    assert again.done_now == 0 and again.rows == first.rows and len(first.rows) == 6
    more = evaluate(table, tmp_path, cache=tmp_path / "cache")
    assert more.done_now == 2 and len(more.rows) == 8
    fresh = evaluate(table, tmp_path / "fresh", n_jobs=2)
    names = ("nmi", "density", "clusters", "ensemble", "method_seed", "variant")  # what was not measured
    results = [{row_key(row): [row[name] for name in names] for row in of.rows} for of in (more, fresh)]
    assert results[0] == results[1]
    changed = tmp_path / "mine.csv"
    changed.write_text(table.read_text().replace("k2", "k1"))
    assert evaluate(changed, tmp_path, methods=["KM"]).done_now == 6


def test_ensemble_cache_is_used_only_for_the_very_same_ensemble(table, tmp_path):
    dataset = DataSource("mine", csv=str(table)).load("raw")
    made = base_ensemble(dataset, PROTOCOL, 0, tmp_path)
    (path,) = (tmp_path / "mine-raw-s0").iterdir()
    when = path.stat().st_mtime_ns
    assert (base_ensemble(dataset, PROTOCOL, 0, tmp_path).codes == made.codes).all()
    other = Protocol(n_repeats=2, n_partitions=5, n_clusters=5, n_init=1)
    assert base_ensemble(dataset, other, 0, tmp_path).n_partitions == 5
    assert len(list(path.parent.iterdir())) == 2 and path.stat().st_mtime_ns == when
    path.write_bytes(path.read_bytes()[:50])
    assert (base_ensemble(dataset, PROTOCOL, 0, tmp_path).codes == made.codes).all()


def test_seeds_and_features_depend_on_what_a_run_is():
    seeds = {method_seed(s, d, r, m) for s in (0, 1) for d in ("glass", "ecoli") for r in (0, 1) for m in ("KM", "SEC")}
    assert len(seeds) == 16
    assert scaling_of("abalone", "paper") == "minmax" and scaling_of("glass", "paper") == "raw"
    assert scaling_of("abalone", "z") == "z"
    X = np.eye(50)  # 2 % of the cells are not zero
    assert issparse(features(Dataset("x", X, np.array(["a"] * 50), [], "raw", "csv")))
    assert not issparse(features(Dataset("x", X + 1, np.array(["a"] * 50), [], "raw", "csv")))


def test_every_method_has_a_column_of_settings_that_it_takes():
    for name in known_methods():
        column = find_method(name)
        assert set(column.settings) <= set(column.make._get_param_names())
    classes = {find_method(name).make.__name__ for name in known_methods()}
    assert classes == {method.class_name for method in methods().values() if method.takes == "labels"}


def test_one_row_per_run_and_a_result_beats_a_failure(tmp_path):
    path = tmp_path / "rows.jsonl"
    run = {"dataset": "glass", "data": "abc", "scaling": "raw", "seed": 0, "n_partitions": 20, "n_init": 10,
           "n_clusters": 20, "repeat": 0, "method": "KM", "spec": "KM", "nmi": 0.5, "density": 0.25}  # fmt: skip
    same = [run | {"nmi": None, "density": None, "error": "broken"}, run | {"nmi": 0.7}, run | {"nmi": 0.9}]
    others = [run | change for change in ({"repeat": 1}, {"method": "SEC"}, {"data": "x"})]
    for row in same + others:
        append_row(path, row)
    assert read_rows(path) == ([same[1], *others], [])


# -- the command -----------------------------------------------------------------------------------------------


def test_command_writes_rows_and_tables_and_resumes(table, tmp_path, capsys):
    out, again = tmp_path / "evaluation", tmp_path / "again"
    words = f"--dataset-csv mine={table}:kind --methods KM H-KM --repeats 3 --quiet".split()
    words += ["--partitions", "4", "-k", "5", "--output", str(out)]
    assert main(words) == 0
    files = ("rows.jsonl", "rows.lock", "tables.md", "tables.csv", "tables.tex", "ensembles")
    assert {path.name for path in out.iterdir()} == {*files}
    text = capsys.readouterr().out
    assert "12 runs (12 now, 0 before)" in text and "Density: comparison" in text
    # from rows alone
    assert main(["--rows", str(out / "rows.jsonl"), "-o", str(again)]) == 0
    for made in ("tables.csv", "tables.md", "tables.tex"):
        assert (again / made).read_bytes() == (out / made).read_bytes()
    # a corrupt line is told and its run done again
    tables = (out / "tables.csv").read_bytes()
    lines = (out / "rows.jsonl").read_bytes().splitlines(keepends=True)
    lines[4] = lines[4][:40] + b"\n"
    (out / "rows.jsonl").write_bytes(b"".join(lines) + b'{"half a li')
    capsys.readouterr()
    assert main(words) == 0
    told = capsys.readouterr()
    assert "rows.jsonl, line 5 is not readable" in told.err and "the last line is cut short" in told.err
    assert "12 runs (1 now, 11 before)" in told.out and (out / "tables.csv").read_bytes() == tables
