"""
Choosing k, and when not to
===========================

Density rises with every cluster one adds. A number of clusters is only worth suggesting where the clusterings agree more than
they would on data without clusters; on a single cloud the honest answer is that there are none.
"""

# %%
# Five blobs
# ----------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import coassoc as ca

X, _ = make_blobs(n_samples=300, centers=5, cluster_std=0.6, random_state=4)
clusterings = ca.make_ensemble(X, n_partitions=20, n_clusters=(2, 12), n_init=1, random_state=0)
answer = ca.Consensus(random_state=0).fit(clusterings)
print(answer.verdict_)

ks = answer.k_curves_["ks"]
figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name in ("agreement", "stability", "score"):
    ax.plot(ks, answer.k_curves_[name] / answer.k_curves_[name].max(), "o-", label=name)
ax.axvline(answer.n_clusters_, color="grey")
ax.set(xlabel="k", title="what the number is read from")
ax.legend()

# %%
# From the features it can also be tested whether the data have clusters at all.
found = ca.select_k(X, range(2, 9), n_references=8, random_state=0)
print(found.verdict)
ca.report.plot_select_k(found)

# %%
# One cloud
# ---------
# The same pipeline on the same number of points from a single Gaussian.
cloud = np.random.default_rng(0).normal(size=(300, 2))
nothing = ca.select_k(cloud, range(2, 9), n_references=8, random_state=0)
print(nothing.verdict)
ca.report.plot_select_k(nothing)
plt.show()
