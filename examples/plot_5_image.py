"""
An image: 273,280 pixels into segments
======================================

Every k-means run cuts the colours of an image differently. A consensus of six runs depends less on the seeds. All pixels
take part: time and memory are linear.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

import coassoc as ca

image = load_sample_image("china.jpg")
height, width, _ = image.shape
rows, columns = np.mgrid[:height, :width]
features = np.c_[scale(image.reshape(-1, 3) / 255.0), 0.4 * scale(np.c_[rows.ravel(), columns.ravel()])]
print(f"{len(features):,} pixels")


# %%
# We want eight segments to paint with; the colours suggest fewer, as the verdict says. Six runs with 6 to 14 clusters,
# fitted to 3,000 pixels and applied to all, then their consensus with eight segments.
# Twice, with other seeds.
def segments(seed):
    runs = ca.make_ensemble(features, 6, n_clusters=(6, 14), n_init=1, fit_sample=3000, random_state=seed)
    start = time.process_time()
    answer = ca.Consensus(8, random_state=0).fit(runs)
    print(f"consensus: {time.process_time() - start:.1f} s of CPU time")
    return answer


answer, other = segments(1), segments(2)
print(answer.verdict_)

# %%
# Beside it: single runs with eight clusters and other seeds.
single = [ca.make_ensemble(features, 1, 8, n_init=1, fit_sample=3000, random_state=s).partition(0) for s in (1, 2)]
print(f"two single runs agree with ARI {adjusted_rand_score(*single):.2f}")
print(f"two consensuses agree with ARI {adjusted_rand_score(answer.labels_, other.labels_):.2f}")


# %%
def painted(labels):
    """Each pixel in the mean colour of its segment."""
    flat = image.reshape(-1, 3)
    return np.array([flat[labels == c].mean(axis=0) for c in range(labels.max() + 1)]).astype(np.uint8)[labels]


figure, axes = plt.subplots(1, 3, figsize=(12, 3), layout="constrained")
axes[0].imshow(image)
axes[1].imshow(painted(answer.labels_).reshape(image.shape))
shown = axes[2].imshow(answer.confidence_.reshape(height, width))
for ax, title in zip(axes, ("image", "eight segments", "confidence")):
    ax.set(title=title, xticks=[], yticks=[])
figure.colorbar(shown)
plt.show()
