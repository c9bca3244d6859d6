"""The registry: a new method is one module and one line, and shows up everywhere."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca
from coassoc import cli, consensus
from coassoc.consensus import registry
from coassoc.core import plugins
from twins.cases import noisy_table

ROOT = Path(__file__).parents[2]
TABLE = np.array([[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]])
RECIPE = """
from dataclasses import dataclass

import numpy as np
from coassoc.consensus.kmeans import TableConsensus

@dataclass(frozen=True)
class CentreObjective:
    n_partitions: int

    def table(self, counts):
        centres = counts.alpha / np.maximum(counts.sizes, 1)
        return 2 * centres - (centres**2).sum(axis=0) / self.n_partitions

    def cost_table(self, counts):
        return 1.0 - self.table(counts)

    def loss(self, counts):
        inside = (counts.alpha**2 / np.maximum(counts.sizes, 1)).sum()
        return float(counts.sizes.sum() * self.n_partitions - inside)

class Centres(TableConsensus):
    "Distances to the mean one-hot row of each cluster."

    def make_objective(self, rows, weights):
        return CentreObjective(rows.layout.n_partitions)
"""


@pytest.fixture
def centres(tmp_path, monkeypatch):
    """CONTRIBUTING.md, "Adding a method": a module and a registered line; the registry is as before at the end."""
    (tmp_path / "centres.py").write_text(RECIPE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))
    monkeypatch.delitem(sys.modules, "centres", raising=False)
    return registry.register("centres", "centres:Centres")


def test_the_recipe_for_a_method(centres, engine):
    """With a dense k-means as the truth."""
    ensemble, labels = ca.Ensemble(noisy_table(5, 90)), np.arange(90) % 3
    model = centres.make(n_clusters=3, n_init=1, init=labels, engine=engine).fit(ensemble)
    H, before = ensemble.one_hot().toarray(), None
    while before is None or (labels != before).any():
        centres = np.array([H[labels == c].mean(axis=0) for c in range(3)])
        before, labels = labels, ((H[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert np.asarray(model.labels_).tolist() == labels.tolist()
    assert model.loss_ == pytest.approx(((H - centres[labels]) ** 2).sum())


def test_a_registered_method_is_known_by_name_and_class_runs_from_the_command_line_and_is_saved(
    centres, tmp_path, capsys
):
    assert registry.make_method("centres", n_clusters=2, n_init=None, absent=1).n_clusters == 2
    assert registry.named_method("CENTRES") == (centres, {})
    assert consensus.Centres is centres.estimator
    path = tmp_path / "labels.csv"
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in TABLE))
    for command in ("fit", "report", "compare"):
        assert "centres" in cli.command_parser(command).format_help()
    assert cli.main(["fit", str(path), "-k", "2", "-m", "centres"]) == 0
    assert "Centres" in capsys.readouterr().out
    assert [row.method for row in ca.compare(TABLE, 2, ["centres", "kmeans"]).rows] == ["centres", "kmeans"]
    features = np.arange(12.0).reshape(6, 2)
    model = ca.ConsensusClustering(2, method="centres", n_partitions=3, random_state=0).fit(features)
    assert type(model.consensus_) is centres.estimator
    model = centres.make(n_clusters=2, random_state=0).fit(TABLE)
    model.save(tmp_path / "c.skops")
    again = ca.load(tmp_path / "c.skops")
    assert type(again) is centres.estimator and (again.predict(TABLE) == model.labels_).all()
    del registry.METHODS["centres"]
    with pytest.raises(ValueError, match=r"holds centres\.Centres"):
        ca.load(tmp_path / "c.skops")


PLUGIN = """
import numpy as np
import coassoc
from coassoc.engines import Numpy
from coassoc.ensemble.io.arrays import NpyTable

class Largest(coassoc.ConsensusEstimator):
    'The partition with the most clusters.'

    def __init__(self, engine="auto"):
        self.engine = engine

    def find_labels(self, ensemble):
        return ensemble.partition(int(np.argmax(ensemble.n_clusters)))

class Mirror(Numpy):
    name = "mirror"

class Nap(NpyTable):
    name, suffixes, magic = "nap", (".nap",), ()

