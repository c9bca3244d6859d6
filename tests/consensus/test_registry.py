"""The registry: a new method is one module and one line, and shows up everywhere."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca
from coassoc import cli, consensus
from coassoc.consensus import registry
from coassoc.experiments import methods as evaluated

ROOT = Path(__file__).parents[2]
TABLE = np.array([[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]])
MODULE = """
from coassoc.consensus.kmeans import KMeansConsensus

class Toy(KMeansConsensus):
    '''k-means under another name.'''
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable package with a consensus method in it; the registry is as before at the end."""
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "method.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))


@pytest.fixture
def toy(package):
    return registry.register("toy", "toys.method:Toy", optimises="fun", time="none", memory="none", quick=True)


@pytest.fixture
def labels_file(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in TABLE))
    return path


def test_a_registered_method_is_known_by_name_and_class(toy):
    assert registry.make_method("toy", n_clusters=2, n_init=None, absent=1).n_clusters == 2
    assert registry.find_method("TOY") is toy
    assert consensus.Toy is toy.estimator is registry.estimators()["Toy"]
    assert "| `Toy` | `toy` | fun |" in registry.methods_table()


def test_a_registered_method_runs_from_the_command_line(toy, labels_file, tmp_path, capsys):
    for command in ("fit", "report", "compare"):
        assert "toy" in cli.command_parser(command, cli.load(command)).format_help()
    assert cli.main(["fit", str(labels_file), "-k", "2", "-m", "toy"]) == 0
    assert "Toy" in capsys.readouterr().out


def test_a_registered_method_is_compared_reported_and_evaluated(toy):
    assert [row.method for row in ca.compare(TABLE, 2, ["toy", "kmeans"]).rows] == ["toy", "kmeans"]
    assert "toy" in [row["method"] for row in ca.report.summarize(TABLE, 2).comparison]
    assert evaluated.known_methods()[-1] == "Toy"
    labels, variant = evaluated.find_method("Toy").run(ca.Ensemble(TABLE), 2, 0)
    assert (labels == ca.KMeansConsensus(2, random_state=0).fit(TABLE).labels_).all() and variant == ""
    model = ca.ConsensusClustering(2, method="toy", n_partitions=3, random_state=0).fit(np.arange(12.0).reshape(6, 2))
    assert type(model.consensus_) is toy.estimator


def test_a_registered_method_is_saved_and_loaded(toy, tmp_path):
    model = toy.make(n_clusters=2, random_state=0).fit(TABLE)
    model.save(tmp_path / "toy.npz")
    again = ca.load(tmp_path / "toy.npz")
    assert type(again) is toy.estimator and (again.predict(TABLE) == model.labels_).all()
    del registry.METHODS["toy"]
    with pytest.raises(ValueError, match="'Toy' is not a class a model file may name"):
        ca.load(tmp_path / "toy.npz")


def test_entry_points_of_other_packages_are_methods(package, monkeypatch):
    entry = EntryPoint("toy", "toys.method:Toy", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == registry.ENTRY_POINTS else [])
    registry._load_entry_points.cache_clear()
    assert "toy" in registry.method_names()
    assert registry.make_method("toy", n_clusters=2).fit(TABLE).n_clusters == 2


def test_bad_registrations_are_refused(package):
    with pytest.raises(ValueError, match=r"'package.module:Class', got 'toy' and 'toys.method'"):
        registry.register("toy", "toys.method")
    for name in ("kmeans", "eac-single"):
        with pytest.raises(ValueError, match=f"a method '{name}' already"):
            registry.register(name, "toys.method:Toy")
    with pytest.raises(ValueError, match="a method 'KM' already"):
        registry.register("toy", "toys.method:Toy", columns={"KM": {}})


def test_unknown_methods_are_refused_with_a_hint():
    with pytest.raises(ValueError, match="did you mean 'kmeans'"):
        registry.make_method("kmean")
    with pytest.raises(ValueError, match=r"choose one of .*kmeans, bisecting"):
        registry.make_method("features")


@pytest.mark.parametrize("method", registry.METHODS.values(), ids=lambda method: method.name)
def test_every_line_names_a_class_its_cost_and_its_page(method):
    assert method.estimator.__name__ in ca.__all__
    assert (ROOT / "docs" / "methods" / f"{method.docs}.md").resolve().is_file()
    if method.takes == "labels":
        assert method.optimises and method.time and method.memory
    for settings in (*method.compared.values(), *method.columns.values()):
        assert set(settings) <= set(method.estimator._get_param_names())
