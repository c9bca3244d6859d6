"""The child process that reads files which are not trusted: what it may take, and what is said when it fails."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import coassoc as ca
from coassoc.ensemble.io import guard
from coassoc.ensemble.io.formats import formats
from ensemble.io import plugin
from oracle import label_rows as rows

pytest.importorskip("pyarrow")
linux = pytest.mark.skipif(sys.platform != "linux", reason="limits on memory and processor time are set on Linux")


@pytest.fixture
def hostile(monkeypatch, tmp_path):
    """Installs a format whose reader does something; reads a file of it."""

    def read(doing: str, **options):
        module = plugin.MODULE.replace("yield pa.", f"{doing}\n        yield pa.")
        plugin.install(monkeypatch, tmp_path / "site", module)
        (tmp_path / "t.jt").write_bytes(b'JT1 {"a": [0, 1], "b": [1, 1]}')
        return ca.read_ensemble(tmp_path / "t.jt", **options)

    yield read
    monkeypatch.undo()
    plugin.forget()


@linux
@pytest.mark.parametrize(
    ("doing", "said"),
    [
        ("while True: pass", "takes more than 1 s of processor time"),
        ("columns.append(bytearray(1 << 30))", "unpacks to more than the 268,435,456 bytes"),
        ("import os; os.kill(os.getpid(), 11)", r"ends the process that reads it \(signal 11\)"),
    ],
)
def test_a_read_that_does_not_end_is_refused(hostile, monkeypatch, doing, said):
    """Libraries loop on, take any memory for, and crash on damaged files."""
    monkeypatch.setattr(guard, "SECONDS", 1)
    monkeypatch.setattr(guard, "PATIENCE", 500)  # on a busy machine a second of processor time takes long
    with pytest.raises(ValueError, match=rf"t\.jt.*{said}"):
        hostile(doing)


def test_a_child_that_waits_is_killed_on_every_system(hostile, monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 1)
    monkeypatch.setattr(guard, "PATIENCE", 3)
    with pytest.raises(ValueError, match=r"reading it takes more than 3 s"):
        hostile("import time; time.sleep(600)")


def test_what_comes_out_is_counted_on_every_system(hostile):
    large = "self.content = {name: range(300_000) for name in self.content}"
    with pytest.raises(ValueError, match=r"t\.jt unpacks to more than the 1,000,000 bytes.*--max-bytes.*--trusted"):
        hostile(large, max_bytes=1_000_000, columns="*")


def test_what_fails_while_a_batch_is_sent_is_told(hostile):
    fail = "def fail(*_): raise MemoryError\n        pa.ipc.RecordBatchStreamWriter.write_batch = fail"
    with pytest.raises(ValueError, match=r"t\.jt unpacks to more than"):
        hostile(fail)


def test_a_fault_of_ours_is_not_called_a_damaged_file(monkeypatch, tmp_path):
    """An error raised by a file of this package, other than a ValueError, passes with its traceback."""
    for trusted, kind in ((True, AttributeError), (False, RuntimeError)):
        np.savez(tmp_path / "t.npz", labels=np.array([[0, 1], [1, 0]]))
        site = tmp_path / f"site-{trusted}"
        site.mkdir()
        (site / "sitecustomize.py").write_text("import coassoc.ensemble.io.arrays as a\ndel a.NpzTable._load\n")
        if trusted:
            monkeypatch.delattr("coassoc.ensemble.io.arrays.NpzTable._load")
        else:
            monkeypatch.undo()
            monkeypatch.syspath_prepend(str(site))
        with pytest.raises(kind, match="_load"):
            ca.read_ensemble(tmp_path / "t.npz", trusted=trusted)


@pytest.mark.parametrize("known", [known for known in formats() if known.write], ids=lambda known: known.name)
def test_labels_alone_in_every_format_read_by_a_child_or_here(tmp_path, known):
    for package in known.packages:
        pytest.importorskip(package)
    path, out = tmp_path / f"labels{known.suffixes[0]}", tmp_path / f"out{known.suffixes[0]}"
    ca.write_labels(path, np.array([2, 0, 0]), ids=["x", "y", "z"])
    if known.append:
        ca.write_labels(out, np.array([1, 1, 0]), name="more", source=path)
        path, expected = out, [(2, 1), (0, 1), (0, 0)]
    else:
        expected = [(2,), (0,), (0,)]
    for trusted in (False, True):
        columns = None if known.one_array else ["consensus", "more"][: len(expected[0])]
        read = ca.read_ensemble(path, columns=columns, trusted=trusted)
        assert rows(read) == expected
        assert known.one_array or read.item_ids.tolist() == ["x", "y", "z"]


def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path):
    from scipy.io import savemat

    savemat(tmp_path / "pool.mat", {"members": np.zeros((4000, 10_000))}, do_compression=True)
    assert (tmp_path / "pool.mat").stat().st_size < 2**20
    with pytest.raises(ValueError, match=r"pool\.mat unpacks to more .*max_bytes"):
        ca.read_ensemble(tmp_path / "pool.mat")


def test_modules_of_the_current_folder_are_not_imported(monkeypatch, tmp_path):
    ca.write_ensemble(tmp_path / "t.npz", ca.Ensemble([[0, 1], [1, 0]]))
    (tmp_path / "zipfile.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    assert ca.read_ensemble("t.npz").n_samples == 2
    assert not os.path.exists("imported")


def test_without_a_process_the_way_out_is_said(monkeypatch, tmp_path):
    ca.write_ensemble(tmp_path / "t.npz", ca.Ensemble([[0, 1], [1, 0]]))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(ValueError, match=r"t\.npz: no process can be started.*trusted=True"):
        ca.read_ensemble(tmp_path / "t.npz")
    assert ca.read_ensemble(tmp_path / "t.npz", trusted=True).n_samples == 2
