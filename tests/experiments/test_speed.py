"""The benchmark's own arithmetic: ratios, slopes, generated data. No timing is asserted."""

import argparse
import json

import pytest

from coassoc.cli import bench
from coassoc.experiments import speed as _speed
from coassoc.experiments.synthetic import voronoi_ensemble


def test_slope_of_exactly_linear_times_is_one():
    rows = [{"n": n, "method": "coassoc", "pass_seconds": 3e-9 * n} for n in (1000, 200_000, 1_000_000, 10_000_000)]
    assert abs(_speed.slope(rows, "pass_seconds") - 1.0) < 1e-12
    assert _speed.slope(rows[:2], "pass_seconds") is None


def test_a_small_run_gives_a_table_and_json(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    methods = ["coassoc-numpy", "sklearn-sparse"]
    options = ["--sizes", "400", "-k", "3", "--rounds", "1", "--fits", "2", "--starts", "3", "--cells", "2", "5"]
    arguments = [*options, "--methods", *methods, "-o", str(tmp_path)]
    assert bench.run(parser.parse_args(arguments)) == 0
    assert "sklearn-sparse" in capsys.readouterr().out
    report = json.loads((tmp_path / "bench.json").read_text())
    assert [row["method"] for row in report["runs"]] == methods
    assert all(row["loss"] > 0 and 0 < row["density"] <= 1 for row in report["runs"])
    assert not list(tmp_path.glob("*.tmp"))


def test_base_partitions_fit_their_codes():
    assert set(voronoi_ensemble(20_000, 2, (1, 256))[:, 1]) == set(range(256))
    for wrong in ((0, 5), (5, 257)):
        with pytest.raises(ValueError, match=f"from 1 to 256 clusters, got {wrong[0]} to {wrong[1]}"):
            voronoi_ensemble(10, 2, wrong)
