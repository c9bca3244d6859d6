"""
Write your own objective
========================

Every k-means-like consensus is one pass over the rows with another score table. A new method is a small pure function from
counts to that table; seeding, restarts, refills and every engine come for free.
"""

# %%
# Here: k-means on H in which small base clusters speak louder, by the share of items they leave out. Scores are sums over an
# item's labels, so a factor per base cluster goes into the table, and into the loss.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import coassoc as ca
from coassoc.consensus import KMeansConsensus


class RarityObjective:
    """Weighted k-means on the rows u∘h / r with weight r = Σ u: the row normalisation keeps k-means sane."""

    def __init__(self, u):
        self.u = u[:, None]

    def _mean(self, counts):
        mass = (self.u * counts.alpha).sum(axis=0)
        return self.u * counts.alpha / np.maximum(mass, 1e-300)

    def table(self, counts):
        m = self._mean(counts)
        return self.u * (2 * m - (m * m).sum(axis=0))

    def cost_table(self, counts):
        return -self.table(counts)

    def loss(self, counts):
        m = self._mean(counts)
        return -float((self.u * counts.alpha * (2 * m - (m * m).sum(axis=0))).sum())


class RarityConsensus(KMeansConsensus):
    def make_objective(self, rows, weights):
        everything = rows.counts(rows.labelling(1, np.zeros(rows.n_rows, dtype=np.int32)))
        return RarityObjective(1.0 - everything.alpha[:, 0] / rows.n_copies)


# %%
# It is an estimator like the others, on any engine.
X, digits = load_digits(return_X_y=True)
ensemble = ca.make_ensemble(X, n_partitions=20, n_clusters=(2, 42), n_init=1, random_state=0)
models = {"k-means": KMeansConsensus(10, random_state=0), "rarity": RarityConsensus(10, random_state=0)}
scores = {}
for name, model in models.items():
    labels = model.fit_predict(ensemble)
    scores[name] = [ca.density(ensemble, labels), ca.ensemble_nmi(ensemble, labels), ca.nmi(labels, digits)]
    print(name, np.round(scores[name], 3))

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for i, (name, values) in enumerate(scores.items()):
    ax.bar(np.arange(3) + 0.4 * i, values, width=0.38, label=name)
ax.set_xticks(np.arange(3) + 0.2, ["density", "ensemble NMI", "NMI with the digit"])
ax.legend()
plt.show()

# %%
# A method that is no k-means derives from ``ConsensusEstimator`` and writes one function from the ensemble to labels.


class MostAgreeing(ca.ConsensusEstimator):
    """The base partition that agrees best with the others."""

    def find_labels(self, ensemble):
        return ensemble.partition(int(np.argmax(ca.partition_agreement(ensemble))))


print(ca.compare(ensemble, 10, {"most agreeing": MostAgreeing, "k-means": "kmeans"}).to_frame()[["density", "ensemble_nmi"]])
