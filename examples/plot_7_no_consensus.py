"""
No consensus, and two camps
===========================

A method that always answers is a danger. Here is what ``Consensus`` says when there is nothing to agree on, and when the
clusterings answer two different questions.
"""

# %%
# No consensus
# ------------
# Ten people sort 300 cards, each by a rule of their own. A plain method returns clusters all the same.
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score

import coassoc as ca

rng = np.random.default_rng(0)
cards = rng.integers(4, size=(300, 10))
print("k-means consensus:", np.bincount(ca.KMeansConsensus(4, random_state=0).fit(cards).labels_))
answer = ca.Consensus(random_state=0).fit(cards)
print(answer.verdict_)
print("supported:", answer.supported_, "largest confidence:", answer.confidence_.max())

# %%
# Two camps
# ---------
# Plants differ in the shape of their leaves (three kinds) and, independently, in their flowers (four kinds). Half of the
# clusterings look at leaves, half at flowers.
leaf, flower = rng.integers(3, size=300), rng.integers(4, size=300)
leaves = 4 * np.eye(3)[leaf] + rng.standard_normal((300, 3))
flowers = 4 * np.eye(4)[flower] + rng.standard_normal((300, 4))
runs = [KMeans(3 + s % 3, n_init=1, random_state=s).fit_predict(leaves) for s in range(8)]
runs += [KMeans(4 + s % 3, n_init=1, random_state=s).fit_predict(flowers) for s in range(8)]
answer = ca.Consensus(random_state=0).fit(np.stack(runs, axis=1))
print(answer.verdict_)

# %%
# The answer of each camp is among the alternatives.
for other in answer.alternatives_[:2]:
    with_leaf, with_flower = adjusted_rand_score(leaf, other.labels), adjusted_rand_score(flower, other.labels)
    print(f"{len(set(other.labels))} clusters: ARI {with_leaf:.2f} with the leaves, {with_flower:.2f} with the flowers")

# %%
# Without it, one would cluster all features and take the best silhouette. That gives one of the two, or their product,
# and no word of the other.
both = np.hstack([leaves, flowers])
labels = max(
    (KMeans(k, n_init=2, random_state=0).fit_predict(both) for k in range(2, 13)),
    key=lambda r: silhouette_score(both, r),
)
print(f"best silhouette: {len(set(labels))} clusters, ARI {adjusted_rand_score(leaf, labels):.2f} with the leaves, "
      f"{adjusted_rand_score(flower, labels):.2f} with the flowers")  # fmt: skip
