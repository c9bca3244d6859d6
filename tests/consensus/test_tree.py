"""The tree by itself: cuts, linkage and Newick of trees grown by chance."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import fcluster, is_valid_linkage

import oracle
from coassoc.consensus.bisecting import Tree


def grown(rng, n_splits):
    tree = Tree()
    tree.add(-1, 100, 0.5)
    for _ in range(n_splits):
        leaf = int(rng.choice(tree.leaves()))
        tree.split(leaf, float(rng.random()), (3, 4), rng.random(2))
    return tree


def test_leaves_run_from_left_to_right():
    tree = Tree()
    tree.add(-1, 9, 0.5)
    assert tree.split(0, 0.1, (4, 5), (0.6, 0.7)) == (1, 2)
    assert tree.split(2, 0.1, (2, 3), (0.8, 0.9)) == (3, 4)
    assert tree.split(1, 0.1, (1, 3), (0.0, 1.0)) == (5, 6)
    assert tree.leaves() == [5, 6, 3, 4]
    assert tree.leaves(2) == [1, 2]
    assert tree.cut(3).tolist() == [0, 0, 1, 2]
    assert tree.newick() == "((leaf0:1,leaf1:1)0.6:2,(leaf2:2,leaf3:2)0.7:1)0.5;"
    assert tree.linkage().tolist() == [[0, 1, 1, 2], [2, 3, 2, 2], [4, 5, 3, 4]]


def test_cuts_are_those_of_scipy_numbered_from_left_to_right():
    rng = np.random.default_rng(2)
    for n_splits in range(1, 25):
        tree = grown(rng, n_splits)
        Z = tree.linkage()
        assert is_valid_linkage(Z)
        assert sorted(tree.leaves()) == sorted(i for i in range(tree.n_nodes) if tree.left[i] < 0)
        assert Z[:, 2].tolist() == [tree.n_leaves - r for r in range(n_splits, 0, -1)]
        for k in range(1, tree.n_leaves + 1):
            assert oracle.same_partition(fcluster(Z, k, "maxclust"), tree.cut(k))
            assert tree.cut(k).tolist() == sorted(tree.cut(k)) and set(tree.cut(k).tolist()) == set(range(k))


def test_the_table_has_a_row_per_node():
    tree = grown(np.random.default_rng(4), 5)
    table = tree.table()
    assert {len(column) for column in table.values()} == {11}
    assert table["rank"].tolist() == tree.rank
    assert np.isnan(table["gain"]).sum() == 6
    assert [table["parent"][c] for c in table["left"] if c >= 0] == [i for i in range(11) if tree.left[i] >= 0]
