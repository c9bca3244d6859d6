"""
Topics: one set of topics from several seeds
============================================

Topics found by clustering documents change with the seed. Several seeds in, one set of topics out. The documents are
drawn here from ten known topics, so that we can count what is right.
"""

# %%
# 800 short documents. Every topic has fifteen words of its own; most words of a document are common ones.
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import normalize

import coassoc as ca

rng = np.random.default_rng(0)
names = ["sports", "music", "food", "space", "law", "health", "travel", "money", "film", "garden"]
topic = rng.choice(10, size=800, p=np.linspace(1, 3, 10) / 20)
zipf = 1 / np.arange(1, 401)
documents = []
for t in topic:
    own = [f"{names[t]}{i}" for i in rng.integers(15, size=rng.integers(3, 8))]
    common = [f"word{i}" for i in rng.choice(400, size=40, p=zipf / zipf.sum())]
    documents.append(" ".join(own + common))

# %%
vectorizer = TfidfVectorizer(max_df=0.5)
tfidf = vectorizer.fit_transform(documents)
X = normalize(TruncatedSVD(30, random_state=0).fit_transform(tfidf))
runs = ca.make_ensemble(X, n_partitions=16, n_clusters=(8, 14), n_init=1, random_state=0)
answer = ca.Consensus(10, random_state=0).fit(runs)
print(answer.verdict_)

# %%
# Beside it: single runs with ten topics, and the best silhouette of twelve runs, which does as well here. We set ten
# topics ourselves: with short documents the number is hard to find, and the verdict says when the clusterings suggest another one.
single = [KMeans(10, n_init=1, random_state=s).fit_predict(X) for s in range(10)]
best = max(
    (KMeans(k, n_init=1, random_state=k).fit_predict(X) for k in range(5, 17)), key=lambda r: silhouette_score(X, r)
)
scores = [adjusted_rand_score(topic, run) for run in single]
between = [adjusted_rand_score(a, b) for a, b in pairwise(single)]
print(f"consensus: {answer.n_clusters_} topics, ARI with the truth {adjusted_rand_score(topic, answer.labels_):.2f}")
print(f"one run with k = 10: {np.mean(scores):.2f} on average, {min(scores):.2f} to {max(scores):.2f}")
print(f"two such runs agree with ARI {np.mean(between):.2f}")
print(f"best silhouette: {len(set(best))} topics, {adjusted_rand_score(topic, best):.2f}")

# %%
# The words of each topic.
table = ca.profile(answer.labels_, tfidf, vectorizer.get_feature_names_out(), n_features=5)
for c in range(answer.n_clusters_):
    print(c, int((answer.labels_ == c).sum()), " ".join(table["feature"][table["cluster"] == c]))

# %%
# BERTopic takes a consensus in place of HDBSCAN: :doc:`/guide/topics`.
ca.report.plot_coassociation(runs, answer.labels_)
plt.show()
