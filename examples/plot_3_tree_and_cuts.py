"""
A tree, cut anywhere
====================

When the number of clusters is not known, grow a tree once and cut it at any k without fitting again.
"""

# %%
import matplotlib.pyplot as plt
from scipy.cluster.hierarchy import dendrogram
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import coassoc as ca

X, cultivar = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
ensemble = ca.make_ensemble(X, n_partitions=20, n_clusters=(3, 13), n_init=1, random_state=0)
tree = ca.BisectingConsensus(random_state=0).fit(ensemble)
print(tree.n_leaves_, "leaves")

# %%
# Every leaf's gain in density is known before it is split; the largest goes first.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
dendrogram(tree.linkage_, ax=left, color_threshold=0)
left.set(title="the tree over its leaves", ylabel="leaves − rank of the split")
ks = range(2, tree.n_leaves_ + 1)
right.plot(ks, [ca.density(ensemble, tree.cut(k)) for k in ks], "o-", label="density")
right.plot(ks, [ca.ensemble_nmi(ensemble, tree.cut(k)) for k in ks], "s-", label="ensemble NMI")
right.plot(ks, [ca.nmi(tree.cut(k), cultivar) for k in ks], "^-", label="NMI with the cultivar")
right.set(xlabel="k", title="cuts of one tree")
right.legend()

# %%
# Density always rises with k; agreement does not. The tree goes to other tools as a SciPy linkage or as Newick text.
print(tree.to_newick())
plt.show()
