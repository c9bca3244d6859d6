"""BisectingConsensus: what every node says by brute force, cuts, criteria; trees grown by chance."""

import math

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, is_valid_linkage

import coassoc as ca
import oracle
from coassoc.consensus.bisecting import Tree


def fit(table, k=None, *, copies=None, **options):
    options = {"random_state": 0, "engine": "numpy"} | options
    return ca.BisectingConsensus(k, **options).fit(table, sample_weight=copies)


def node_members(tree):
    """Items of every node, from the leaves of the fitted tree."""
    nodes = tree.tree_
    members = {node: np.zeros(len(tree.labels_), bool) for node in range(nodes.n_nodes)}
    full = tree.cut(tree.n_leaves_)
    for position, leaf in enumerate(nodes.leaves()):
        node = leaf
        while node >= 0:
            members[node] |= full == position
            node = nodes.parent[node]
    return members


def test_sizes_densities_and_gains_of_every_node_are_brute_force():
    for seed in range(25):
        rng = np.random.default_rng(seed)
        table = oracle.table_with_holes(rng, n=30, holes=seed % 2 == 0)
        copies = rng.integers(0, 3, size=30) + (np.arange(30) < 8) if seed % 3 == 0 else None
        weights = rng.random(6) + 0.1 if seed % 4 == 0 else None
        tree = fit(table, copies=copies, partition_weights=weights, random_state=seed, max_leaves=6)
        case = oracle.Case(table, np.zeros(30, int), copies, weights)
        times = np.ones(30, int) if copies is None else copies
        written = np.repeat(table, times, axis=0)
        members = {node: np.repeat(mask, times) for node, mask in node_members(tree).items()}
        n = int(members[0].sum())
        nodes = tree.tree_
        density = {}
        for node, mask in members.items():
            labels = np.where(mask, 0, -1)
            density[node] = oracle.density(written, labels, case.v)
            assert nodes.size[node] == mask.sum()
            assert nodes.density[node] == pytest.approx(density[node], abs=1e-9)
        for node in range(nodes.n_nodes):
            if nodes.rank[node]:
                parts = [nodes.left[node], nodes.right[node]]
                gain = sum(nodes.size[c] * density[c] for c in parts) - nodes.size[node] * density[node]
                assert nodes.gain[node] == pytest.approx(gain / n, abs=1e-9)
            else:
                assert math.isnan(nodes.gain[node])


@pytest.mark.parametrize("criterion", ["gain", "loss", "size"])
def test_the_leaf_split_next_is_the_one_the_criterion_names(criterion):
    for seed in range(15):
        table = oracle.table_with_holes(np.random.default_rng(seed), n=60)
        tree = fit(table, criterion=criterion, max_leaves=12, random_state=seed)
        longer = fit(table, criterion=criterion, max_leaves=40, random_state=seed)
        nodes, members = longer.tree_, node_members(longer)
        ones = [1.0] * table.shape[1]
        if criterion == "size":
            worth = dict(enumerate(map(float, nodes.size)))
        elif criterion == "loss":
            worth = {node: oracle.loss(table, np.where(mask, 0, -1), ones) for node, mask in members.items()}
        else:
            worth = dict(enumerate(nodes.gain))
        assert (tree.linkage_.shape[0], longer.n_leaves_ > 12) == (11, True)
        for step in range(1, tree.n_leaves_):
            chosen = nodes.rank.index(step)
            others = [leaf for leaf in nodes.leaves(step) if nodes.rank[leaf]]  # leaves at that time, split later
            assert worth[chosen] >= max(worth[leaf] for leaf in others) - 1e-9


@pytest.mark.parametrize(("n", "leaves"), [(99, 9), (100, 10), (101, 10)])
def test_the_default_stop_is_the_root_of_n(n, leaves):
    rng = np.random.default_rng(5)
    table = rng.integers(0, 5, size=(n, 6))
    assert fit(table).n_leaves_ == leaves
    assert fit(table[:50], copies=np.r_[np.full(49, 2), n - 98]).n_leaves_ == leaves  # copies are counted
    with_empty = np.vstack([table, np.full((30, 6), -1)])
    assert fit(with_empty).n_leaves_ == leaves  # items without labels are not


def test_the_labels_are_the_asked_cut():
    table = oracle.table_with_holes(np.random.default_rng(6))
    tree = fit(table, 4, max_leaves=9)
    assert (tree.labels_ == tree.cut(4)).all()
    assert len(tree.cluster_sizes_) == 4
    assert tree.n_leaves_ == 9
    assert fit(table, 4).n_leaves_ == 4
    assert tree.loss_ == pytest.approx(ca.kmeans_loss(table, tree.labels_, engine="numpy"))
    assert tree.density_ == pytest.approx(ca.density(table, tree.labels_, engine="numpy"))
    assert (tree.labels_[7], (tree.labels_ == -1).sum()) == (-1, 1)


def test_refining_never_raises_the_loss(engine):
    better = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        table = oracle.table_with_holes(rng, holes=seed % 2 == 0)
        weights = rng.random(6) if seed % 3 == 0 else None
        options = {"random_state": seed, "engine": engine, "partition_weights": weights}
        plain, finished = fit(table, 6, **options), fit(table, 6, refine="kmeans", **options)
        assert finished.loss_ <= plain.loss_
        better += finished.loss_ < plain.loss_
        assert (finished.cut(6) == plain.labels_).all()
        assert finished.loss_ == pytest.approx(
            ca.kmeans_loss(table, finished.labels_, partition_weights=weights, engine="numpy")
        )
    assert better > 4


def test_rows_that_cannot_be_told_apart_stay_together():
    table = np.repeat([[0, 0], [0, 1], [2, 2]], [10, 20, 30], axis=0)
    for criterion in ("gain", "loss", "size"):
        tree = fit(table, criterion=criterion)
        assert tree.n_leaves_ == 3  # the root of 60 would be 7
        assert oracle.same_partition(tree.labels_, np.repeat([0, 1, 2], [10, 20, 30]))
    one = fit([[0, 0], [0, 0], [0, 0], [0, 0]])
    assert (one.n_leaves_, one.labels_.tolist(), one.to_newick()) == (1, [0, 0, 0, 0], "leaf0;")


def test_a_cut_beyond_the_leaves_says_how_to_get_it():
    tree = fit(oracle.table_with_holes(np.random.default_rng(0)), max_leaves=3)
    with pytest.raises(ValueError, match=r"k=4 is larger than the 3 leaves; fit with max_leaves=4 or more"):
        tree.cut(4)
    for wrong, error in ((0, ValueError), (1.5, TypeError), ("2", TypeError), (True, TypeError)):
        with pytest.raises(error, match="k must be"):
            tree.cut(wrong)


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
