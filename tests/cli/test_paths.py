"""Where commands write: every path checked before any work, nothing but regular files replaced, modes kept."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble.io.writing import replacing

resource = pytest.importorskip("resource", reason="files, modes and limits of POSIX")
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 3, size=(40, 1))
TABLE = np.where(RNG.random((40, 4)) < 0.1, RNG.integers(0, 3, size=(40, 4)), TRUTH)  # not all the same: no warning


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with labels.csv, ens.npz and features.csv, as the current one."""
    monkeypatch.chdir(tmp_path)
    ca.write_ensemble("labels.csv", ca.Ensemble(TABLE))
    ca.write_ensemble("ens.npz", ca.Ensemble(TABLE))
    np.savetxt("features.csv", np.random.default_rng(1).normal(size=(40, 2)), delimiter=",", header="x,y", comments="")
    os.symlink("labels.csv", "link.csv")
    os.link("labels.csv", "hard.csv")
    os.mkdir("sub")
    Path("picture.png").touch()
    return tmp_path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fit ens.npz -k 2 -o ens.npz --force", "-o ens.npz is also an input"),
        ("fit labels.csv -k 2 -o link.csv --force", "-o link.csv is also an input"),
        ("fit link.csv -k 2 -o hard.csv --force", "-o hard.csv is also an input"),
        ("fit labels.csv ens.npz -k 2 --save ens.npz --force", "--save ens.npz is also an input"),
        ("fit labels.csv -k 2 -o x.npz --save sub/../X.NPZ", "are the same file"),
        ("fit sub -k 2 -o sub/out.parquet", "lies in the input folder sub"),
        ("score labels.csv --labels 0 --labels-file features.csv --items features.csv --force", "also an input"),
        ("report labels.csv -k 2 --features features.csv -o features.csv --force", "-o features.csv is also an input"),
        ("ensemble features.csv -o features.csv --force", "-o features.csv is also an input"),
        ("compare labels.csv --plot labels.csv --force", "--plot labels.csv is also an input"),
        ("score labels.csv --labels partition_0 --items features.csv", "already exists"),
        ("compare labels.csv --plot picture.png", "already exists"),
        ("fit labels.csv -k 2 -o ens.npz/out.csv", "there is no folder 'ens.npz'"),
        ("fit labels.csv -k 2 -o sub", "'sub' is a folder"),
        ("fit labels.csv -k 2 -o /dev/null --force", "/dev/null is not a regular file"),
        (f"fit labels.csv -k 2 -o {'x' * 252}.csv", "File name too long"),
    ],
)
def test_a_path_in_the_way_is_told_before_any_work(folder, words, message, capsys, monkeypatch):
    def work(*_, **__):
        raise AssertionError("work has begun")

    monkeypatch.setattr("coassoc.cli.fit.fit", work)
    before = snapshot(folder)
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert snapshot(folder) == before


@pytest.mark.parametrize("kind", ["a named pipe", "a socket", "a device"])
def test_what_is_no_regular_file_is_never_replaced(folder, kind, capsys):
    path = "other.csv"
    if kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path)
    else:
        os.symlink("/dev/null", path)
    before = os.lstat(path)
    assert main(["fit", "labels.csv", "-k", "2", "-o", path, "--force"]) == 2
    assert "is not a regular file" in capsys.readouterr().err
    after = os.lstat(path)  # whether the time of access changes is up to the file system
    assert (after.st_mode, after.st_ino, after.st_mtime_ns) == (before.st_mode, before.st_ino, before.st_mtime_ns)


def test_a_replaced_file_keeps_its_mode_and_a_link_stays_a_link(folder):
    Path("sub/real.csv").write_text("old")
    os.chmod("sub/real.csv", 0o640)
    os.symlink("sub/real.csv", "out.csv")
    assert main(["fit", "labels.csv", "-k", "2", "-o", "out.csv", "--force", "--save", "m.skops"]) == 0
    assert os.path.islink("out.csv") and stat.S_IMODE(os.stat("sub/real.csv").st_mode) == 0o640
    assert Path("sub/real.csv").read_text().count("\n") == 41
    assert sorted(os.listdir("sub")) == ["real.csv"]
    umask = os.umask(0o022)
    os.umask(umask)
    assert stat.S_IMODE(os.stat("m.skops").st_mode) == 0o666 & ~umask  # a new file as any other


def test_the_temporary_file_is_as_private_as_the_final_one_and_no_data_file(folder):
    Path("secret.csv").write_text("old")
    os.chmod("secret.csv", 0o600)
    with replacing("secret.csv", force=True) as partial:
        partial.write_text("new")
        assert stat.S_IMODE(os.stat(partial).st_mode) == 0o600
        assert partial.name.startswith(".") and partial.suffix == ".part"
        assert Path("secret.csv").read_text() == "old"
    assert Path("secret.csv").read_text() == "new"


def test_a_file_made_meanwhile_is_not_overwritten(folder):
    with pytest.raises(FileExistsError, match=r"out\.csv"), replacing("out.csv") as partial:
        partial.write_text("ours")
        Path("out.csv").write_text("theirs")
    assert Path("out.csv").read_text() == "theirs"
    assert not list(folder.glob(".coassoc*"))


@contextmanager
def as_nobody():
    """Rights do not bind root: act as another user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_folders_and_files_without_permission_are_told_before_any_work(folder, capsys):
    assert main(["fit", "labels.csv", "-k", "2", "-o", "first.csv"]) == 0  # everything is imported now
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        source, closed = Path(place, "labels.csv"), Path(place, "closed")
        source.write_bytes(Path("labels.csv").read_bytes())
        closed.mkdir()
        Path(place, "mine.csv").write_text("old")
        os.chmod(Path(place, "mine.csv"), 0o444)
        os.chmod(closed, 0o555)
        for target, named in ((closed / "out.csv", closed), (Path(place, "mine.csv"),) * 2):
            with as_nobody():
                assert main(["fit", str(source), "-k", "2", "-o", str(target), "--force"]) == 2
            assert f"no permission to open '{named}'" in capsys.readouterr().err
        assert list(closed.iterdir()) == [] and Path(place, "mine.csv").read_text() == "old"


@contextmanager
def full_disk(n_bytes: int):
    """No file may grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "words",
    ["fit labels.csv -k 2 -o out.csv", "fit labels.csv -k 2 -o out.parquet", "fit labels.csv -k 2 -o out.h5ad",
     "fit labels.csv -k 2 --save out.skops", "report labels.csv -k 2 -o out.html",
     "compare labels.csv -k 2 -m kmeans --plot out.png"],
)  # fmt: skip
def test_a_full_disk_leaves_the_old_file_and_names_the_users_path(folder, words, capsys):
    for module in {"parquet": ["pyarrow"], "h5ad": ["h5py"], "html": ["jinja2"], "png": ["matplotlib"]}.get(
        words.rpartition(".")[2], []
    ):
        pytest.importorskip(module)
    target = words.split()[-1]
    Path(target).write_text("old")
    before = snapshot(folder)
    with full_disk(64):
        assert main([*words.split(), "--force"]) == 2
    said = capsys.readouterr().err
    assert target in said and ".coassoc" not in said and said.count("\n") == 1
    assert snapshot(folder) == before
    assert main([*words.split(), "--force"]) == 0  # with free space it works
