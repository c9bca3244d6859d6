"""What is particular to streaming: sizes, and what is kept in temporary files."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
from coassoc.engines import Stream
from coassoc.engines.memory import file_array, parse_size
from twins.cases import needs_kernels


def test_sizes_as_people_write_them():
    assert [parse_size(s) for s in ("2GB", "1 GiB", "1.5e3", 10, "7kb")] == [2 * 10**9, 2**30, 1500, 10, 7000]
    for bad in ("two", "", "-1GB", "1XB"):
        with pytest.raises(ValueError, match="memory must be a size"):
            parse_size(bad)
    with pytest.raises(TypeError, match="memory must be a size"):
        parse_size(None)
    with pytest.raises(ValueError, match="at least one byte"):
        parse_size(0)


def test_temporary_files_leave_nothing_behind(tmp_path):
    array = file_array((1000, 100), np.uint8, str(tmp_path))
    assert isinstance(array, np.memmap) and not array.any()
    array[:] = 3
    assert array.sum() == 300_000
    assert list(tmp_path.iterdir()) == []


@needs_kernels
def test_what_exceeds_the_memory_is_kept_in_files():
    """Labels, and the codes of subsets; the codes themselves are never copied as a whole."""
    n = 200_000
    codes = file_array((n, 4), np.uint8)
    codes[:] = np.random.default_rng(0).integers(5, size=(n, 4))
    ensemble = ca.Ensemble(codes)
    for memory, in_file in ((19 * n, False), (19 * n - 1, True)):
        rows = Stream(memory).load(ensemble)
        assert np.shares_memory(rows.codes, codes)
        labelling = rows.labelling(2, codes[:, 0] > 2)
        parts = rows.split(labelling)
        arrays = [labelling.labels, parts[0].codes, parts[0].split(parts[0].labelling(1, 0))[0].codes]
        assert [isinstance(array, np.memmap) for array in arrays] == [in_file] * 3
        assert (parts[0].codes == codes[codes[:, 0] <= 2]).all()
        assert (rows.scatter(parts) == (codes[:, 0] > 2)).all()  # so many rows are split and put together by threads
        rows.seeding(np.ones(4, np.int64))
        assert not rows.core.has_blocked
        leaves = rows.split(rows.labelling(20, np.arange(n) // 10_000))  # a tree of many leaves opens few files
        assert not any(isinstance(part.codes, np.memmap) for part in leaves)


def test_settings_are_shown_and_checked():
    assert repr(Stream("2GB")) == "Stream(memory='2GB')"
    with pytest.raises(ValueError, match="local must be"):
        Stream(local="gpu")
