"""h5ad: clusterings out of .obs and the consensus back into it, as anndata itself writes and reads them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import coassoc as ca

h5py = pytest.importorskip("h5py")
pd = pytest.importorskip("pandas")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # anndata warns about other people's versions when it is imported
    anndata = pytest.importorskip("anndata")

N = 60
pytestmark = pytest.mark.filterwarnings("ignore:::anndata")
@pytest.fixture
def cells(tmp_path):
    """A file as a single-cell workflow leaves it: expression, several clusterings, measurements."""
    rng = np.random.default_rng(3)
    types = rng.integers(0, 3, size=N)
    noisy = np.where(rng.random(N) < 0.1, -1, types)
    obs = pd.DataFrame(
        {
            "n_genes": rng.integers(100, 900, size=N),
            "leiden_0.5": pd.Categorical(types.astype(str)),
            "leiden_1.0": pd.Categorical((types * 2 + (rng.random(N) < 0.5)).astype(str)),
            "louvain": pd.Categorical(np.array(["alpha", "beta", "gamma"])[types]),
            "hdbscan": noisy,
            "gap": pd.array(np.where(noisy < 0, 0, noisy), dtype="Int64"),
            "type": pd.Categorical(np.array(["B", "NK", "T"])[types]),
        },
        index=[f"cell-{i}" for i in range(N)],
    )
    obs.loc[obs["hdbscan"] < 0, "gap"] = pd.NA
    data = anndata.AnnData(X=rng.normal(size=(N, 4)).astype(np.float32), obs=obs)
    data.obsm["X_pca"] = rng.normal(size=(N, 2))
    path = tmp_path / "cells.h5ad"
    data.write_h5ad(path)
    return path, obs


def test_columns_are_chosen_by_name_or_pattern(cells):
    path, obs = cells
    read = ca.read_ensemble(path, columns=["leiden*", "louvain", "hdbscan", "gap"], class_column="type")
    assert read.names == ["leiden_0.5", "leiden_1.0", "louvain", "hdbscan", "gap"]
    assert read.item_ids.tolist() == obs.index.tolist()
    assert read.classes.tolist() == obs["type"].tolist()
    same = ca.Ensemble(obs[read.names])
    assert (read.codes == same.codes).all()
    assert read.n_clusters.tolist() == same.n_clusters.tolist()
    missing = obs["hdbscan"].to_numpy() < 0
    assert missing.any()
    assert ((read.partition(3) < 0) == missing).all()
    assert ((read.partition(4) < 0) == missing).all()


def test_a_choice_is_needed_and_named(cells):
    with pytest.raises(ValueError, match=r"columns='leiden\*'.*'n_genes', 'leiden_0.5'"):
        ca.read_ensemble(cells[0])


def test_the_consensus_comes_back_as_a_categorical_column_anndata_reads(cells, tmp_path):
    path, obs = cells
    ensemble = ca.read_ensemble(path, columns=["leiden*", "louvain"])
    labels = ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(ensemble).labels_.copy()
    labels[5] = -1
    out = tmp_path / "out.h5ad"
    ca.write_labels(out, labels, source=path)
    data = anndata.read_h5ad(out)
    column = data.obs["consensus"]
    assert isinstance(column.dtype, pd.CategoricalDtype)
    assert column.isna().tolist() == (labels < 0).tolist()
    assert column.dropna().astype(int).tolist() == labels[labels >= 0].tolist()
    # everything else is as it was
    before = anndata.read_h5ad(path)
    assert (data.X == before.X).all()
    assert (data.obsm["X_pca"] == before.obsm["X_pca"]).all()
    pd.testing.assert_frame_equal(data.obs.drop(columns="consensus"), before.obs)
    assert data.obs.columns.tolist() == [*obs.columns, "consensus"]


def test_an_existing_column_is_kept_unless_forced(cells, tmp_path):
    path, _ = cells
    with pytest.raises(ValueError, match="already has a column 'louvain'"):
        ca.write_labels(tmp_path / "out.h5ad", np.zeros(N, int), source=path, name="louvain")
    assert not (tmp_path / "out.h5ad").exists()
    ca.write_labels(path, np.zeros(N, int), source=path, name="louvain", force=True)
    assert anndata.read_h5ad(path).obs["louvain"].tolist() == ["0"] * N


def test_labels_of_another_length_are_refused(cells, tmp_path):
    with pytest.raises(ValueError, match=f"{N} rows, but there are 2 labels"):
        ca.write_labels(tmp_path / "out.h5ad", np.zeros(2, int), source=cells[0])
    assert not (tmp_path / "out.h5ad").exists()


def test_a_new_h5ad_opens_in_anndata(tmp_path):
    ensemble = ca.Ensemble([[0, "x"], [1, None], [-1, "y"]])
    ensemble.item_ids = np.array(["p", "q", "r"])
    ca.write_ensemble(tmp_path / "new.h5ad", ensemble)
    obs = anndata.read_h5ad(tmp_path / "new.h5ad").obs
    assert obs.index.tolist() == ["p", "q", "r"]
    assert obs["partition_1"].isna().tolist() == [False, True, False]
    assert obs["partition_1"].dropna().tolist() == ["x", "y"]
