"""
Clusterings of single cells at many resolutions
===============================================

A single-cell workflow leaves many clusterings of the same cells in ``.obs``: one per resolution, seed or method.
``ca.tl.consensus`` makes one of them and says how sure it is of each cell. The cells below are made up; in practice the
columns come from ``sc.tl.leiden(adata, resolution=r, key_added=f"leiden_{r}")``.
"""

# %%
# Counts of 600 cells of five types, two of them alike, normalised and reduced as usual
# --------------------------------------------------------------------------------------
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

import coassoc as ca

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata

rng = np.random.default_rng(0)
cell_type = rng.integers(0, 5, size=600)
profile = rng.gamma(0.3, size=(5, 200))
profile[1] = 0.85 * profile[0] + 0.15 * profile[1]
counts = rng.poisson(4 * profile[cell_type] + 0.3)
logged = np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True))
adata = anndata.AnnData(logged.astype(np.float32), obs=pd.DataFrame(index=[f"cell-{i}" for i in range(600)]))
adata.obs["type"] = pd.Categorical(np.array(["B", "B naive", "T", "mono", "DC"])[cell_type])
adata.obsm["X_pca"] = PCA(15, random_state=0).fit_transform(logged)

# %%
# Clusterings from coarse to fine
# -------------------------------
# A cluster with one dark line above splits off cleanly; several grey lines mean that cells move between clusters.
for k in (3, 4, 5, 6, 7):
    labels = KMeans(k, n_init=3, random_state=k).fit_predict(adata.obsm["X_pca"])
    adata.obs[f"cluster_{k}"] = pd.Categorical(labels.astype(str))
ca.pl.resolutions(adata, keys="cluster_*")

# %%
# Their consensus
# ---------------
# The two kinds of B cells are nearly alike, and stay one cluster.
answer = ca.tl.consensus(adata, keys="cluster_*")
print(adata.uns["consensus"]["verdict"])
print(pd.crosstab(adata.obs["type"], adata.obs["consensus"]))
ca.pl.confidence(adata)
plt.show()

# %%
# In a file, with the command line:
#
# .. code-block:: sh
#
#     coassoc fit cells.h5ad --columns 'cluster_*' --confidence -o cells-consensus.h5ad
#     coassoc report cells.h5ad --columns 'cluster_*' --class-column type -o report.html
