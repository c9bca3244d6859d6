"""The benchmark's own arithmetic: ratios, slopes, generated data. No timing is asserted."""

import json

import pytest

from coassoc.cli import main
from coassoc.experiments.speed import slope, voronoi_ensemble


def test_slope_of_exactly_linear_times_is_one():
    rows = [{"n": n, "method": "coassoc", "pass_seconds": 3e-9 * n} for n in (1000, 200_000, 1_000_000, 10_000_000)]
    assert abs(slope(rows, "pass_seconds") - 1.0) < 1e-12
    assert slope(rows[:2], "pass_seconds") is None


def test_a_small_run_gives_a_table_and_json(tmp_path, capsys):
    methods = ["coassoc-numpy", "sklearn-sparse"]
    options = ["--sizes", "400", "-k", "3", "--rounds", "1", "--fits", "2", "--starts", "3", "--cells", "2", "5"]
    assert main(["bench", *options, "--growth", "300", "--methods", *methods, "-o", str(tmp_path)]) == 0
    assert "sklearn-sparse" in capsys.readouterr().out
    report = json.loads((tmp_path / "bench.json").read_text())
    assert [row["method"] for row in report["runs"]] == methods
    assert all(row["loss"] > 0 and 0 < row["density"] <= 1 for row in report["runs"])
    assert all(row["pass_seconds"] > 0 for row in report["growth"]) and len(report["growth"]) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"bench.json", "bench.md"}


def test_base_partitions_fit_their_codes():
    assert set(voronoi_ensemble(20_000, 2, (1, 256))[:, 1]) == set(range(256))
    for wrong in ((0, 5), (5, 257)):
        with pytest.raises(ValueError, match=f"from 1 to 256 clusters, got {wrong[0]} to {wrong[1]}"):
            voronoi_ensemble(10, 2, wrong)