"""


def test_a_package_adds_methods_formats_and_engines(tmp_path, monkeypatch, capsys):
    (tmp_path / "addon.py").write_text(PLUGIN)
    info = tmp_path / "addon-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: addon\nVersion: 1.0\n")
    kinds = {"methods": "largest = addon:Largest", "formats": "nap = addon:Nap\nbad = addon:Nothing"}
    kinds["engines"] = "mirror = addon:Mirror"
    (info / "entry_points.txt").write_text("".join(f"[coassoc.{kind}]\n{line}\n" for kind, line in kinds.items()))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))
    caches = (plugins.declared, plugins.loaded, registry._load_entry_points)
    for one in caches:
        one.cache_clear()
    try:
        with pytest.warns(UserWarning, match="addon:Nothing cannot be used"):
            ca.write_ensemble(tmp_path / "t.nap", ca.Ensemble(TABLE))
        out = tmp_path / "out.csv"
        words = ["-m", "largest", "--engine", "mirror", "-o", str(out), "--order", "method"]
        assert cli.main(["fit", str(tmp_path / "t.nap"), *words]) == 0
        assert out.read_text().split() == ["consensus", *map(str, TABLE[:, 1])]
        model = registry.make_method("largest").fit(TABLE)
        assert model.density_ == ca.density(TABLE, TABLE[:, 1]) and model.transform(TABLE).shape == (6, 3)
        model.set_params(engine="mirror").save(tmp_path / "m.skops")
        again = ca.load(tmp_path / "m.skops")
        assert (again.labels_ == TABLE[:, 1]).all() and again.engine == "mirror"
        with pytest.raises(ValueError, match="'mirror'"):
            ca.KMeansConsensus(2, engine="other").fit(TABLE)
    finally:
        for one in caches:
            one.cache_clear()


@pytest.mark.parametrize("name", [name for name, method in registry.METHODS.items() if method.takes == "labels"])
def test_every_method_is_seeded_prints_where_verbose_and_leaves_numpys_state_alone(name, capsys):
    if name in ("mcla", "cspa"):
        pytest.importorskip("pymetis")
    before, table = str(np.random.get_state()), noisy_table(3, 90)  # noqa: NPY002
    seeds = (0, 0, None, np.random.default_rng(1), np.random.RandomState(2), np.random.SeedSequence(3))
    models = [registry.make_method(name, n_clusters=4, random_state=s, verbose=1).fit(table) for s in seeds]
    assert (models[0].labels_ == models[1].labels_).all() and capsys.readouterr().out.strip()
    assert before == str(np.random.get_state())  # noqa: NPY002


def test_bad_registrations_are_refused(centres):
    with pytest.raises(ValueError, match=r"'package.module:Class', got 'toy' and 'toys'"):
        registry.register("toy", "toys")
    for name in ("kmeans", "eac-single"):
        with pytest.raises(ValueError, match=f"a method '{name}' already"):
            registry.register(name, "toys:Toy")


def test_variants_are_compared_in_place_of_their_method_and_all_names_are_taken():
    compared, names = registry.compared_methods(), registry.method_names()
    assert "eac" not in compared and {"eac", "eac-micro", "eac-enhanced-single", "kmeans"} <= set(names)
    assert compared["eac-single"][1] == {"linkage": "single"} and set(compared) == set(names) - {"eac"}


def test_unknown_methods_are_refused_with_a_hint():
    with pytest.raises(ValueError, match="did you mean 'kmeans'"):
        registry.make_method("kmean")
    with pytest.raises(ValueError, match=r"choose one of .*kmeans, bisecting"):
        registry.make_method("features")


@pytest.mark.parametrize("method", registry.METHODS.values(), ids=lambda method: method.name)
def test_every_line_names_a_class_that_is_on_the_page_of_methods(method):
    assert method.estimator.__name__ in ca.__all__
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    if method.takes == "labels":
        assert re.search(rf"^\| `{method.class_name}`.* \| `{method.name}` \|", page, re.MULTILINE)
    else:
        features = (ROOT / "docs" / "guide" / "features.md").read_text(encoding="utf-8")
        assert method.class_name in page + features
    for settings in method.compared.values():
        assert set(settings) <= set(method.estimator._get_param_names())
