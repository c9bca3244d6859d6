"""Camps: groups of clusterings that agree within and not across."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

ACROSS = 0.1  # agreement across camps is at most this share of the agreement within each of them
LEAST_WITHIN = 0.05  # agreement within a camp; below, there is nothing to be apart


def find_camps(ami: np.ndarray, members: np.ndarray) -> list[np.ndarray]:
    """Positions of the clusterings of each camp; one camp when the members are not apart.

    `ami` is the agreement of every two clusterings and `members` the positions of those that count, each of them a
    clustering of its own. Average linkage of the agreement is cut where the mean agreement across every two groups
    is at most ACROSS times that within each of them; a camp has at least two members.
    """
    if len(members) < 4:
        return [members]
    between = np.maximum(ami[np.ix_(members, members)], 0.0)
    tree = linkage(squareform(1.0 - np.minimum(between, 1.0), checks=False), "average")
    for n_camps in range(len(members) // 2, 1, -1):
        camp = fcluster(tree, n_camps, "maxclust") - 1
        if camp.max() + 1 == n_camps and _are_apart(between, camp, n_camps):
            return [members[camp == c] for c in range(n_camps)]
    return [members]


def _are_apart(between: np.ndarray, camp: np.ndarray, n_camps: int) -> bool:
    sizes = np.bincount(camp, minlength=n_camps)
    if sizes.min() < 2:
        return False
    member = np.eye(n_camps)[camp]
    sums = member.T @ (between * ~np.eye(len(camp), dtype=bool)) @ member
    within = np.diagonal(sums) / (sizes * (sizes - 1))
    across = sums / np.outer(sizes, sizes)
    np.fill_diagonal(across, 0.0)
    return bool(within.min() >= LEAST_WITHIN and across.max() <= ACROSS * within.min())
