"""
Cells: which resolution, and is the rare type there?
====================================================

Leiden at one resolution merges types, at another it splits them. ``ca.tl.consensus`` joins a sweep of resolutions, and
says when it hides a small type. The cells are simulated, with one type of 1 %, so that the truth is known.
"""

# %%
import random
import warnings

import igraph
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

import coassoc as ca

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata

rng = np.random.default_rng(0)
share = np.array([0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.05, 0.01])
cell_type = np.sort(rng.choice(8, size=1500, p=share))
profiles = np.exp(0.38 * rng.standard_normal((8, 300)))
counts = rng.poisson(profiles[cell_type] * rng.gamma(8, 1 / 8, size=(1500, 1)))
logged = np.log1p(300 * counts / counts.sum(axis=1, keepdims=True))
genes = pd.DataFrame(index=[f"gene{i}" for i in range(300)])
adata = anndata.AnnData(logged.astype(np.float32), obs=pd.DataFrame(index=[f"cell{i}" for i in range(1500)]), var=genes)
pca = PCA(15, random_state=0).fit_transform(logged)

# %%
# A sweep of resolutions on three graphs of neighbours, as scanpy makes them.
random.seed(0)  # igraph draws from it
found = {}
for n_neighbours in (8, 12, 20):
    neighbours = kneighbors_graph(pca, n_neighbours).tocoo()
    graph = igraph.Graph(n=1500, edges=np.c_[neighbours.row, neighbours.col].tolist()).simplify()
    for resolution in (0.5, 1.0, 1.5, 2.0, 3.0):
        run = graph.community_leiden("modularity", resolution=resolution, n_iterations=3)
        found[f"leiden_{resolution}_{n_neighbours}"] = run
        adata.obs[f"leiden_{resolution}_{n_neighbours}"] = pd.Categorical(list(map(str, run.membership)))
ca.pl.resolutions(adata, keys="leiden_*_12")

# %%
# One answer. The verdict names a small group that most of the finer runs find and this number of clusters hides.
ca.tl.consensus(adata, keys="leiden*", random_state=0)
print(adata.uns["consensus"]["verdict"])
print(f"closest to {adata.uns['consensus']['nearest']}, ARI {adata.uns['consensus']['nearest_ari']:.2f}")

# %%
# So ask for one cluster more, and look. Beside both: the run with the best modularity and the default resolution.
first = adata.obs["consensus"].to_numpy()
answer = ca.tl.consensus(adata, keys="leiden*", n_clusters=8, random_state=0)


def rare(labels):
    """Best Jaccard index of a cluster with the rare type."""
    labels, type_7 = np.asarray(labels), cell_type == 7
    return max((type_7 & (labels == c)).sum() / (type_7 | (labels == c)).sum() for c in np.unique(labels))


best = max(found.values(), key=lambda run: run.modularity).membership
rows = {"consensus, auto": first, "consensus, 8": answer.labels_}
rows |= {"best modularity": best, "resolution 1.0": found["leiden_1.0_12"].membership}
for name, labels in rows.items():
    score = adjusted_rand_score(cell_type, labels)
    print(
        f"{name:16} {len(set(labels)):2} clusters, ARI with the types {score:.2f}, rare type found {rare(labels):.2f}"
    )

# %%
# Markers: the genes that tell each cluster apart, from cells that are placed surely.
sure = np.flatnonzero(answer.confidence_ >= 0.85)
print(ca.profile(answer.labels_[sure], adata[sure], n_features=2).to_frame().round(2).head(8))

# %%
# The consensus on two components, cells of low confidence pale; with scanpy,
# ``sc.pl.umap(adata, color=["consensus", "consensus_confidence"])``.
_, ax = plt.subplots(layout="constrained")
ax.scatter(*pca[:, :2].T, s=6, c=answer.labels_, cmap="tab10", alpha=answer.confidence_)
ax.set(xlabel="component 1", ylabel="component 2")
plt.show()
