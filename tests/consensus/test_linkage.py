"""EAC and LWEA against SciPy and greedy merging by definition; the compiled kernel against its NumPy twin."""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import average, fcluster, is_valid_linkage
from scipy.spatial.distance import squareform
from scipy.special import xlogy

import coassoc as ca
import oracle
from coassoc.consensus import eac as _eac
from coassoc.consensus import linkage
from coassoc.consensus.linkage import LINKAGES, row_similarities
from coassoc.core.counts import Layout
from coassoc.engines.compiled import kernels as _compiled


def full_matrix(table, v=None, cluster_similarity=None):
    """A over all items, pair by pair and partition by partition; negative labels are missing."""
    n, p = table.shape
    v = np.ones(p) if v is None else np.asarray(v) * p / np.sum(v)
    out = np.eye(n)
    for i, k in itertools.combinations(range(n), 2):
        together = seen = 0.0
        for j in range(p):
            a, b = table[i, j], table[k, j]
            if a >= 0 and b >= 0:
                seen += v[j]
                together += v[j] * (a == b if cluster_similarity is None else cluster_similarity[j][a][b])
        out[i, k] = out[k, i] = together / seen if seen else 0.0
    return out


def trajectories(table, steps=20):
    """Cosines of random-walk trajectories, from sets of items; partition j -> label -> label -> similarity."""
    clusters = [(j, int(c)) for j in range(table.shape[1]) for c in np.unique(table[:, j]) if c >= 0]
    members = [frozenset(np.flatnonzero(table[:, j] == c)) for j, c in clusters]
    d = len(clusters)
    graph = np.zeros((d, d))
    for f, g in itertools.permutations(range(d), 2):
        graph[f, g] = len(members[f] & members[g]) / len(members[f] | members[g])
    walk = np.divide(graph, graph.sum(1, keepdims=True), out=np.zeros((d, d)), where=graph.sum(1, keepdims=True) > 0)
    paths = np.concatenate([np.linalg.matrix_power(walk, s) for s in range(1, steps + 1)], axis=1)
    out = [{} for _ in range(table.shape[1])]
    for f, g in itertools.product(range(d), repeat=2):
        if clusters[f][0] == clusters[g][0]:
            norm = np.linalg.norm(paths[f]) * np.linalg.norm(paths[g])
            value = 1.0 if f == g else (paths[f] @ paths[g] / norm if norm else 0.0)
            out[clusters[f][0]].setdefault(clusters[f][1], {})[clusters[g][1]] = value
    return out


def with_duplicates(rng, n_rows, n, p, most=5):
    rows = oracle.planted(rng, n=n_rows, p=p, noise=0.5, most=most)
    return rows[np.concatenate([np.arange(n_rows), rng.integers(n_rows, size=n - n_rows)])]


JOIN = {"single": np.max, "average": np.mean, "complete": np.min}


def check_greedy(similarity, model, exact=True):
    """Every merge joins a pair as similar as any; exactly, the lowest one of its kind, and the ties are counted."""
    groups = {leaf: set(np.flatnonzero(model.leaf_of_item_ == leaf)) for leaf in range(model.n_leaves_)}
    names = {leaf: leaf for leaf in groups}
    n_ties = 0
    leaves = dict.fromkeys(groups, 1)
    for row, (a, b, height, size) in enumerate(model.linkage_):
        worth = {
            (x, y): similarity(sorted(groups[x]), sorted(groups[y]))
            for x, y in itertools.combinations(sorted(groups), 2)
        }
        best = max(worth.values())
        pair = tuple(sorted(leaf for leaf in groups if names[leaf] in (a, b)))
        assert worth[pair] == pytest.approx(best, abs=1e-12)
        assert height == pytest.approx(1 - best, abs=1e-12)
        tied = sorted(x for x, value in worth.items() if value > best - 1e-12)
        assert pair == tied[0] or not exact
        n_ties += len(tied) > 1
        groups[pair[0]] |= groups.pop(pair[1])
        leaves[pair[0]] += leaves[pair[1]]
        names[pair[0]] = model.n_leaves_ + row
        assert size == leaves[pair[0]]
    assert model.n_ties_ == n_ties or not exact


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.sampled_from(LINKAGES), *[st.booleans()] * 3)
def test_every_merge_is_a_greedy_one_in_the_matrix_written_out(seed, method, missing, weighted, enhanced):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 7))
    table = with_duplicates(rng, int(rng.integers(1, 10)), 14, p, most=3)
    if missing:
        table[rng.random(table.shape) < 0.3] = -1
        table[3], table[0] = -1, np.arange(p) % 3
    v = rng.random(p) + 0.1 if weighted else None
    model = ca.EAC(1, linkage=method, enhanced=enhanced, partition_weights=v, engine="numpy").fit(table)
    matrix = full_matrix(table, v, trajectories(table) if enhanced else None)
    exact = not (weighted or enhanced or (missing and method == "average"))
    check_greedy(lambda x, y: JOIN[method](matrix[np.ix_(x, y)]), model, exact)
    first = [model.leaf_of_item_.tolist().index(leaf) for leaf in range(model.n_leaves_)]
    assert first == sorted(first)
    unlabelled = (table < 0).all(axis=1)
    assert ((model.labels_ == -1) == unlabelled).all() and ((model.leaf_of_item_ == -1) == unlabelled).all()
    assert model.leaf_sizes_.tolist() == np.bincount(model.leaf_of_item_[~unlabelled]).tolist()
    assert is_valid_linkage(model.linkage_) or model.n_leaves_ == 1


