"""The arithmetic of the benchmarks of speed and scale: ratios, slopes, generated data. No timing is asserted."""

import json

import pytest

from benchmarks import scale
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


def run_scale(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["scale", *map(str, words)])
    scale.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_streams_and_memory_are_compared(tmp_path, monkeypatch, capsys):
    codes = tmp_path / "codes.npy"
    run_scale(monkeypatch, capsys, "generate", codes, "--rows", 3000)
    stream, native = run_scale(monkeypatch, capsys, "stream", codes, "--memory", "1MB", "--repeats", 1)
    assert (stream["engine"], native["engine"], stream["passes"]) == ("stream", "native", native["passes"])


def test_the_model_finds_the_seconds_of_a_pass(tmp_path, monkeypatch, capsys):
    runs = [
        {"engine": "dask", "rows": n, "workers": c, "chunks": b, "seconds_per_pass": 2e-8 * n / c + 0.01 + 0.003 * b}
        for n, c, b in ((1e6, 1, 1), (1e7, 2, 4), (4e7, 4, 64), (1e7, 1, 16))
    ]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, runs)))
    (model,) = run_scale(monkeypatch, capsys, "model", path)
    found = [model[name] for name in ("nanoseconds_per_item", "overhead", "per_chunk")]
    assert found == pytest.approx([20.0, 0.01, 0.003])
