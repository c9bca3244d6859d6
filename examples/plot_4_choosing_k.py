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
found = ca.select_k(X, range(2, 9), n_references=8, random_state=0)
print(found.verdict)
print(found.claim)
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
