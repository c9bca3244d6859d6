"""What is particular to CUDA: settings, arrays on the device, narrow tables and their bounds, memory.

Most tests run twice: on the NumPy twin of the kernels, anywhere, and on a GPU, where there is one.
"""

from __future__ import annotations

import numpy as np
import pytest

from coassoc.consensus.lloyd import lloyd, seed_rows
from coassoc.core.counts import Counts
from coassoc.core.objectives import KMeansObjective, fix_table, seeding_weights
from coassoc.engines import Cuda, Numpy
from coassoc.engines.cuda.device import has_device
from coassoc.engines.cuda.engine import narrow_table
from coassoc.ensemble.gpu import DeviceEnsemble
from twins import fixtures as twin
from twins.cases import planted
from twins.device import NumpyDevice
from twins.fixtures import Twin

make = twin.engines  # a fixture


def fitted(engine, ensemble, copies, k, max_iter=25):
    rows, v = engine.load(ensemble, copies), np.ones(ensemble.n_partitions)
    seeds = seed_rows(rows, k, seeding_weights(v, rows.whole_counts()), np.random.default_rng(0))
    fit = lloyd(rows, KMeansObjective(v), Counts.of_rows(seeds, rows.layout), max_iter)
    return rows.labels(fit.labelling).tolist(), fit.losses, fit.stop


@pytest.mark.parametrize("options", [{"skip": False}, {"skip": None}])
def test_settings_change_no_label(make, options):
    for seed in range(2):
        ensemble, copies = planted(seed, n=9000, p=8, most=20, missing=0.1 * (seed % 2))
        assert fitted(make(**options), ensemble, copies, 9) == fitted(Numpy(), ensemble, copies, 9)


def test_tables_of_labels_on_the_gpu_become_ensembles(make):
    device, rng = make().open(), np.random.default_rng(0)
    for dtype in (np.int8, np.int32, np.int64, np.uint8, np.uint16):
        labels = rng.integers(0, 100, size=(500, 3)).astype(dtype)
        if np.dtype(dtype).kind == "i":
            labels[rng.random(labels.shape) < 0.2] = -1
        labels[:3, 0] = -1 if np.dtype(dtype).kind == "i" else 0
        there = device.put(labels)
        ensemble = DeviceEnsemble(there, device=device)
        assert (ensemble.codes is there) == (dtype == np.uint8)
        codes = device.get(ensemble.codes).astype(np.int64)
        missing = codes == ensemble.n_clusters
        np.testing.assert_array_equal(np.where(missing, -1, codes), labels)
        host = ensemble.to_host()
        np.testing.assert_array_equal(host.sizes, ensemble.sizes)
        theirs, ours = host.unlabelled(), ensemble.unlabelled()
        assert (theirs is None and ours is None) or device.get(ours).tolist() == theirs.tolist()
    with pytest.raises(TypeError, match="must hold integers"):
        DeviceEnsemble(device.put(np.zeros((3, 2))), device=device)
    with pytest.raises(ValueError, match="must be below"):
        DeviceEnsemble(device.put(np.full((3, 2), 1 << 30)), device=device)


def test_codes_on_the_device_are_validated(make):
    device = make().open()
    with pytest.raises(ValueError, match=r"codes of partition 1 must be at most n_clusters\[1\] = 2"):
        DeviceEnsemble.from_codes(device.put(np.array([[0, 3], [1, 0]], np.uint8)), [2, 2], device)
    with pytest.raises(TypeError, match="uint8, uint16 or uint32"):
        DeviceEnsemble.from_codes(device.put(np.array([[0, 3]], np.int64)), [2, 2], device)
    with pytest.raises(ValueError, match="one positive number per partition"):
        DeviceEnsemble.from_codes(device.put(np.array([[0, 1]], np.uint8)), [2], device)


# -- host side alone ---------------------------------------------------------------------------------------


def test_counts_without_differences_are_taken_again():
    ensemble, copies = planted(7, n=9000, p=8)
    found = fitted(Twin(twin=NumpyDevice(keep_counts=False)), ensemble, copies, 12)
    assert found == fitted(Numpy(), ensemble, copies, 12)