def test_weight_zero_is_removal_and_ranks_no_row():
    table = np.array([[1, 1], [0, 0], [1, 0], [1, 1], [0, 1], [2, 2]])
    copies = np.array([0, 1, 1, 1, 1, 0])
    weighted = ca.EAC(2, engine="numpy").fit(table, sample_weight=copies)
    without = ca.EAC(2, engine="numpy").fit(table[copies > 0])
    assert (weighted.linkage_ == without.linkage_).all()
    assert (weighted.labels_[copies > 0] == without.labels_).all()
    assert weighted.labels_[0] == weighted.labels_[3] and weighted.labels_[5] == -1


@pytest.mark.parametrize("method", LINKAGES)
def test_cuts_give_exactly_k_nest_and_undo_the_merges_above_a_height(method):
    table = oracle.planted(np.random.default_rng(51), n=60, p=4, noise=0.5)
    model = ca.EAC(5, linkage=method, engine="numpy").fit(table)
    assert model.n_ties_ > 0 and len(set(model.labels_)) == 5
    previous = model.cut(model.n_leaves_)
    for k in range(model.n_leaves_ - 1, 0, -1):
        labels = model.cut(k)
        assert set(labels.tolist()) == set(range(k))
        assert len(set(zip(previous.tolist(), labels.tolist()))) == k + 1
        previous = labels
    for height in (1e-9, 0.2, 0.6, 1.1):
        expected = fcluster(model.linkage_, height, "distance")[model.leaf_of_item_]
        assert oracle.same_partition(model.cut(height=height), expected)
    with pytest.raises(ValueError, match="leaves of the tree"):
        model.cut(model.n_leaves_ + 1)
    with pytest.raises(TypeError, match="either k or height"):
        model.cut()
    for wrong in (float("nan"), "0.5", [0.5]):
        with pytest.raises(TypeError, match="height must be a number, got"):
            model.cut(height=wrong)


def test_linkage_that_would_need_too_much_memory_links_micro_clusters(monkeypatch):
    rng = np.random.default_rng(61)
    table = rng.integers(0, 200, (3000, 6))
    n = len(np.unique(table, axis=0))
    need = 8 * n * (n - 1) // 2 + (1 << 25)
    monkeypatch.setattr(_eac, "MANY_MICRO_CLUSTERS", 100)
    for method in ("average", "single"):
        warned = pytest.warns(UserWarning, match="linkage='single' is not exact here")
        with warned if method == "single" else nullcontext():
            model = ca.EAC(3, linkage=method, max_bytes=need - 1, random_state=0).fit(table)
        asked = ca.EAC(3, linkage=method, micro_clusters=100, random_state=0).fit(table)
        assert model.n_micro_clusters_ == model.n_leaves_ == 100
        assert model.labels_.tolist() == asked.labels_.tolist()
        exact = ca.EAC(3, linkage=method, max_bytes=need).fit(table)
        assert (exact.n_micro_clusters_, exact.n_leaves_) == (0, n)


