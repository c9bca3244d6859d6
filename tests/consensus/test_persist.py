"""Fitted models as plain files: they come back the same, nothing in them runs, damage is told."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, KMeans
from sklearn.exceptions import NotFittedError

import coassoc as ca
from coassoc import consensus

RNG = np.random.default_rng(4)
TRUTH = RNG.integers(0, 3, size=50)
TABLE = np.column_stack([np.where(RNG.random(50) < 0.1, RNG.integers(0, 3, 50), TRUTH) for _ in range(5)])
TABLE[::9, 1] = -1
X = np.eye(3)[TRUTH] + RNG.normal(scale=0.1, size=(50, 3))
NAMES = sorted(n for n in consensus.__all__ if hasattr(getattr(consensus, n), "fit") and n != "ConsensusClustering")


def make(name: str):
    if name in ("MCLA", "CSPA"):
        pytest.importorskip("pymetis")
    cls = getattr(consensus, name)
    wanted = {"n_clusters": 3, "random_state": 0, "engine": "numpy"}
    return cls(**{k: v for k, v in wanted.items() if k in cls._get_param_names()})


def same(a, b) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "__dict__") and type(a).__module__.startswith("coassoc"):
        return type(a) is type(b) and same(vars(a), vars(b))
    return type(a) is type(b) if hasattr(a, "__slots__") else a == b


@pytest.mark.parametrize("name", NAMES)
def test_every_fitted_estimator_comes_back_the_same(tmp_path, name):
    model = make(name).fit(TABLE)
    model.save(tmp_path / "model.npz")
    again = ca.load(tmp_path / "model.npz")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    for key, value in vars(model).items():
        assert same(value, getattr(again, key)), key
    if hasattr(model, "predict"):
        assert (again.predict(TABLE) == model.predict(TABLE)).all()
    again.save(tmp_path / "twice.npz")
    assert same(vars(ca.load(tmp_path / "twice.npz"))["labels_"], model.labels_)


def test_a_loaded_tree_can_be_cut(tmp_path):
    tree = ca.BisectingConsensus(random_state=0, engine="numpy").fit(TABLE)
    tree.save(tmp_path / "tree.npz")
    again = ca.load(tmp_path / "tree.npz")
    for k in range(1, tree.n_leaves_ + 1):
        assert (again.cut(k) == tree.cut(k)).all()
    assert again.to_newick() == tree.to_newick()


def test_string_labels_and_names_survive(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.array(["x", "y", "z"])[TABLE], columns=list("abcde"))
    model = ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(frame)
    model.save(tmp_path / "m.npz")
    again = ca.load(tmp_path / "m.npz")
    assert again.feature_names_in_.tolist() == list("abcde")
    assert (again.predict(frame) == model.labels_).all()


def test_consensus_clustering_keeps_its_base_models(tmp_path):
    model = ca.ConsensusClustering(3, n_partitions=6, feature_fraction=0.7, random_state=0, engine="numpy").fit(X)
    model.save(tmp_path / "m.npz")
    again = ca.load(tmp_path / "m.npz")
    assert (again.predict(X) == model.predict(X)).all()
    assert all(isinstance(base, KMeans) for base in again.base_models_)


def test_a_live_engine_is_kept_by_name(tmp_path):
    model = ca.KMeansConsensus(3, random_state=0, engine=ca.engines.Numpy(chunk_rows=7)).fit(TABLE)
    model.save(tmp_path / "m.npz")
    assert ca.load(tmp_path / "m.npz").engine == "numpy"


def test_the_file_holds_arrays_and_json_only(tmp_path):
    ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE).save(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as archive:
        names = archive.namelist()
        json.loads(archive.read("model.json"))
    assert all(name == "model.json" or name.endswith(".npy") for name in names)
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        for name in arrays.files:
            if name != "model.json":
                assert arrays[name].dtype != object


def test_unfitted_models_and_existing_files_are_refused(tmp_path):
    with pytest.raises(NotFittedError):
        ca.KMeansConsensus().save(tmp_path / "m.npz")
    model = ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE)
    model.save(tmp_path / "m.npz")
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "m.npz")
    model.save(tmp_path / "m.npz", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]


def test_what_cannot_be_kept_is_named(tmp_path):
    model = ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE)
    model.labels_ = {1, 2}  # a set is not among the plain values
    with pytest.raises(TypeError, match=r"KMeansConsensus\.labels_ holds a builtins\.set"):
        model.save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def rewritten(path, change) -> None:
    """Change the JSON inside a model file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    structure = json.loads(members["model.json"])
    change(structure)
    members["model.json"] = json.dumps(structure).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    "name",
    ["os:system", "subprocess:Popen", "builtins:eval", "coassoc.cli:main", "sklearn.utils:Bunch", "coassoc.cli:os",
     "sklearn.conftest:pytest", "coassoc.ensemble:Ensemble.take", "coassoc.nowhere:Thing",
     "coassoc.engines.numpy:Numpy"],
)  # fmt: skip
def test_a_file_cannot_name_anything_but_models(tmp_path, name):
    path = tmp_path / "m.npz"
    ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE).save(path)
    rewritten(path, lambda s: s["model"].update({"class": name}))
    with pytest.raises(ValueError, match="damaged model file"):
        ca.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(version=99), "version 99"),
        (lambda s: s.update(kind="other"), "not a model saved by coassoc"),
        (lambda s: s.pop("model"), "damaged model file"),
        (lambda s: s["model"]["@object"].update(labels_={"@array": 999}), "damaged model file"),
    ],
)
def test_damage_is_told(tmp_path, change, message):
    path = tmp_path / "m.npz"
    ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE).save(path)
    rewritten(path, change)
    with pytest.raises(ValueError, match=message):
        ca.load(path)


def test_other_files_are_no_models(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    with pytest.raises(ValueError, match="not a model saved by coassoc"):
        ca.load(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"hello")
    with pytest.raises(ValueError, match="not a readable model file"):
        ca.load(tmp_path / "b.npz")
    path = tmp_path / "m.npz"
    ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE).save(path)
    with pytest.raises(ValueError, match="declares"):
        ca.load(path, max_bytes=10)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match="not a readable model file"):
        ca.load(path)


def test_base_clusterers_without_predict_say_so():
    model = ca.ConsensusClustering(3, clusterer=DBSCAN(eps=0.5), n_partitions=3, random_state=0, engine="numpy").fit(X)
    assert not hasattr(model, "predict")
    with pytest.raises(AttributeError):
        model.predict(X)
