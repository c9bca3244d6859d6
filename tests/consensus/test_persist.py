"""Fitted models as plain files: they come back the same, nothing in them runs, damage is reported."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import zipfile
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError

import coassoc as ca
from coassoc import consensus

MODELS = Path(__file__).parents[1] / "data" / "models"  # written by the version before stable class tags
ANSWERS = json.loads((MODELS / "answers.json").read_text())
spec = importlib.util.spec_from_file_location("make_models", MODELS / "make.py")
old = importlib.util.module_from_spec(spec)
spec.loader.exec_module(old)
RNG = np.random.default_rng(4)
TRUTH = RNG.integers(0, 3, size=50)
TABLE = np.column_stack([np.where(RNG.random(50) < 0.1, RNG.integers(0, 3, 50), TRUTH) for _ in range(5)])
TABLE[::9, 1] = -1
X = np.eye(3)[TRUTH] + RNG.normal(scale=0.1, size=(50, 3))
OTHERS = ("ConsensusClustering", "ConsensusEstimator")
NAMES = sorted(n for n in consensus.__all__ if hasattr(getattr(consensus, n), "fit") and n not in OTHERS)


def make(name: str, engine: str = "numpy"):
    if name in ("MCLA", "CSPA"):
        pytest.importorskip("pymetis")
    cls = getattr(consensus, name)
    wanted = {"n_clusters": 3, "random_state": 0, "engine": engine}
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
    if is_dataclass(a):  # what they cache is not stored
        return type(a) is type(b) and all(same(getattr(a, one.name), getattr(b, one.name)) for one in fields(a))
    return type(a) is type(b) if hasattr(a, "__slots__") else a == b


@pytest.mark.parametrize("engine", ["numpy", "auto"])
@pytest.mark.parametrize("name", NAMES)
def test_every_fitted_estimator_comes_back_the_same(tmp_path, name, engine):
    model = make(name, engine).fit(TABLE)
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


def test_the_file_holds_arrays_and_json_only(tmp_path):
    ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE).save(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as archive:
        names = archive.namelist()
        json.loads(archive.read("model.json"))
    assert all(name in ("model.json", "sha256.txt") or name.endswith(".npy") for name in names)
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files if name.startswith("array_"))


def test_unfitted_models_and_existing_files_are_refused(tmp_path):
    with pytest.raises(NotFittedError):
        ca.KMeansConsensus().save(tmp_path / "m.npz")
    model = ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE)
    model.save(tmp_path / "m.npz")
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match=r"name in \.npz"):
        model.save(tmp_path / "m.pkl")
    model.save(tmp_path / "m.npz", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]


def test_what_cannot_be_kept_is_named(tmp_path):
    model = ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE)
    model.labels_ = {1, 2}  # a set is not among the plain values
    with pytest.raises(TypeError, match=r"KMeansConsensus\.labels_ holds a builtins\.set"):
        model.save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def members_of(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, *, digest: bool) -> None:
    """A valid zip archive of these members; with `digest` as a forger would write it."""
    if digest:
        total = hashlib.sha256()
        for name, data in members.items():
            if name != "sha256.txt":
                total.update(f"{name} {len(data)}\n".encode() + data)
        members = {**members, "sha256.txt": total.hexdigest().encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def rewritten(path, change, *, digest: bool = True) -> None:
    """Change the JSON inside a model file."""
    members = members_of(path)
    structure = json.loads(members["model.json"])
    change(structure)
    members["model.json"] = json.dumps(structure).encode()
    write_members(path, members, digest=digest)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.npz"
    ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(TABLE).save(path)
    return path


@pytest.mark.parametrize(
    "name",
    ["os:system", "subprocess:Popen", "builtins:eval", "coassoc.cli:main", "sklearn.utils:Bunch", "coassoc.cli:os",
     "sklearn.conftest:pytest", "coassoc.ensemble:Ensemble.take", "coassoc.nowhere:Thing", "select_k", 7,
     "coassoc.engines.numpy:Numpy", "sklearn.feature_extraction.text:TfidfVectorizer", "sklearn.KMeans", "Ensemble"],
)  # fmt: skip
def test_a_file_cannot_name_anything_but_models(saved, name):
    rewritten(saved, lambda s: s["model"].update({"class": name}))
    with pytest.raises(ValueError, match="damaged model file"):
        ca.load(saved)


def state(**values):
    return lambda s: s["model"]["@object"].update(values)


def part(name, **values):
    return lambda s: s["model"]["@object"][name]["@object"].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(version=99), "version 99"),
        (lambda s: s.update(kind="other"), "not a model saved by coassoc"),
        (lambda s: s.pop("model"), "damaged model file"),
        (lambda s: s.update(model=[1, 2]), "holds a list"),
        (state(labels_={"@array": 999}), "number of an array holds values out of range"),
        (state(labels_={"@array": 0}), "labels_ holds values out of range"),
        (state(labels_=[0, 1]), "labels_ must be an array"),
        (state(predict=3), "no attribute 'predict'"),
        (state(__class__=3), "no attribute '__class__'"),
        (state(density_=7.5), "density_ holds values out of range"),
        (state(engine="rm"), "engine 'rm' is unknown"),
        (state(n_features_in_=6), "_vocabulary has shape"),
        (state(_table={"@tuple": ["/etc/passwd"], "class": "coassoc.ensemble.ensemble:Ensemble"}), "unknown kind"),
        (state(_vocabulary={"@object": {}, "class": "Ensemble"}), "damaged model file"),
        (state(x_={"@scalar": "V2000000000", "value": 0}), "damaged model file"),
        (state(x_={"@dtype": "V2000000000"}), "damaged model file"),
        (part("_table", bits=10**9), "bits holds values out of range"),
        (part("_table", values={"@array": 1}), "damaged model file"),
        (part("_vocabulary", n_clusters={"@array": 2}), "damaged model file"),
        (part("_vocabulary", names=["a"]), "names must be 5 strings"),
    ],
)
def test_what_is_no_fitted_model_is_refused_even_with_a_forged_digest(saved, change, message):
    rewritten(saved, change)
    with pytest.raises(ValueError, match=message) as told:
        ca.load(saved)
    assert "m.npz" in str(told.value)


@pytest.mark.parametrize(
    "change", [{"left": [2, -1, -1]}, {"rank": [2, 0, 0]}, {"parent": [0, 0, 0]}, {"size": ["a", 1, 1]}]
)
def test_a_forged_tree_is_refused(tmp_path, change):
    ca.BisectingConsensus(2, random_state=0, engine="numpy").fit(TABLE).save(tmp_path / "m.npz")
    rewritten(tmp_path / "m.npz", part("tree_", **change))
    with pytest.raises(ValueError, match=r"Tree is not a tree of splits|Tree\.size must be"):
        ca.load(tmp_path / "m.npz")


def test_an_edit_is_noticed(saved):
    rewritten(saved, state(density_=0.5), digest=False)
    with pytest.raises(ValueError, match=r"m\.npz is a damaged model file \(.*changed after it was saved"):
        ca.load(saved)
    members = members_of(saved)
    del members["sha256.txt"]
    write_members(saved, members, digest=False)
    with pytest.raises(ValueError, match="digest is missing"):
        ca.load(saved)


def test_memory_is_taken_for_what_the_file_holds_only(saved):
    members = members_of(saved)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<U0", "fortran_order": False, "shape": (10**9,)})
    write_members(saved, {**members, "array_0.npy": header.getvalue()}, digest=True)
    with pytest.raises(ValueError, match="damaged model file"):
        ca.load(saved)
    bomb = json.dumps({"kind": "coassoc model", "version": 2, "model": [[]] * 3_000_000}).encode()
    write_members(saved, {**members, "model.json": bomb}, digest=True)
    with pytest.raises(ValueError, match=r"declares .* max_bytes"):
        ca.load(saved)


# -- files of the first version --------------------------------------------------------------------------------


def old_rows(name: str):
    words = np.array(["x", "y", "z"], dtype=object)
    return {"words": words[old.TABLE], "ConsensusClustering": old.X}.get(name, old.TABLE)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_models_of_the_first_version_load_and_answer_the_same(tmp_path, name):
    model = ca.load(MODELS / f"{name}.npz")
    assert old.answers(model, old_rows(name)) == ANSWERS[name] and model.n_clusters_ == 3
    model.save(tmp_path / "again.npz")
    assert old.answers(ca.load(tmp_path / "again.npz"), old_rows(name)) == ANSWERS[name]
    stored = members_of(tmp_path / "again.npz")["model.json"].decode()
    assert "coassoc." not in stored  # no module path: classes may move


# -- edited files ----------------------------------------------------------------------------------------------


def test_other_files_are_no_models(saved, tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    with pytest.raises(ValueError, match="not a model saved by coassoc"):
        ca.load(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"hello")
    with pytest.raises(ValueError, match="damaged model file"):
        ca.load(tmp_path / "b.npz")
    with pytest.raises(ValueError, match="declares"):
        ca.load(saved, max_bytes=10)
    for cut in (50, 500):
        saved.write_bytes(saved.read_bytes()[:-cut])
        with pytest.raises(ValueError, match="damaged model file"):
            ca.load(saved)
    refused = {".": ValueError, "absent.npz": FileNotFoundError}
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.npz")
        refused["pipe.npz"] = ValueError
    for name, error in refused.items():
        with pytest.raises(error, match=name):
            ca.load(tmp_path / name)


def test_parameters_of_the_first_version_have_their_present_names():
    assert ca.load(MODELS / "BisectingConsensus.npz").get_params()["refine"] is None
    for name in ("AgreementConsensus", "DensityConsensus"):
        model = ca.load(MODELS / f"{name}.npz")
        assert model.get_params()["micro_clusters"] == "auto" and "over_segment" not in vars(model)
    assert ca.load(MODELS / "MCLA.npz").n_clusters_ == 3
    assert ca.load(MODELS / "ConsensusClustering.npz").get_params()["clusterer"] is None