@pytest.mark.parametrize("method", [*LINKAGES, "weighted"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_micro_clusters_are_linked_by_their_pooled_similarity(method, missing):
    rng = np.random.default_rng(71)
    table = oracle.planted(rng, n=200, p=6, k=8, noise=0.4, most=12)
    table[rng.random(table.shape) < missing] = -1
    settings = {"micro_clusters": 15, "random_state": 0, "engine": "numpy"}
    model = ca.LWEA(1, **settings) if method == "weighted" else ca.EAC(1, linkage=method, **settings)
    model.fit(table)
    onehot, seen = ca.Ensemble(table).one_hot().toarray(), (table >= 0).astype(int)
    together, observed = (onehot * getattr(model, "cluster_weights_", 1.0)) @ onehot.T, seen @ seen.T

    leaf = model.leaf_of_item_

    def pooled(x, y):
        return together[np.ix_(x, y)].sum() / observed[np.ix_(x, y)].sum()

    def similarity(x, y):
        if method in ("average", "weighted"):
            return pooled(x, y)
        pairs = itertools.product(set(leaf[x]), set(leaf[y]))
        return JOIN[method]([pooled(leaf == a, leaf == b) for a, b in pairs])

    assert model.n_leaves_ == 15
    check_greedy(similarity, model, exact=False)


def test_as_many_micro_clusters_as_rows_is_exact():
    table = oracle.planted(np.random.default_rng(81), n=60, p=4, noise=0.3)
    exact = ca.EAC(4, engine="numpy").fit(table)
    micro = ca.EAC(4, micro_clusters=60, random_state=0, engine="numpy").fit(table)
    assert (exact.labels_ == micro.labels_).all() and (exact.linkage_ == micro.linkage_).all()


@pytest.mark.parametrize("seed", range(5))
def test_exact_linkage_equals_scipy_on_the_weighted_matrix_written_out(seed):
    table = oracle.blocks(seed, n=30, p=9, k=6, noise=0.5)[0]
    onehot = ca.Ensemble(table).one_hot().toarray()
    overlap = onehot.T @ onehot
    share = overlap / np.diagonal(overlap)[:, None]
    theta = (0.1, 0.4)[seed % 2]
    weights = np.exp(xlogy(share, share).sum(axis=1) / np.log(2) / (theta * 9))
    assert ca.metrics.cluster_uncertainty(table, theta=theta) == pytest.approx(weights)
    distance = 1.0 - (onehot * weights) @ onehot.T / 9
    np.fill_diagonal(distance, 0.0)
    model = ca.LWEA(4, micro_clusters=None, theta=theta).fit(table)
    assert model.cluster_weights_ == pytest.approx(weights)
    assert model.n_leaves_ == 30 and model.n_ties_ == 0
    expected = fcluster(average(squareform(distance, checks=False)), 4, "maxclust")
    assert oracle.same_partition(model.labels_, expected)


def with_and_without_kernels(function, *arguments):
    """Two results, of NumPy and of compiled code."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linkage, "compiled", None)
        plain = function(*arguments)
    return plain, function(*arguments)


def agglomerated(triangle, *arguments):
    return linkage.agglomerate(triangle.copy(), *arguments)


def assert_same(plain, quick):
    assert (plain.first == quick.first).all() and (plain.second == quick.second).all()
    assert (plain.similarity == quick.similarity).all() and plain.n_ties == quick.n_ties


needs_kernels = pytest.mark.skipif(_compiled is None, reason="the compiled kernels are not installed")


@needs_kernels
@settings(max_examples=150)
@given(st.integers(0, 10**6), st.sampled_from(LINKAGES), st.booleans())
def test_kernel_equals_numpy(seed, method, whole):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    size = n * (n - 1) // 2
    weights = rng.integers(1, rng.choice([2, 6]), size=n)
    triangle = rng.integers(0, rng.choice([2, 5, 50]), size=size).astype(float) if whole else rng.random(size)
    if method == "average":
        upper = np.triu_indices(n, 1)
        triangle = triangle * weights[upper[0]] * weights[upper[1]]
    assert_same(*with_and_without_kernels(agglomerated, triangle, weights, method))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("n, p", [(1, 3), (2, 1), (513, 7), (700, 20)])
def test_co_occurrences_are_counts_of_equal_cells_and_their_ties_are_merged_alike(kind, n, p):
    codes = oracle.planted(np.random.default_rng(n), n=n, p=p, k=9, noise=0.3, most=12).astype(kind)
    layout = Layout.of_sizes(np.full(p, 12))
    expected = (codes[:, None, :] == codes[None, :, :]).sum(axis=2)[np.triu_indices(n, 1)]
    for triangle, scale in with_and_without_kernels(row_similarities, codes, layout, False, np.ones(p)):
        assert (triangle == expected).all() and scale == p
    for method in LINKAGES if n > 600 and kind == np.uint8 else ():
        assert_same(*with_and_without_kernels(agglomerated, triangle, np.ones(n), method))


@needs_kernels
def test_kernel_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"n\(n-1\)/2"):
        _compiled.agglomerate(np.zeros(4), np.ones(3), 1)
    with pytest.raises(ValueError, match=r"n\(n-1\)/2"):
        _compiled.co_occurrences(np.zeros((2, 3), np.uint8), np.zeros(4))
    with pytest.raises(ValueError, match="too many columns"):
        _compiled.co_occurrences(np.zeros((300, 3), np.uint8), np.zeros(3))
