"""
The picture behind it: blocks of co-association
===============================================

The co-association of two items is the share of clusterings that put them together. Ordered by a consensus, the matrix shows
blocks. It is drawn here from a sample of items; the consensus itself never needs it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import coassoc as ca

X, digits = load_digits(return_X_y=True)
ensemble = ca.make_ensemble(X, n_partitions=20, n_clusters=(10, 42), n_init=1, random_state=0)
model = ca.KMeansConsensus(n_clusters=12, random_state=0).fit(ensemble)

# %%
# The same matrix, in the order of the file and in the order of the consensus.
sample = np.arange(0, len(X), 4)
ordered = sample[np.argsort(model.labels_[sample], kind="stable")]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
left.imshow(ensemble.coassociation(sample), cmap="magma_r", vmin=0, vmax=1)
left.set_title("order of the file")
image = right.imshow(ensemble.coassociation(ordered), cmap="magma_r", vmin=0, vmax=1)
right.set_title("order of the consensus")
figure.colorbar(image, ax=(left, right), label="share of clusterings that agree")

# %%
# The mean shade of each block is what the library computes from counts, for any number of items.
print(np.round(ca.inter_density(ensemble, model.labels_), 2))
plt.show()
