"""
Noise from HDBSCAN
==================

HDBSCAN calls points it cannot place noise, −1. In an ensemble that is simply a missing label: a pair of points counts in the
runs that placed both.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.datasets import make_moons

import coassoc as ca

rng = np.random.default_rng(0)
X, _ = make_moons(n_samples=500, noise=0.08, random_state=0)
X = np.vstack([X, rng.uniform((-1.5, -1), (2.5, 1.5), size=(60, 2))])
runs = [
    HDBSCAN(min_cluster_size=size, min_samples=few, copy=True).fit_predict(X)
    for size in (8, 15, 30)
    for few in (3, 6, 12)
]
ensemble = ca.Ensemble.from_partitions(runs)
print(ensemble)
print(f"labels missing: {100 * np.mean([run < 0 for run in runs]):.0f} %")

# %%
# A consensus over what was observed. Points that every run called noise take no part and get −1.
model = ca.KMeansConsensus(n_clusters=2, random_state=0).fit(ensemble)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.scatter(*X.T, c=np.mean([run < 0 for run in runs], axis=0), cmap="viridis", s=8)
left.set_title("share of runs that called it noise")
colours = np.where(model.labels_ < 0, "lightgrey", np.where(model.labels_ == 0, "tab:blue", "tab:orange"))
right.scatter(*X.T, c=colours, s=8)
right.set_title("consensus (grey: never labelled)")
plt.show()
