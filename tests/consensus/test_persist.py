"""Fitted models as files: they come back the same, nothing in them runs, damage is reported."""

import copy
import io
import json
import os
import pickle
import sys
import zipfile

import joblib
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

import coassoc as ca
from coassoc.consensus.registry import METHODS

pytest.importorskip("skops")
RNG = np.random.default_rng(4)
TRUTH = RNG.integers(0, 3, size=50)
TABLE = np.column_stack([np.where(RNG.random(50) < 0.1, RNG.integers(0, 3, 50), TRUTH) for _ in range(5)])
TABLE[::9, 1] = -1
X = np.eye(3)[TRUTH] + RNG.normal(scale=0.1, size=(50, 3))
NAMES = sorted(name for name, method in METHODS.items() if method.takes == "labels")


@pytest.fixture
def model():
    return ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE)


def digest(value) -> str:
    return joblib.hash(value.copy(order="C") if isinstance(value, np.ndarray) else value)


@pytest.mark.parametrize("engine", ["numpy", "auto"])
@pytest.mark.parametrize("name", NAMES)
def test_every_fitted_estimator_comes_back_equal(tmp_path, name, engine):
    if name in ("mcla", "cspa"):
        pytest.importorskip("pymetis")
    model = METHODS[name].make(n_clusters=3, random_state=0, engine=engine).fit(TABLE)
    model.save(tmp_path / "model.skops")
    again = ca.load(tmp_path / "model.skops")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert [key for key, value in vars(model).items() if digest(value) != digest(getattr(again, key))] == []
    if hasattr(model, "predict"):
        assert (again.predict(TABLE) == model.predict(TABLE)).all()
    again.save(tmp_path / "twice.skops")
    assert digest(ca.load(tmp_path / "twice.skops").labels_) == digest(model.labels_)


def test_names_and_generators_are_kept_and_engines_by_name(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.array(["x", "y", "z"])[TABLE], columns=list("abcde"))
    kinds = {"numpy": ca.engines.Numpy(chunk_rows=7), "native": ca.engines.Native(n_threads=1)}
    kinds |= {"auto": ca.engines.Stream(), "stream": "stream"}
    model = ca.KMeansConsensus(3, random_state=np.random.default_rng(0), engine="numpy").fit(frame)
    state = model.random_state.bit_generator.state
    for name, engine in kinds.items():
        model.set_params(engine=engine).save(tmp_path / "m.skops", force=True)
        again = ca.load(tmp_path / "m.skops")
        assert again.engine == name and model.engine is engine
        assert again.random_state.bit_generator.state == state
        assert again.feature_names_in_.tolist() == list("abcde") and (again.predict(frame) == model.labels_).all()


def test_series_and_ranges_among_the_parameters_are_kept_as_arrays_and_lists(tmp_path):
    pd = pytest.importorskip("pandas")
    model = ca.KMeansConsensus(3, init=pd.Series(TRUTH), partition_weights=pd.Series(np.arange(1.0, 6.0))).fit(TABLE)
    model.save(tmp_path / "a.skops")
    again = ca.load(tmp_path / "a.skops")
    assert again.init.tolist() == TRUTH.tolist() and again.partition_weights.tolist() == [1, 2, 3, 4, 5]
    ca.Consensus(range(2, 5), random_state=0).fit(TABLE).save(tmp_path / "b.skops")
    assert ca.load(tmp_path / "b.skops").n_clusters == [2, 3, 4]


def test_base_models_of_scikit_learn_are_kept_and_what_reads_arrays_unchecked_is_not(tmp_path):
    for base in (None, make_pipeline(StandardScaler(), KMeans(3, n_init=1))):
        settings = {"n_partitions": 3, "sample_fraction": 0.8, "feature_fraction": 0.7, "random_state": 0}
        model = ca.ConsensusClustering(3, clusterer=base, engine="numpy", **settings).fit(X)
        model.save(tmp_path / "m.skops", force=True)
        assert (ca.load(tmp_path / "m.skops").predict(X) == model.predict(X)).all()
    model.base_models_[0] = OneClassSVM().fit(X)
    with pytest.raises(TypeError, match=r"ConsensusClustering holds sklearn\.svm\._classes\.OneClassSVM"):
        model.save(tmp_path / "other.skops")


