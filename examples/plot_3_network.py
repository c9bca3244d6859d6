"""
A network: stable communities from Leiden runs that differ
==========================================================

Two Leiden runs of one graph can differ in most of their communities. ``ca.stable_leiden`` makes many runs and returns
one answer that hardly depends on the seed.
"""

# %%
# 750 nodes in 30 communities; half of the edges leave the community.
import random

import igraph
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from sklearn.metrics import adjusted_rand_score

import coassoc as ca

plain = nx.planted_partition_graph(30, 25, 0.32, 0.015, seed=1)
truth = np.repeat(np.arange(30), 25)
graph = igraph.Graph.from_networkx(plain)

# %%
# Single runs, the run with the best modularity, and the stable answer, each for two seeds.


def runs(seed, n):
    random.seed(seed)
    return [graph.community_leiden("modularity", n_iterations=3) for _ in range(n)]


single = [runs(seed, 1)[0].membership for seed in range(2)]
best = [max(runs(seed, 20), key=lambda run: run.modularity).membership for seed in range(2)]
answers = [ca.stable_leiden(graph, random_state=seed) for seed in range(2)]
rows = {"a single run": single, "best modularity": best, "stable_leiden": [a.labels_ for a in answers]}
for name, (one, two) in rows.items():
    print(
        f"{name:16} {len(set(one))} communities, ARI with the truth {adjusted_rand_score(truth, one):.2f}, "
        f"between two seeds {adjusted_rand_score(one, two):.2f}"
    )

# %%
# Much of the gain is the resolution: the most stable one is taken.
for tried in answers[0].resolutions_:
    print(tried)

# %%
# The share of runs that join the ends of each edge: low for edges between communities.
shares = answers[0].ensemble_.coassociation(plain).tocoo()
inside = truth[shares.row] == truth[shares.col]
plt.hist([shares.data[inside], shares.data[~inside]], bins=20, label=["inside a community", "between communities"])
plt.xlabel("share of runs that join the two ends of an edge")
plt.legend()
plt.show()
