"""Random estimators on random ensembles: the same labels on every engine, SIMD level, thread count and chunk size."""

from __future__ import annotations

import os

import numpy as np
import pytest

import coassoc as ca
from fuzz.engine_cases import difference


@pytest.mark.parametrize("seed", range(2))
def test_random_cases_agree_on_all_engines(seed):
    assert [one for i in range(25) if (one := difference(seed, i)) is not None] == []


@pytest.mark.parametrize(("n", "k"), [(3, 3), (9, 5)])
def test_spectral_methods_agree_where_eigenvalues_are_equal(n, k):
    table = np.repeat(np.arange(n)[:, None], 13, axis=1)
    found = [ca.HBGF(k, random_state=0, engine=name).fit(table).labels_.tolist() for name in ("numpy", "native")]
    assert found[0] == found[1]


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning")
def test_a_few_cases_agree_on_dask():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        assert [one for i in range(8) if (one := difference(2, i, client)) is not None] == []


@pytest.mark.slow
def test_thousands_of_cases_agree_on_all_engines():
    seed, cases = int(os.environ.get("COASSOC_FUZZ_SEED", 1)), int(os.environ.get("COASSOC_FUZZ_ENGINE_CASES", 5000))
    assert [one for i in range(cases) if (one := difference(seed, i)) is not None] == []
