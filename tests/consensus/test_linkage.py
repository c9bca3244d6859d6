"""The compiled linkage kernel equals its NumPy twin bit for bit; cuts and matrices follow from merges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, is_valid_linkage

import oracle
from coassoc.consensus.linkage import LINKAGES, Merges, agglomerate, single_linkage
from coassoc.consensus.similarity import row_counts, row_similarities
from coassoc.core.counts import Layout
from coassoc.engines.compiled import kernels as _compiled


def assert_same(plain, quick):
    assert (plain.first == quick.first).all() and (plain.second == quick.second).all()
    assert (plain.similarity == quick.similarity).all() and plain.n_ties == quick.n_ties


needs_kernels = pytest.mark.skipif(_compiled is None, reason="the compiled kernels are not installed")


@needs_kernels
@settings(max_examples=150)
@given(st.integers(0, 10**6), st.sampled_from(LINKAGES), st.booleans())
def test_kernel_equals_numpy(seed, linkage, whole):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    size = n * (n - 1) // 2
    weights = rng.integers(1, rng.choice([2, 6]), size=n)
    triangle = rng.integers(0, rng.choice([2, 5, 50]), size=size).astype(float) if whole else rng.random(size)
    if linkage == "average":
        upper = np.triu_indices(n, 1)
        triangle = triangle * weights[upper[0]] * weights[upper[1]]
    assert_same(*(agglomerate(triangle.copy(), weights, linkage, kernels=kernels) for kernels in (False, True)))


@settings(max_examples=200)
@given(st.integers(0, 10**6), st.sampled_from([np.uint8, np.uint16]))
def test_single_linkage_of_counts_merges_as_the_triangle_does(seed, kind):
    rng = np.random.default_rng(seed)
    n, most = int(rng.integers(1, 40)), int(rng.choice([1, 2, 4, 20, 250]))
    upper = np.triu_indices(n, 1)
    triangle = rng.integers(0, most, size=len(upper[0])).astype(float)
    if rng.random() < 0.5:  # chains and islands: most pairs at 0
        triangle[rng.random(len(triangle)) < 0.9] = 0.0
    counts = rng.integers(0, 200, (n, n)).astype(kind)  # the diagonal may hold anything
    counts[upper] = counts.T[upper] = (triangle + 1.0).astype(kind)
    assert_same(agglomerate(triangle, np.ones(n), "single", kernels=False), single_linkage(counts))


@pytest.mark.parametrize("n, p", [(1, 3), (2, 1), (1500, 5), (40, 253), (40, 254), (40, 255), (6, 70000)])
def test_row_counts_equal_a_count_of_equal_cells(n, p):
    codes = np.random.default_rng(p).integers(0, 2, (n, p)).astype(np.uint8)
    codes[-1] = codes[0]  # all p agree: the largest value there is
    counts = row_counts(codes)
    assert counts.dtype == (np.uint8 if p < 255 else np.uint16 if p < 2**16 - 1 else np.uint32)
    assert (counts == 1 + np.stack([(codes == row).sum(axis=1) for row in codes])).all()


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("n, p", [(1, 3), (2, 1), (513, 7), (700, 20)])
def test_co_occurrences_are_counts_of_equal_cells_and_their_ties_are_merged_alike(kind, n, p):
    codes = oracle.planted(np.random.default_rng(n), n=n, p=p, k=9, noise=0.3, most=12).astype(kind)
    layout = Layout.of_sizes(np.full(p, 12))
    expected = (codes[:, None, :] == codes[None, :, :]).sum(axis=2)[np.triu_indices(n, 1)]
    for kernels in (False, True):
        triangle, scale = row_similarities(codes, layout, False, np.ones(p), kernels=kernels)
        assert (triangle == expected).all() and scale == p
    for linkage in LINKAGES if n > 600 and kind == np.uint8 else ():
        assert_same(*(agglomerate(triangle.copy(), np.ones(n), linkage, kernels=kernels) for kernels in (False, True)))


@needs_kernels
def test_kernel_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"n\(n-1\)/2"):
        _compiled.agglomerate(np.zeros(4), np.ones(3), 1)
    with pytest.raises(ValueError, match=r"n\(n-1\)/2"):
        _compiled.co_occurrences(np.zeros((2, 3), np.uint8), np.zeros(4))
    with pytest.raises(ValueError, match="too many columns"):
        _compiled.co_occurrences(np.zeros((300, 3), np.uint8), np.zeros(3))


def test_labels_and_matrix_follow_from_merges():
    merges = Merges(np.array([1, 0, 0]), np.array([3, 2, 1]), np.array([0.9, 0.5, 0.25]), 0)
    assert merges.labels(4).tolist() == [0, 1, 2, 3]
    assert merges.labels(3).tolist() == [0, 1, 2, 1]
    assert merges.labels(2).tolist() == [0, 1, 0, 1]
    assert merges.labels(1).tolist() == [0, 0, 0, 0]
    matrix = merges.linkage(1.0)
    assert is_valid_linkage(matrix)
    np.testing.assert_allclose(matrix[:, 2], [0.1, 0.5, 0.75])
    for k in range(1, 5):
        assert oracle.same_partition(cut_tree(matrix, k)[:, 0], merges.labels(k))
