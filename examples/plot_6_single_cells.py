"""
Clusterings of single cells, in one h5ad file
=============================================

A single-cell workflow leaves many clusterings of the same cells in ``.obs``: one per resolution, seed or method.
Here they become one consensus column of the same file, which scanpy and anndata read like any other. The file below is
made up and small; in practice the columns come from ``sc.tl.leiden(adata, resolution=r, key_added=f"leiden_{r}")``.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

import coassoc as ca

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata

# %%
# Counts of 600 cells of five types, normalised and reduced as usual.

rng = np.random.default_rng(0)
cell_type = rng.integers(0, 5, size=600)
profile = rng.gamma(0.3, size=(5, 200))
counts = rng.poisson(8 * profile[cell_type] + 0.3)
logged = np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True))
embedding = PCA(15, random_state=0).fit_transform(logged)

# %%
# Clusterings at several resolutions, with two seeds each; cells far from every centre are left out as noise (−1).

obs = pd.DataFrame({"n_counts": counts.sum(axis=1)}, index=[f"cell-{i}" for i in range(600)])
obs["type"] = pd.Categorical(np.array(["B", "T", "NK", "mono", "DC"])[cell_type])
for k in (4, 5, 6, 8):
    for seed in (0, 1):
        model = KMeans(k, n_init=1, random_state=seed).fit(embedding)
        labels = model.labels_.astype(int)
        distance = model.transform(embedding).min(axis=1)
        labels[distance > np.quantile(distance, 0.97)] = -1
        obs[f"cluster_{k}_{seed}"] = labels

folder = Path(tempfile.mkdtemp())
data = anndata.AnnData(X=logged.astype(np.float32), obs=obs)
data.obsm["X_pca"] = embedding
data.write_h5ad(folder / "cells.h5ad")

# %%
# The clusterings are chosen by a pattern; the true type is kept aside for scoring. −1 is a missing label.

ensemble = ca.read_ensemble(folder / "cells.h5ad", columns="cluster_*", class_column="type")
print(ensemble, ensemble.names, sep="\n")

consensus = ca.KMeansConsensus(5, random_state=0).fit(ensemble)
print(f"agreement with the clusterings (NMI) {ca.ensemble_nmi(ensemble, consensus.labels_):.3f}")
print(f"agreement with the cell types  (NMI) {ca.nmi(ensemble.classes, consensus.labels_):.3f}")

# %%
# Back into a copy of the file as a categorical column, and on with scanpy:

ca.write_labels(folder / "cells-consensus.h5ad", consensus.labels_, source=folder / "cells.h5ad")
again = anndata.read_h5ad(folder / "cells-consensus.h5ad")
print(again.obs["consensus"].value_counts())
print(pd.crosstab(again.obs["type"], again.obs["consensus"]))

# %%
# On the command line the same is
#
# .. code-block:: sh
#
#     coassoc fit cells.h5ad --columns 'cluster_*' -k 5 -o cells-consensus.h5ad
#     coassoc report cells.h5ad --columns 'cluster_*' --class-column type -k 5 -o report.html
