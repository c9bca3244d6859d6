"""Wrong inputs on the command line: one line says what is wrong and the way out, and nothing is written."""

from __future__ import annotations

import json
import shlex

import pytest

from coassoc.cli import main

LABELS = "".join(f"i{i:02d},{i % 3},{i % 3},{(i + i // 9) % 4}\n" for i in range(36))
FILES = {
    "words.csv": "x,kind\n1,red\n2,blue\n",
    "good.csv": "id,a,b,c\n" + LABELS,
    "noid.csv": "a,b\n0,0\n1,1\n",
    "empty.csv": "",
    "ragged.csv": "a,b\n0,1\n0\n",
    "numbers.csv": "1,2\n1,1\n2,2\n",
    "distinct.csv": "name,mail\n" + "".join(f"n{i},m{i}\n" for i in range(40)),
    "features.csv": "x,y\n" + "".join(f"{i}.5,{i}.25\n" for i in range(40)),
    "x.xlsx": "a,b\n0,1\n1,0\n",
    "x.xls": b"\xd0\xcf\x11\xe0" + bytes(100),
    "x.parquet": b"PAR1" + bytes(30),
}
# words after "coassoc" -> parts of the one line: what is wrong, and the way out
WRONG = {
    "fit": "required: LABELS | see coassoc fit --help",
    "fit --columns a b good.csv": "required: LABELS (in front of options that take several names, such as --columns)",
    "fti good.csv": "no command 'fti' | did you mean 'fit'",
    "fit nofile.csv": "no file 'nofile.csv' | check the path",
    "fit folder": "folder without label files | parquet",
    "fit cells.zarr": "cells.zarr is a Zarr store | write_h5ad",
    "fit good.csv good.csv": "good.csv twice | once",
    "fit good.csv noid.csv": "noid.csv has no ids | --id",
    "fit empty.csv": "empty.csv is empty | header and at least one row",
    "fit ragged.csv": "one cell per column in every row | row 3: Expected 2 columns, got 1",
    "fit numbers.csv": "numbers.csv | --header | --no-header",
    "fit distinct.csv": "no column is a clustering | 'name', 'mail' (hardly any value repeats) | --columns",
    "fit features.csv": "'x', 'y' (measurements) | coassoc ensemble",
    "fit features.csv --columns x": "labels, not measurements: column x, row 0 is 0.5 | --exclude",
    "fit x.xlsx": "x.xlsx is named .xlsx but holds something else | --format csv",
    "fit x.xls": "x.xls | neither UTF-8 text (perhaps UTF-16) nor a file of another known kind; save",
    "fit x.parquet": "x.parquet is damaged or protected | write it again",
    "fit good.csv --columns z": "columns: good.csv has no column 'z' | it has 'id', 'a'",
    "fit good.csv --exclude *": "no column of labels left | it has 'id', 'a'",
    "fit good.csv -k 0": "-k/--clusters: must be a whole number of at least 1, got '0' | --help",
    "fit good.csv -k 5:2": "-k/--clusters | small to large, such as 2:12",
    "fit good.csv -k 2:5 -m kmeans": "-m kmeans takes a number of clusters | need -m auto",
    "fit good.csv -m kmean": "no method 'kmean' | did you mean 'kmeans'",
    "fit good.csv -m nothing:Here": "method 'nothing:Here' cannot be imported | package.module:Estimator",
    "fit good.csv --engine gpu": "engine must be one of | 'native' | 'gpu'",
    "fit good.csv --memory 3 --jobs 2": "--jobs/--workers: not allowed with argument --memory | --help",
    "fit good.csv noid.csv --memory 1GB": "--memory, --jobs and --dask | one file or folder",
    "fit good.csv --memory 1GB --engine cuda": "--engine with --memory must be one of auto | 'cuda'",
    "fit good.csv -o out/": "is a folder | add --dask or --jobs",
    "fit good.csv --memory lots": "memory | 'lots' | 2GB",
    "fit good.csv -o out": "'out' does not say which format | .csv",
    "fit good.csv -o out.npy --confidence": "--confidence needs an output of several columns | csv",
    "fit good.csv -o out.csv -m kmeans --confidence": "--confidence needs -m auto | -m kmeans",
    "fit good.csv -o out.csv --name a": "already has a column 'a' | --name",
    "fit good.csv --save m.pkl": "name in .skops | 'm.pkl'",
    "compare good.csv -m kmeans,magic": "no method 'magic' | choose one of",
    "compare good.csv --plot x.gif": "--plot must be a .png, .svg or .pdf file | 'x.gif'",
    "score good.csv --labels z": "good.csv has no column 'z' | it has",
    "score good.csv --labels a --items y.npy": "--items must end in one of .csv, .tsv, .parquet | 'y.npy'",
    "select-k good.csv --features features.csv": "label files or --features | not both",
    "select-k": "label files or --features | not neither",
    "select-k good.csv -k 5": "a range such as 2:12 | 5",
    "ensemble features.csv -k many -o out.csv": "-k/--clusters: must be a whole number | got 'many'",
    "ensemble numbers.csv -o out.csv": "the first line holds numbers only | a header must come first",
    "ensemble words.csv -o out.csv": "column 'kind', row 1 is 'red', not a number | --exclude",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrong")
    for name in ("folder", "cells.zarr"):
        (path / name).mkdir()
    for name, content in FILES.items():
        (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", WRONG)
def test_one_line_says_what_is_wrong_and_nothing_is_written(folder, words, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert main(shlex.split(words)) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert said.out == "" and line.startswith("coassoc: ") and "part" not in line.split() and "/tmp" not in line
    for part in WRONG[words].split(" | "):
        assert part in line
    assert main([*shlex.split(words), "--json"]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert json.loads(told) == {"error": line.removeprefix("coassoc: "), "exit_code": 2}
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
