"""The compared methods land on the paper's columns, or the gap is the one the docs explain."""

import importlib.util
import os
from pathlib import Path

import pytest

REPEATS = 10
# gaps the docs explain: (column, set)
EXPLAINED = {("ECC", "ionosphere"), ("R-SL", "ionosphere"), ("R-SL", "user_knowledge"), ("R-SL", "breastcancer")}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("COASSOC_DATA"), reason="set COASSOC_DATA to the folder of the data files"),
]


@pytest.fixture(scope="module")
def compared():
    path = Path(__file__).parents[2] / "benchmarks" / "compared.py"
    spec = importlib.util.spec_from_file_location("compared", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def result(compared):
    return compared.run(REPEATS, None)


def test_mean_nmi_is_within_the_stated_distance_of_the_paper(compared, result):
    far = {
        (column, name): round(compared.gap(result, column, name), 2)
        for column, (_, tolerance) in compared.PRINTED.items()
        for name in compared.SETS
        if abs(compared.gap(result, column, name)) > tolerance
    }
    # ten repeats where the docs have twenty: half a point of room for what is explained or on the edge
    assert {
        key for key, miss in far.items() if key not in EXPLAINED and abs(miss) > compared.PRINTED[key[0]][1] + 0.5
    } == set()


def test_single_linkage_fits_when_it_is_cut_before_the_ties(compared, result):
    for name in compared.SETS:
        noise = result[name]["R-SL untied"].std() / REPEATS**0.5  # single linkage swings by points between ensembles
        assert abs(compared.gap(result, "R-SL untied", name)) <= 3.0 + 2.0 * noise
    for name in ("ionosphere", "user_knowledge", "breastcancer"):
        assert abs(compared.gap(result, "R-SL untied", name)) < abs(compared.gap(result, "R-SL", name))


def test_micro_clusters_are_within_six_tenths_of_exact_average_linkage(compared, result):
    for name in compared.SETS:
        assert abs(result[name]["micro"].mean() - result[name]["R-AL"].mean()) <= 0.6