def test_settled_passes_read_few_rows_and_redo_fewer():
    ensemble, _ = planted(11, n=9000, p=20, width=np.uint8, most=60, missing=0.0)
    device = NumpyDevice()
    assert fitted(Twin(twin=device), ensemble, None, 8, max_iter=60)[2] == "fixed_point"
    first, last = device.jobs[0], device.jobs[-1]
    assert first.n_scored == 9000 and first.n_redone == 0  # tables of single rows are exact in 16 bits
    assert last.n_scored < 3000 and last.n_redone < 90


def test_gap_bytes_never_exceed_the_exact_gap():
    ensemble, _ = planted(4, n=1500, p=7, missing=0.1)
    rows = Twin().load(ensemble)
    labelling, rng = rows.labelling(6), np.random.default_rng(0)
    scores = rng.normal(size=(ensemble.n_codes, 6))
    for scale in (1.0, 0.3, 0.01, 0.003, 0.001, 1e-5, 0.02):
        scores += scale * rng.normal(size=scores.shape)
        table = fix_table(scores, rows.layout)
        rows.assign(labelling, table)
        sums = rows.layout.pad(table.values)[ensemble.codes + rows.starts].astype(np.int64).sum(axis=1)
        two = np.sort(sums, axis=1)[:, -2:]
        gap = (two[:, 1] - two[:, 0]) * 2.0**-table.bits
        kept = np.asarray(labelling.gaps).astype(float)
        # a byte is rounded down when set, and may lag the running drift by less than one step
        assert (((kept - 1) * 2.0**labelling.unit < gap) | (kept == 0)).all()


@pytest.mark.parametrize("seed", range(8))
def test_narrow_gaps_above_the_bound_prove_the_exact_order(seed):
    in_bytes = seed % 2 == 0
    ensemble, _ = planted(seed, n=333, missing=0.2)
    rows, rng = Twin().load(ensemble), np.random.default_rng(seed)
    scores = rng.normal(size=(ensemble.n_codes, 5)) * rng.choice([1e-3, 1.0, 40.0], size=(ensemble.n_codes, 1))
    table = fix_table(scores, rows.layout)
    narrow, bound, shift = narrow_table(table.values, rows.layout.offsets, lambda bound: in_bytes)
    narrow, values = rows.layout.pad(narrow), rows.layout.pad(table.values)
    columns = ensemble.codes + rows.starts
    sums, exact = (t[columns].astype(np.int64).sum(axis=1) for t in (narrow, values))
    assert sums.max() <= 0xFFFF
    for a in range(5):
        for c in range(5):
            sure = sums[:, a] - sums[:, c] > bound
            least = (sums[:, a] - sums[:, c] - bound) << shift
            assert (exact[sure, a] - exact[sure, c] >= least[sure]).all()
    assert narrow.dtype == (np.uint8 if in_bytes or bound == 0 else np.uint16) and (bound == 0 or shift > 0)


def test_memory_error_names_the_formula_and_the_way_out():
    ensemble, _ = planted(0, n=9000, p=20, width=np.uint8)
    device = NumpyDevice(memory=100_000)
    with pytest.raises(MemoryError, match=r"n \(p b \+ l \+ g\).*engine='native'"):
        Twin(twin=device).load(ensemble)
    resident = DeviceEnsemble.from_codes(device.put(ensemble.codes), ensemble.n_clusters, device)
    device.memory = 1000
    with pytest.raises(MemoryError, match="the GPU has 1000 bytes free"):
        Twin(twin=device).load(resident).labelling(3)


def test_too_many_clusters_are_refused():
    with pytest.raises(ValueError, match="at most 65535 clusters"):
        Twin().load(planted(0, n=40)[0]).labelling(70_000)


@pytest.mark.gpu
@pytest.mark.parametrize("n_bytes", [(1 << 26) - 1, 1 << 26, (1 << 26) + (1 << 25) + 12_345, 150_000_001])
def test_large_arrays_cross_whole(n_bytes):
    """They go in pieces through locked buffers, also into memory that waiting kernels still use."""
    if not has_device():
        pytest.skip("no CUDA device, or no CuPy")
    import cupy

    device = Cuda().open()
    source = np.random.default_rng(n_bytes).integers(256, size=n_bytes, dtype=np.uint8)
    slow = cupy.ones((6000, 6000))
    used = device.empty(n_bytes, np.uint8)
    slow @ slow
    used.fill(7)
    del used
    assert np.array_equal(device.get(device.put(source)), source)
