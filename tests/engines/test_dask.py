"""What is particular to Dask: distributed input, the placing of chunks, cancelled fits, workers that die."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest
from sklearn.base import clone

import coassoc as ca
from coassoc.consensus.auto import evidence
from coassoc.core.counts import Layout
from coassoc.core.objectives import fix_table
from coassoc.engines import Numpy, chunked
from coassoc.engines.chunked import make_chunk
from coassoc.engines.cluster import Session, local_cluster, open_client
from coassoc.engines.contract import missing_in
from coassoc.engines.dask import DaskRows
from consensus.test_sampled_items import reduce_early
from twins.cases import noisy_table
from twins.fixtures import Twin

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

# distributed's own: a killed worker's pipes and sockets are closed by the garbage collector, at any later time
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def client():
    with open_client(None, 2) as connected:
        yield connected


def fit_on(estimator, engine, table, **kwargs):
    return clone(estimator).set_params(engine=engine).fit(table, **kwargs)


def tasks_left(client):
    """Tasks the scheduler still knows of, after releases had time to arrive."""
    gc.collect()
    for _ in range(100):
        left = client.run_on_scheduler(lambda dask_scheduler: sorted(map(str, dask_scheduler.tasks)))
        if not left:
            break
        time.sleep(0.05)
    return left


ESTIMATORS = [
    ca.KMeansConsensus(4, n_init=3, max_iter=4, random_state=1),
    ca.BisectingConsensus(3, max_leaves=5, random_state=3),
]
SEARCH = ca.AgreementConsensus(3, n_init=1, micro_clusters=4, max_rounds=1, random_state=0)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_labels_of_a_dask_array_stay_distributed_in_its_chunks(client, estimator):
    table = noisy_table(3, 600, missing=0.3)
    table[[17, 77]] = -1
    expected = fit_on(estimator, "numpy", table)
    distributed_table = da.from_array(table, chunks=((250, 0, 150, 200), 2))
    found = fit_on(estimator, "auto", distributed_table)  # the current client
    assert isinstance(found.labels_, da.Array) and found.labels_.chunks == ((250, 0, 150, 200),)
    assert found.labels_.compute().tolist() == expected.labels_.tolist()
    assert found.predict(table[:50]).tolist() == expected.predict(table[:50]).tolist()
    del found
    assert tasks_left(client) == []


@pytest.mark.parametrize("method", ["auto", "hbgf"])
def test_the_default_answer_stays_on_the_cluster(client, method, monkeypatch):
    """Labels, confidence and alternatives are Dask arrays; the bytes that reach the client do not grow with n."""
    reduce_early(monkeypatch)
    monkeypatch.setattr(evidence, "MOST_COMPARED", 200)
    gather, received = distributed.Client.gather, []

    def counting(self, futures, *args, **options):
        result = gather(self, futures, *args, **options)
        received[-1] += len(pickle.dumps(result))
        return result

    monkeypatch.setattr(distributed.Client, "gather", counting)
    for n in (2000, 20_000):
        received.append(0)
        table = noisy_table(1, n, p=6, missing=0.1)
        table[7] = -1
        copies = np.arange(n) % 3 if method == "hbgf" else None
        settings = {"n_clusters": 4, "method": method, "random_state": 0}
        expected = ca.Consensus(engine="numpy", **settings).fit(table, sample_weight=copies)
        found = ca.Consensus(**settings).fit(da.from_array(table, chunks=(n // 4, 6)), sample_weight=copies)
        results = [found.labels_, found.confidence_, found.disputed_, *(other.labels for other in found.alternatives_)]
        assert all(isinstance(array, da.Array) and array.chunks == ((n // 4,) * 4,) for array in results)
        received.append(0)  # not what is asked for here
        theirs = [expected.labels_, expected.confidence_, expected.disputed_]
        theirs += [other.labels for other in expected.alternatives_]
        for mine, own in zip(results, theirs, strict=True):
            np.testing.assert_array_equal(mine.compute(), own)
        assert found.verdict_ == expected.verdict_
        np.testing.assert_array_equal(found.cluster_confidence_, expected.cluster_confidence_)
    assert received[2] < 1.5 * received[0]


@pytest.mark.parametrize("estimator", [*ESTIMATORS, ca.Consensus(random_state=0)], ids=lambda e: type(e).__name__)
def test_a_fit_sends_no_labels_to_the_workers(client, estimator, monkeypatch):
    cut, sent = DaskRows.cut, []

    def counting(rows, labels, k):
        sent.append(len(labels))
        return cut(rows, labels, k)

    monkeypatch.setattr(DaskRows, "cut", counting)
    clone(estimator).fit(da.from_array(noisy_table(3, 600), chunks=(150, -1)))
    assert sent == []


def test_data_frames_and_files_are_coded_by_the_workers(client, tmp_path):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    table = noisy_table(4, 500, p=3)
    frame = pd.DataFrame({"a": table[:, 0], "b": np.array(list("wxyz"))[table[:, 1]], "c": table[:, 2] * 10.0})
    frame.loc[40, "c"] = np.nan
    estimator = ESTIMATORS[0]
    expected = fit_on(estimator, "numpy", frame).labels_.tolist()
    engine = ca.engines.Dask(client)
    for i in range(2):
        frame.iloc[250 * i : 250 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet", row_group_size=100, index=False)
    for source in (dd.from_pandas(frame, npartitions=3), tmp_path):
        assert np.asarray(fit_on(estimator, engine, source).labels_).tolist() == expected
    np.save(tmp_path / "codes.npy", table.astype(np.uint8))
    expected = fit_on(estimator, "numpy", table).labels_.tolist()
    for source in (str(tmp_path / "codes.npy"), np.load(tmp_path / "codes.npy", mmap_mode="r")):
        assert np.asarray(fit_on(estimator, engine, source).labels_).tolist() == expected


def test_workers_use_their_gpu(dask_client, monkeypatch):
    """The engine of a chunk is chosen where the chunk is; here the workers are threads, and the GPU is its twin."""
    twins = []

    def make():
        twins.append(Twin())
        return twins[-1]

    monkeypatch.setattr(chunked, "has_device", lambda: True)
    monkeypatch.setattr(chunked, "Cuda", make)
    table = noisy_table(14, 500, missing=0.2)
    copies = np.random.default_rng(0).integers(0, 3, size=500)
    for estimator, worker_engine in ((ESTIMATORS[0], "auto"), (SEARCH, "cuda"), (ca.Consensus(random_state=0), "cuda")):
        expected = fit_on(estimator, "numpy", table, sample_weight=copies)
        engine = ca.engines.Dask(dask_client, chunk_rows=130, worker_engine=worker_engine)
        found = fit_on(estimator, engine, table, sample_weight=copies)
        assert found.labels_.tolist() == expected.labels_.tolist()
        assert np.array_equal(getattr(found, "confidence_", 0), getattr(expected, "confidence_", 0))
    assert sum(len(twin.twin.jobs) for twin in twins) > 50
    with pytest.raises(ValueError, match="worker_engine must be one of"):
        ca.engines.Dask(dask_client, worker_engine="gpu").load(ca.Ensemble(table)).overlap()


def test_a_message_reaches_the_user_from_the_workers(client):
    bad = da.from_array(np.array([[0.5, 1.0], [1.0, 2.0]]), chunks=(1, 2))
    with pytest.raises(ValueError, match="must hold labels, not measurements"):
        fit_on(ESTIMATORS[0], ca.engines.Dask(client), bad)
    assert tasks_left(client) == []


def test_a_call_may_be_repeated_or_come_late():
    """A cluster may run a task twice, or an older one again: the state found then is not the one the call means."""
    rng = np.random.default_rng(4)
    ensemble = ca.Ensemble(noisy_table(4, 200, missing=0.2))
    layout = Layout.of(ensemble)
    chunk = make_chunk(ensemble.codes, None, (layout, missing_in(ensemble), "auto", 2))
    tables = [fix_table(rng.normal(size=(ensemble.n_codes, 3)), layout) for _ in range(3)]
    calls = [(3, ("", None, None), "v0", tables[0])]
    calls += [(3, (f"v{i}", tables[i], None), f"v{i + 1}", tables[i + 1]) for i in range(2)]
    first = [chunk.counts(*call) for call in calls]
    for i in (2, 1, 1, 0, 2):
        again = chunk.counts(*calls[i])
        assert again[0] == first[i][0] and (again[1] == first[i][1]).all() and (again[2] == first[i][2]).all()
    before, where = chunk.labels(3, calls[2][1]), np.array([5, 9])
    for _ in range(2):
        moved = chunk.moved(3, calls[2][1], where, before[where] + 1)
        assert np.flatnonzero(moved != before).tolist() == [5, 9]
        assert calls[2][1][0] not in chunk._states  # a search moves rows many times: this would fill the memory
    weights, chosen = np.ones(5, np.int64), ensemble.codes[[3, 50, 120]]
    asked = [("s", weights, chosen[:m], ensemble.codes[[7, 9]]) for m in (1, 2, 3)]
    asked.append(("s", weights, chosen[[2, 1]], ensemble.codes[[7, 9]]))
    totals = [chunk.potentials(*call).tolist() for call in asked]
    for i in (1, 3, 2, 0):
        assert chunk.potentials(*asked[i]).tolist() == totals[i]


def test_engine_is_configuration(client):
    engine = ca.engines.Dask(client, chunk_rows=100)
    assert copy.deepcopy(engine) is engine
    assert clone(ca.KMeansConsensus(2, engine=engine)).engine is engine
    again = pickle.loads(pickle.dumps(engine))
    assert (again.client, again.chunk_rows) == (client.scheduler.address, 100)
    table = noisy_table(6, 200)
    try:
        assert (
            fit_on(ESTIMATORS[0], again, table).labels_.tolist()
            == fit_on(ESTIMATORS[0], "numpy", table).labels_.tolist()
        )
    finally:
        again.client.close()
    assert pickle.loads(pickle.dumps(again)).client == "a closed client"
    with pytest.raises(ValueError, match="must be at least 1"):
        ca.engines.Dask(client, chunk_rows=0)


def test_no_cluster_is_said_plainly(monkeypatch):
    def nobody():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", nobody)
    with pytest.raises(ValueError, match="engine Dask has no cluster"):
        ca.engines.Dask().load(ca.Ensemble([[0], [1]]))


def test_more_chunks_than_one_task_adds(client):
    """Partial results are added as a tree, and tables are sent once."""
    ensemble = ca.Ensemble(noisy_table(13, 500, missing=0.1))
    rows, expected = ca.engines.Dask(client, chunk_rows=9).load(ensemble), Numpy().load(ensemble)
    assert len(rows.futures) > 32
    table = fix_table(np.random.default_rng(0).normal(size=(ensemble.n_codes, 3)), rows.layout)
    labelling, reference = rows.labelling(3), expected.labelling(3)
    assert rows.assign(labelling, table) == expected.assign(reference, table)
    assert (rows.counts(labelling).alpha == expected.counts(reference).alpha).all()


def test_a_cancelled_fit_takes_no_more_tasks(client):
    """A start in another thread would go on to use the cluster."""
    session = Session(client)
    session.cancel()
    with pytest.raises(CancelledError, match="was cancelled"):
        session.submit(len, [])
    assert tasks_left(client) == []


def test_a_cancelled_fit_leaves_nothing_behind(client):
    """Ctrl-C in the middle of a fit with starts side by side."""
    table = noisy_table(8, 2000, k=9)
    estimator = ca.KMeansConsensus(9, n_init=20_000, random_state=0)  # hours, if nobody stops it
    connection = client.scheduler_comm.comm.local_address
    main, stopped, pressed = threading.main_thread().ident, threading.Event(), []

    def interrupt():
        # Python drops an interrupt that falls into the clean-up of an object: then the user presses Ctrl-C again
        while not stopped.wait(1.5 if not pressed else 8.0):
            pressed.append(1)
            signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        fit_on(estimator, ca.engines.Dask(client, chunk_rows=500), table)
    stopped.set()
    thread.join()
    assert tasks_left(client) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("coassoc-dask")]
    assert client.scheduler_comm.comm.local_address == connection  # it never broke


# -- faults ----------------------------------------------------------------------------------------------------


class Workers:
    """Worker processes of our own, without a nanny: killed when we like, replaced at once."""

    def __init__(self, address):
        self.address, self.started = address, []

    def start(self):
        command = [sys.executable, "-m", "dask", "worker", self.address, "--no-nanny", "--nthreads", "1"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.started.append(subprocess.Popen([*command, "--no-dashboard", "--death-timeout", "120"], **quiet))

    def kill(self, which):
        self.started[which].kill()
        self.started.pop(which).wait()
        self.start()

    def __enter__(self):
        self.start()
        self.start()
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
            process.wait()


@pytest.mark.parametrize("n_kills", [2, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_killed_workers_change_nothing_but_time(n_kills):
    """A random worker dies at a random moment of each fit."""
    rng, table = np.random.default_rng(n_kills // 50), noisy_table(9, 3000, p=6, k=7)
    expected = [fit_on(e, "numpy", table).labels_.tolist() for e in ESTIMATORS]
    spans = []
    with (
        local_cluster(0) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        Workers(cluster.scheduler_address) as workers,
    ):
        client.wait_for_workers(2, timeout=120)
        engine = ca.engines.Dask(client, chunk_rows=600)
        for e in ESTIMATORS:
            start = time.perf_counter()
            fit_on(e, engine, table)
            spans.append(time.perf_counter() - start)
        for fit in range(n_kills):
            which, moment = fit % 2, float(rng.uniform(0, 0.95))
            timer = threading.Timer(moment * spans[which], workers.kill, [int(rng.integers(2))])
            timer.start()
            found = fit_on(ESTIMATORS[which], engine, table)
            timer.join()
            assert found.labels_.tolist() == expected[which]
            client.wait_for_workers(2, timeout=120)
        assert tasks_left(client) == []


def test_the_only_worker_may_die():
    """Nothing is scattered: with every copy of everything gone, tasks are run again."""
    table = noisy_table(10, 600)
    with local_cluster(1) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        rows = ca.engines.Dask(client, chunk_rows=200).load(ca.Ensemble(table))
        expected = Numpy().load(ca.Ensemble(table)).overlap()
        assert (rows.overlap() == expected).all()
        client.run(os._exit, 1, on_error="ignore")
        assert (rows.overlap() == expected).all()
        del rows
