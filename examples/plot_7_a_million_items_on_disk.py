"""
A million items that stay on disk
=================================

Counts and scores are sums over rows, so it does not matter where the rows are. Here a million items with ten clusterings lie
in a file; they are streamed through a small memory budget, and the labels are those of the in-memory fit, bit for bit.
"""

# %%
# A file of codes
# ---------------
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import coassoc as ca

n, p = 1_000_000, 10
path = Path(tempfile.mkdtemp()) / "codes.npy"
rng = np.random.default_rng(0)
truth = rng.integers(12, size=n, dtype=np.uint8)
codes = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n, p))
for j in range(p):
    noisy = rng.random(n) < 0.2
    codes[:, j] = np.where(noisy, rng.integers(12, size=n, dtype=np.uint8), truth)
codes.flush()

# %%
# The same fit three ways
# -----------------------
ensemble = ca.Ensemble(np.load(path, mmap_mode="r"))
engines = {
    "in memory": "auto",
    "streamed, 256 MB": ca.engines.Stream(memory="256MB"),
    "streamed, 32 MB": ca.engines.Stream(memory="32MB"),
}
ca.KMeansConsensus(2).fit([[0], [1]])  # import and start what is slow to start, once
seconds, labels = {}, {}
for name, engine in engines.items():
    start = time.perf_counter()
    labels[name] = ca.KMeansConsensus(12, n_init=1, random_state=0, engine=engine).fit(ensemble).labels_
    seconds[name] = time.perf_counter() - start
    print(f"{name:18} {seconds[name]:.2f} s, same labels: {bool((labels[name] == labels['in memory']).all())}")

# %%
figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.barh(list(seconds), list(seconds.values()), color="tab:blue")
ax.set(xlabel="seconds for the whole fit", title=f"{n:,} items, {p} clusterings")
path.unlink()
plt.show()
