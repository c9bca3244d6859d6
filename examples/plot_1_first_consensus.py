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
clusterings = ca.make_ensemble(X, n_partitions=10, n_clusters=(6, 16), n_init=1, random_state=0)

# %%
# Their consensus
# ---------------
# Four clusters are asked for. ``ca.Consensus()`` would choose their number, but clusterings into 6 to 16 pieces do not
# determine it: see :ref:`sphx_glr_gallery_plot_4_choosing_k.py`.
answer = ca.Consensus(4, random_state=0).fit(clusterings)
print(answer.verdict_)

figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for j, ax in enumerate(axes[:2]):
    ax.scatter(*X.T, c=clusterings.partition(j), cmap="tab20", s=6)
    ax.set_title(f"clustering {j}: {clusterings.n_clusters[j]} clusters")
axes[2].scatter(*X.T, c=answer.labels_, cmap="tab10", s=6)
axes[2].set_title(f"consensus: {answer.n_clusters_} clusters")
axes[3].scatter(*X.T, c=answer.confidence_, cmap="viridis", s=6, vmin=0, vmax=1)
axes[3].set_title("confidence")
for ax in axes:
    ax.set_axis_off()

# %%
# Four clusters agree less with the ten clusterings than these, all of them finer, agree with each other, and far more
# with the blobs the points were drawn from. The two scores answer different questions.
single = [ca.nmi(clusterings.partition(j), truth) for j in range(10)]
print(f"agreement with the clusterings {answer.agreement_:.3f}, of a single one {ca.zero_effort(clusterings).mean:.3f}")
print(f"agreement with the truth {ca.nmi(answer.labels_, truth):.3f}, of a single one {np.mean(single):.3f} on average")
plt.show()
