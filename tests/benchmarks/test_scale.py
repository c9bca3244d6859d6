"""The measurements of large data, on small data."""

import json

import pytest

from benchmarks import scale


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["scale", *map(str, words)])
    scale.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_streams_and_memory_are_compared(tmp_path, monkeypatch, capsys):
    codes = tmp_path / "codes.npy"
    run(monkeypatch, capsys, "generate", codes, "--rows", 3000)
    stream, native = run(monkeypatch, capsys, "stream", codes, "--memory", "1MB", "--repeats", 1)
    assert (stream["engine"], native["engine"], stream["passes"]) == ("stream", "native", native["passes"])


def test_the_model_finds_the_seconds_of_a_pass(tmp_path, monkeypatch, capsys):
    runs = [
        {"engine": "dask", "rows": n, "workers": c, "chunks": b, "seconds_per_pass": 2e-8 * n / c + 0.01 + 0.003 * b}
        for n, c, b in ((1e6, 1, 1), (1e7, 2, 4), (4e7, 4, 64), (1e7, 1, 16))
    ]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, runs)))
    (model,) = run(monkeypatch, capsys, "model", path)
    found = [model[name] for name in ("nanoseconds_per_item", "overhead", "per_chunk")]
    assert found == pytest.approx([20.0, 0.01, 0.003])
