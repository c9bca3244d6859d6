"""ca.tl and ca.pl on real AnnData objects: what is written, read back by anndata itself, and drawn."""

import json
import warnings

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main

pd = pytest.importorskip("pandas")
pytest.importorskip("h5py")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # anndata warns about other people's versions when it is imported
    anndata = pytest.importorskip("anndata")


@pytest.fixture
def cells():
    rng = np.random.default_rng(0)
    kind = np.repeat(np.arange(4), [90, 60, 40, 10])
    obs = pd.DataFrame({"n_genes": rng.integers(100, 900, size=200)}, index=[f"cell{i}" for i in range(200)])
    for resolution in (0.4, 0.7, 1.0, 1.3, 1.6):
        labels = np.where(rng.random(200) < 0.93, kind, rng.integers(-1, 4, size=200))
        obs[f"leiden_{resolution}"] = pd.Categorical(labels.astype(str))
    adata = anndata.AnnData(rng.normal(size=(200, 3)).astype(np.float32), obs=obs)
    return adata, kind


def quietly(call, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args)


def test_the_consensus_is_written_into_the_object(cells, tmp_path):
    adata, kind = cells
    model = ca.tl.consensus(adata, keys="leiden*")
    labels, sure = adata.obs["consensus"], adata.obs["consensus_confidence"]
    assert labels.cat.ordered and labels.cat.categories.tolist() == ["0", "1", "2", "3"]
    assert labels.value_counts(sort=False).is_monotonic_decreasing and ca.nmi(kind, labels) > 0.9
    assert (sure == np.asarray(model.confidence_, dtype=float)).all() and sure.between(0, 1).all()
    assert adata.uns["consensus"]["keys"] == [name for name in adata.obs if name.startswith("leiden")]
    assert adata.uns["consensus"]["verdict"] == model.verdict_
    # "-1" is noise, as in the file
    quietly(adata.write_h5ad, tmp_path / "cells.h5ad")
    same = ca.read_ensemble(tmp_path / "cells.h5ad", columns="leiden*")
    assert (ca.Consensus(random_state=0).fit(same).labels_ == model.labels_).all()
    again = quietly(anndata.read_h5ad, tmp_path / "cells.h5ad")
    assert again.uns["consensus"]["n_clusters"] == 4 and (again.obs["consensus"] == labels).all()
    # run again: what was written is never taken for a clustering
    assert ca.tl.consensus(adata, keys=["leiden*", "consensus*"], n_clusters=3).n_clusters_ == 3
    assert len(adata.uns["consensus"]["keys"]) == 5


def test_the_command_line_writes_the_same_into_a_file(cells, tmp_path, capsys):
    adata, _ = cells
    quietly(adata.write_h5ad, tmp_path / "cells.h5ad")
    model = ca.tl.consensus(adata, keys="leiden*")
    for scale in ([], ["--memory", "10MB"]):
        out = tmp_path / f"out{len(scale)}.h5ad"
        words = ["fit", str(tmp_path / "cells.h5ad"), "--columns", "leiden*", "--confidence", "-o", str(out), "--json"]
        assert main([*words, *scale]) == 0
        assert json.loads(capsys.readouterr().out)["clusters"] == 4
        found = quietly(anndata.read_h5ad, out).obs
        assert (found["consensus"].astype(int).to_numpy() == adata.obs["consensus"].cat.codes).all()
        assert found["consensus_confidence"].to_numpy() == pytest.approx(np.asarray(model.confidence_), abs=5.1e-5)


def test_what_is_wrong_is_said(cells):
    adata, _ = cells
    with pytest.raises(ValueError, match=r"no column 'louvain\*'; it has n_genes, leiden_0.4"):
        ca.tl.consensus(adata, keys="louvain*")
    with pytest.raises(ValueError, match="at least one column"):
        ca.tl.consensus(adata, keys=[])
    with pytest.raises(TypeError, match="AnnData object, got DataFrame"):
        ca.tl.consensus(adata.obs, keys="leiden*")
    for call in (ca.Ensemble, ca.Consensus().fit, ca.KMeansConsensus(2).fit):
        with pytest.raises(TypeError, match=r"got AnnData; coassoc\.tl\.consensus\(adata, keys='leiden\*'\)"):
            call(adata)


def test_drawings(cells):
    pytest.importorskip("matplotlib").use("agg")
    adata, _ = cells
    ca.tl.consensus(adata, keys="leiden*")
    tree = ca.pl.resolutions(adata, "leiden*")
    assert [label.get_text() for label in tree.get_yticklabels()].count("consensus") == 1
    assert len(tree.collections) == 6 and len(tree.get_yticklabels()) == 6
    for dots in tree.collections:  # areas are as the numbers of cells
        areas = np.sort(dots.get_sizes())[::-1]
        assert areas[0] / areas[1] == pytest.approx(90 / 60, rel=0.15)
    found = [text.get_text() for text in tree.texts if text.get_position()[0] == 1.01]
    wanted = ca.Consensus(random_state=0).fit(adata.obs[[c for c in adata.obs if c.startswith("leiden")]].astype(int))
    best = f"{wanted.nearest_partition_.ari:.2f}, closest"
    assert found[0] == "ARI with\nconsensus" and len(found) == 6 and best in found
    assert len(ca.pl.resolutions(adata, "leiden*", key="absent").collections) == 5


def test_which_resolution_and_what_is_rare_are_written(cells, tmp_path):
    adata, _ = cells
    kind = np.repeat(np.arange(3), [100, 90, 10])
    coarse = np.minimum(kind, 1)
    for j in range(5):
        adata.obs[f"run_{j}"] = pd.Categorical((coarse if j < 2 else kind).astype(str))
        adata.obs.iloc[j, adata.obs.columns.get_loc(f"run_{j}")] = "1"
    model = ca.tl.consensus(adata, keys="run*", n_clusters=2, method="kmeans")
    told = adata.uns["consensus"]
    assert (told["nearest"], told["nearest_ari"]) == model.nearest_partition_[1:]
    assert told["nearest"] in ("run_0", "run_1")
    assert told["partition_agreement"].tolist() == model.partition_ari_.tolist()
    assert told["hidden"] == ["10 items of cluster 1 are a cluster of their own in 3 of the 3 finer clusterings "
                              "(cluster 2 of run_2)."]  # fmt: skip
    quietly(adata.write_h5ad, tmp_path / "cells.h5ad")
    assert ca.tl.consensus(adata, keys="run*", n_clusters=3).n_clusters_ == 3 and adata.uns["consensus"]["hidden"] == []
    assert ca.tl.consensus(adata, keys="run*", min_cluster_size=20).cluster_sizes_.min() >= 20


def test_thirty_columns_and_fifty_clusters_fit_a_page():
    pytest.importorskip("matplotlib").use("agg")
    kind = np.arange(1000) % 50
    names = [f"leiden_{j:02d}" for j in range(30)]
    obs = pd.DataFrame({name: kind // (1 + j % 3) for j, name in enumerate(names)}, dtype="category")
    obs["consensus"] = pd.Categorical(kind.astype(str))
    adata = anndata.AnnData(obs=obs.set_index(obs.index.astype(str)))
    tree = ca.pl.resolutions(adata, "leiden*")
    assert tree.figure.get_size_inches()[1] <= 10 and len(tree.collections) == 31
    step = 72 * tree.get_window_extent().width / tree.figure.dpi / 50
    assert max(c.get_sizes().max() for c in tree.collections) ** 0.5 <= step + 1e-9  # dots of a row do not overlap
    assert len(np.unique(tree.collections[-1].get_facecolor(), axis=0)) == 50
