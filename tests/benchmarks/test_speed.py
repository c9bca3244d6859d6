"""The benchmark's own arithmetic: ratios, slopes, generated data. No timing is asserted."""

import json

from benchmarks.generate import voronoi_ensemble
from benchmarks.speed import main, slope


def test_slope_of_exactly_linear_times_is_one():
    rows = [{"n": n, "method": "coassoc", "pass_seconds": 3e-9 * n} for n in (1000, 200_000, 1_000_000, 10_000_000)]
    assert abs(slope(rows, "pass_seconds") - 1.0) < 1e-12
    assert slope(rows[:2], "pass_seconds") is None


def test_a_small_run_gives_a_table_and_json(tmp_path, capsys):
    options = ["--sizes", "400", "-k", "3", "--rounds", "1", "--fits", "2", "--starts", "3", "--cells", "2", "5"]
    assert main([*options, "--methods", "coassoc-numpy", "sklearn-sparse", "-o", str(tmp_path)]) == 0
    assert "sklearn-sparse" in capsys.readouterr().out
    report = json.loads((tmp_path / "speed.json").read_text())
    assert [row["method"] for row in report["runs"]] == ["coassoc-numpy", "sklearn-sparse"]
    assert all(row["loss"] > 0 and 0 < row["density"] <= 1 for row in report["runs"])
    assert {path.name for path in tmp_path.iterdir()} == {"speed.json", "speed.md"}


def test_generated_partitions_have_the_cells_asked_for_whatever_the_number_of_rows():
    codes = voronoi_ensemble(70_000, 2, (1, 256))
    assert set(codes[:, 1]) == set(range(256)) and codes.dtype == "uint8"
    assert (voronoi_ensemble(65_536, 2, (1, 256)) == codes[:65_536]).all()  # a chunk
    assert voronoi_ensemble(10, 2, (5, 300)).dtype == "uint16"
