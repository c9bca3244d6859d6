"""
A first consensus
=================

Ten k-means runs on the same points disagree, because k-means cuts long shapes wherever it happens to start. What they
agree on is the shapes.
"""

# %%
# Points, and ten clusterings of them
# -----------------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import coassoc as ca

X, truth = make_blobs(n_samples=600, centers=4, cluster_std=0.9, random_state=3)
X = X @ np.array([[0.6, -0.6], [-0.4, 0.8]])  # stretch the blobs
ensemble = ca.make_ensemble(X, n_partitions=10, n_clusters=(6, 16), n_init=1, random_state=0)

figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for j, ax in enumerate(axes[:3]):
    ax.scatter(*X.T, c=ensemble.partition(j), cmap="tab20", s=6)
    ax.set_title(f"clustering {j}: {ensemble.n_clusters[j]} clusters")

# %%
# Their consensus
# ---------------
model = ca.KMeansConsensus(n_clusters=4, random_state=0).fit(ensemble)
axes[3].scatter(*X.T, c=model.labels_, cmap="tab10", s=6)
axes[3].set_title("consensus of ten")
for ax in axes:
    ax.set_axis_off()

# %%
# Three scores, three questions: how tight is the consensus, how well does it agree with the ensemble (and would one of the
# ten have done as well), how well does it agree with the truth.
print(f"density            {model.density_:.3f}")
print(f"ensemble NMI       {ca.ensemble_nmi(ensemble, model.labels_):.3f}  (zero effort: {ca.zero_effort(ensemble)})")
print(f"NMI with the truth {ca.nmi(model.labels_, truth):.3f}")
plt.show()
