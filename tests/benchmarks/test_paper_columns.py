"""The compared methods land on the paper's columns (1.5 or 3 points), or the gap is one the docs explain."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca
import oracle
from benchmarks import compared
from benchmarks import single_linkage_ties as ties

ROOT = Path(__file__).parents[2]
REPEATS = 20
# (column, set) -> points off the printed figure over these ensembles, and the section that explains them
EXCEPTIONS = {
    ("R-SL", "ionosphere"): (-6.3, "Single linkage of raw counts"),
    ("R-SL", "user_knowledge"): (-3.0, "Single linkage of raw counts"),
    ("R-SL", "breastcancer"): (-9.0, "Single linkage of raw counts"),
}


def slow(test):
    no_data = not os.environ.get("COASSOC_DATA")
    return pytest.mark.slow(pytest.mark.skipif(no_data, reason="set COASSOC_DATA to the folder of data files")(test))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("ensembles")


@pytest.fixture(scope="module")
def result(cache):
    return compared.run(REPEATS, cache)


@slow
def test_mean_nmi_is_within_the_stated_distance_of_the_paper(result):
    gaps = {(column, name): compared.gap(result, column, name) for column in compared.PRINTED for name in compared.SETS}
    tolerance = {column: points for column, (_, points) in compared.PRINTED.items()}
    assert tolerance == {column: 3.0 if column in ("MCLA", "ECC", "R-SL", "E-SL") else 1.5 for column in tolerance}
    far = {key: round(gap, 2) for key, gap in gaps.items() if abs(gap) > tolerance[key[0]]}
    assert {key: gap for key, gap in far.items() if key not in EXCEPTIONS} == {}
    for key, (measured, _) in EXCEPTIONS.items():  # k-means of another build may differ in an item or two
        assert abs(gaps[key] - measured) <= 1.0


def test_every_exception_has_its_section_and_its_figure_in_the_docs():
    text = (ROOT / "benchmarks" / "notes" / "compared-methods.md").read_text(encoding="utf-8")
    for (column, _), (measured, section) in EXCEPTIONS.items():
        assert re.search(rf"^##+ {section}$", text, flags=re.MULTILINE)
        row = re.search(rf"^\| {column} \|.*$", text, flags=re.MULTILINE).group()
        assert f"**{measured:+.1f}**".replace("-", "−") in row


@slow
@pytest.mark.parametrize("name", ["glass", "ecoli", "ionosphere", "user_knowledge", "breastcancer"])
def test_single_linkage_with_ties_in_random_order_is_within_two_standard_errors(cache, name):
    """Of a mean over 20 ensembles, on both sides; NMI and density."""
    found = ties.summary(ties.scores_of(name, REPEATS, cache))
    for score in (0, 1):
        _, errors = ties.gaps({name: found}, "random", score)
        assert abs(errors[0]) <= 2.0
    assert found["lowest order"]["mean"][0] <= found["random"]["mean"][0] <= found["highest order"]["mean"][0]


@slow
def test_micro_clusters_are_within_six_tenths_of_exact_average_linkage(result):
    for name in compared.SETS:
        assert abs(result[name]["micro"].mean() - result[name]["R-AL"].mean()) <= 0.6


@pytest.mark.parametrize("seed", range(2))
def test_orders_of_ties_lie_between_no_tied_merge_and_all_of_them(seed):
    rng = np.random.default_rng(seed)
    ensemble = ca.Ensemble(oracle.planted(rng, n=300, p=20, k=12, noise=0.5, most=15))
    found = ties.Ties(ensemble)
    assert found.n_blocks > 20 > found.all.max()
    blocks = np.arange(found.n_blocks)
    expected = (100 * ca.ensemble_nmi(ensemble, found.none), 100 * ca.density(ensemble, found.none))
    np.testing.assert_allclose(found.scores(blocks), expected, rtol=1e-12)
    for _ in range(5):
        of_block = found.random_order(rng)
        labels = of_block[found.none]
        assert set(of_block.tolist()) == set(range(20))
        assert len(set(zip(labels.tolist(), found.all.tolist()))) == 20  # no cluster crosses what is certain
        expected = (100 * ca.ensemble_nmi(ensemble, labels), 100 * ca.density(ensemble, labels))
        np.testing.assert_allclose(found.scores(of_block), expected, rtol=1e-12)
