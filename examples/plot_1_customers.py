"""
Customers: segments, what they mean, and new customers
======================================================

Several algorithms cluster the same customers, and each has its own weakness. The consensus keeps what they agree on. We
explain the segments and label new customers.
"""

# %%
# 600 customers of four kinds. The true kind is used for scoring only.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import BisectingKMeans, KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import coassoc as ca

rng = np.random.default_rng(0)
kind = rng.choice(4, size=600, p=[0.45, 0.3, 0.2, 0.05])
centers = pd.DataFrame(
    {"age": [35, 62, 28, 45], "visits": [4, 9, 14, 25], "basket": [40, 30, 18, 160], "returns": [1, 0.5, 3, 2]}
)
spread = np.array([[9, 2.0, 14, 0.6], [7, 3.0, 10, 0.4], [5, 3.0, 6, 1.0], [9, 4.0, 30, 0.8]])
customers = pd.DataFrame(
    centers.to_numpy()[kind] + spread[kind] * rng.standard_normal((600, 4)), columns=centers.columns
)

# %%
# Three algorithms take turns, with different numbers of clusters. ``"auto"`` chooses the number of segments.
model = ca.ConsensusClustering(
    "auto",
    n_partitions=18,
    base_n_clusters=(2, 8),
    clusterer=[KMeans(n_init=1), GaussianMixture(), BisectingKMeans()],
    random_state=0,
)
pipeline = make_pipeline(StandardScaler(), model).fit(customers)
print(model.verdict_)

# %%
# Beside it: k-means with the number of clusters that has the best silhouette. On these round groups it does as well.
X = StandardScaler().fit_transform(customers)
runs = [KMeans(k, n_init=5, random_state=0).fit_predict(X) for k in range(2, 9)]
best = max(runs, key=lambda labels: silhouette_score(X, labels))
for name, labels in {"consensus": model.labels_, "best silhouette": best}.items():
    score = adjusted_rand_score(kind, labels)
    print(f"{name:16} {len(set(labels))} segments, adjusted Rand index with the true kinds {score:.2f}")

# %%
# What tells the segments apart: means inside and outside, and the effect size.
print(model.profile(customers, n_features=2).to_frame().round(1))

# %%
# New customers get the segment of those they are like.
new = pd.DataFrame({"age": [60, 27], "visits": [8, 15], "basket": [28, 17], "returns": [0.4, 3.2]})
print(pipeline.predict(new))

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
axes[0].scatter(customers["visits"], customers["basket"], c=model.labels_, cmap="tab10", s=8)
axes[0].set(title="segments", xlabel="visits", ylabel="basket")
points = axes[1].scatter(customers["visits"], customers["basket"], c=model.confidence_, s=8)
axes[1].set(title="confidence", xlabel="visits")
figure.colorbar(points)
plt.show()
