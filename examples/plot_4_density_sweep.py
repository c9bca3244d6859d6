"""
A density sweep: HDBSCAN without choosing its settings, and noise
=================================================================

HDBSCAN has two settings, and it calls some points noise (−1). A sweep over both settings is an ensemble with missing
labels. The consensus needs no choice among them, and points that most runs leave out are noise.
"""

# %%
# Five groups of different densities with 120 points of noise.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score, roc_auc_score

import coassoc as ca

rng = np.random.default_rng(0)
X, group = make_blobs([150, 150, 120, 120, 60], cluster_std=[0.4, 0.7, 1.0, 1.3, 0.3], random_state=3)
X = np.vstack([X, rng.uniform(X.min(axis=0), X.max(axis=0), size=(120, 2))])
truth = np.r_[group, np.full(120, -1)]

# %%
settings = [(size, few) for size in (5, 10, 20, 40) for few in (2, 5, 10, 20)]
runs = [HDBSCAN(min_cluster_size=size, min_samples=few, copy=True).fit_predict(X) for size, few in settings]
ensemble = ca.Ensemble.from_partitions(runs)
answer = ca.Consensus(noise=0.5, random_state=0).fit(ensemble)
print(answer.verdict_)

# %%
# Beside it: HDBSCAN as it comes, and the sixteen settings one by one.
default = HDBSCAN(copy=True).fit(X)
scores = [adjusted_rand_score(truth, run) for run in runs]
print(f"consensus        ARI {adjusted_rand_score(truth, answer.labels_):.2f}")
print(f"default settings ARI {adjusted_rand_score(truth, default.labels_):.2f}")
print(f"sixteen settings ARI {min(scores):.2f} to {max(scores):.2f}, median {np.median(scores):.2f}")

# %%
# Which points are noise? The share of runs that leave a point out, beside HDBSCAN's own probabilities.
share = ensemble.noise_share()
print(f"share of runs: AUC {roc_auc_score(truth < 0, share):.2f}")
print(f"probabilities of one run: AUC {roc_auc_score(truth < 0, 1 - default.probabilities_):.2f}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
for ax, labels, title in zip(axes, (default.labels_, answer.labels_), ("default settings", "consensus")):
    ax.scatter(*X.T, c=np.where(labels < 0, "lightgrey", np.array([f"C{c % 10}" for c in labels])), s=8)
    ax.set_title(f"{title} (grey: noise)")
points = axes[2].scatter(*X.T, c=share, s=8)
axes[2].set_title("share of runs that call it noise")
figure.colorbar(points)
plt.show()