def test_unfitted_models_and_existing_files_are_refused(model, tmp_path):
    with pytest.raises(NotFittedError):
        ca.KMeansConsensus().save(tmp_path / "m.skops")
    model.save(tmp_path / "m.skops")
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "m.skops")
    with pytest.raises(ValueError, match=r"name in \.skops"):
        model.save(tmp_path / "m.pkl")
    model.save(tmp_path / "m.skops", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.skops"]


class Mine(ca.KMeansConsensus):
    """A method that is not registered."""


@pytest.mark.parametrize("value", [print, os.system, KMeans.fit, Mine(), {1, 2}, io.BytesIO, np.datetime64(0, "s")])
def test_what_cannot_be_kept_is_named(model, tmp_path, value):
    model.note_ = value
    name = getattr(value, "__name__", type(value).__name__)
    with pytest.raises(TypeError, match=rf"KMeansConsensus holds .*{name}"):
        model.save(tmp_path / "m.skops")
    assert list(tmp_path.iterdir()) == []


def test_skops_is_needed(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    for action in (lambda: model.save(tmp_path / "m.skops"), lambda: ca.load(tmp_path / "m.skops")):
        with pytest.raises(ImportError, match=r"pip install 'coassoc\[models\]'"):
            action()


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "m.skops")
    return tmp_path / "m.skops"


def members_of(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def rewritten(path, change) -> None:
    """Change the JSON tree inside a model file."""
    members = members_of(path)
    tree = json.loads(members["schema.json"])
    change(tree)
    write_members(path, {**members, "schema.json": json.dumps(tree).encode()})


def node(loader: str, name: str, content=None, **more):
    module, _, cls = name.rpartition(".")
    return {"__loader__": loader, "__module__": module, "__class__": cls, "content": content, **more}


def text(value: str):
    return node("JsonNode", "builtins.str", json.dumps(value))


HOSTILE = {
    "os.system": node("FunctionNode", "os.system"),
    "builtins.eval": node("TypeNode", "builtins.eval"),
    "subprocess.Popen": node("ConstructorFromReduceNode", "subprocess.Popen", node("TupleNode", "builtins.tuple", [])),
    "sklearn.utils._bunch.Bunch": node("ObjectNode", "sklearn.utils._bunch.Bunch"),
    "sklearn.svm._classes.SVC": node("ObjectNode", "sklearn.svm._classes.SVC"),
    "coassoc.engines.numpy.Numpy": node("ObjectNode", "coassoc.engines.numpy.Numpy"),
    "numpy.void": node("NdArrayNode", "numpy.void", file="big.npy", type="numpy"),
    # constructors that would open a file
    "coassoc.ensemble.ensemble.Ensemble": node(
        "ConstructorFromReduceNode", "coassoc.ensemble.ensemble.Ensemble",
        node("TupleNode", "builtins.tuple", [text("secret.csv")]),
    ),
    "coassoc.ensemble.ensemble.Ensemble (ListNode)": node(
        "ListNode", "coassoc.ensemble.ensemble.Ensemble", [text("secret.csv")]
    ),
    "coassoc.ensemble.ensemble.Ensemble (TypeNode)": node(
        "DictNode", "builtins.dict", {"secret.csv": text("x")},
        key_types=node("ListNode", "builtins.list", [node("TypeNode", "coassoc.ensemble.ensemble.Ensemble")]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_cannot_name_anything_but_models(saved, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("a,b\n0,1\n1,0\n")
    big = io.BytesIO()
    np.save(big, np.array(10**11))
    write_members(saved, {**members_of(saved), "big.npy": big.getvalue()})
    rewritten(saved, lambda tree: tree["content"]["content"].update(labels_=HOSTILE[name]))
    with pytest.raises(ValueError) as refusal:
        ca.load(saved)
    assert "m.skops holds" in str(refusal.value) and name in str(refusal.value)


def array_of(size: int, descr="<i8", shape=(3,)) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
    return out.getvalue() + bytes(size)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(array_of(24, shape=(10**12,)), "declares shape"), (array_of(0, "<U0", (10**9,)), "declares shape"),
     (array_of(0, shape=(0, 10**15)), "declares shape"), (array_of(8), "declares shape"), (array_of(24, "|O"), ""),
     (b"", ""), (b"PK", ""), (pickle.dumps(np.arange(3)), "")],
)  # fmt: skip
def test_arrays_must_have_the_bytes_that_they_declare(saved, data, reason):
    members = members_of(saved)
    name = next(name for name in members if name.endswith(".npy"))
    write_members(saved, {**members, name: data})
    with pytest.raises(ValueError, match=rf"m\.skops is no model saved by coassoc, or damaged \(.*{reason}"):
        ca.load(saved)


def test_what_a_file_unpacks_to_is_limited(saved):
    with pytest.raises(ValueError, match=r"m\.skops: it declares .* max_bytes="):
        ca.load(saved, max_bytes=10)
    members = members_of(saved)
    bombs = {"schema.json": b"[" + b"[]," * 3_000_000 + b"[]]"}
    name = next(name for name in members if name.endswith(".npy"))
    bombs[name] = array_of(300_000_000, shape=(37_500_000,))
    for bomb, data in bombs.items():
        write_members(saved, {**members, bomb: data})
        with pytest.raises(ValueError, match="more than the 268,435,456 allowed"):
            ca.load(saved)


def test_an_array_named_many_times_counts_many_times(saved):
    members = members_of(saved)
    members["big.npy"] = array_of(8_000_000, shape=(1_000_000,))
    write_members(saved, members)
    nodes = [node("NdArrayNode", "numpy.ndarray", file="big.npy", type="numpy", __id__=i) for i in range(1, 60)]
    content = node("ListNode", "builtins.list", nodes)
    rewritten(saved, lambda tree: tree["content"]["content"].update(labels_=content))
    with pytest.raises(ValueError, match="max_bytes="):
        ca.load(saved)


def test_lengths_that_compiled_code_relies_on_are_checked(tmp_path):
    model = ca.ConsensusClustering(3, n_partitions=3, random_state=0, engine="numpy").fit(X)
    narrow = copy.deepcopy(model)
    narrow.base_models_[1].cluster_centers_ = narrow.base_models_[1].cluster_centers_[:, :1].copy()
    wide = copy.deepcopy(model)
    wide.consensus_._vocabulary.n_clusters[0] = 2**40
    tree = ca.BisectingConsensus(3, random_state=0, engine="numpy").fit(TABLE)
    tree.tree_.rank[:2] = [2, 1]  # node 1 would be split before there is one
    for forged, message in ((narrow, "cluster_centers_"), (wide, "_vocabulary"), (tree, "index out of range")):
        forged.save(tmp_path / "m.skops", force=True)
        with pytest.raises(ValueError, match=message):
            ca.load(tmp_path / "m.skops")


def test_other_files_are_no_models(saved, tmp_path):
    import skops.io

    skops.io.dump(KMeans(2).fit(X), tmp_path / "f.skops")
    with open(tmp_path / "a.skops", "wb") as file:
        np.savez(file, a=np.arange(3))
    (tmp_path / "b.skops").write_bytes(b"hello")
    (tmp_path / "c.skops").write_bytes(pickle.dumps(KMeans))
    (tmp_path / "d.skops").write_bytes(saved.read_bytes()[:-500])
    flipped = bytearray(saved.read_bytes())
    flipped[len(flipped) // 3] ^= 4
    (tmp_path / "e.skops").write_bytes(flipped)
    for name in "abcdef":
        with pytest.raises(ValueError, match=rf"{name}\.skops is no model saved by coassoc, or damaged"):
            ca.load(tmp_path / f"{name}.skops")
    refused = {".": ValueError, "absent.skops": FileNotFoundError}
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.skops")
        refused["pipe.skops"] = ValueError
    for name, error in refused.items():
        with pytest.raises(error, match=name):
            ca.load(tmp_path / name)
