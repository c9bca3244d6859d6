"""Scores on hostile labels and tables: a finite number in its range, or an error that names the argument."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import coassoc as ca

# score -> whether it takes an ensemble first (else two label vectors), and its range
SCORES = {
    "density": (True, 0.0, 1.0),
    "cluster_density": (True, 0.0, 1.0),
    "inter_density": (True, 0.0, 1.0),
    "kmeans_loss": (True, 0.0, np.inf),
    "ensemble_nmi": (True, 0.0, 1.0),
    "nmi": (False, 0.0, 1.0),
}
ARGUMENTS = ("labels", "partitions", "sample_weight", "partition_weights", "a ", "b ")


def hostile_vector(rng, n: int):
    """Labels of n items, of any type, now and then of another length or shape."""
    n = n + int(rng.choice([0, 0, 0, 0, 1, -1]))
    whole = rng.integers(-2, 4, size=max(n, 0))
    choices = [
        whole, whole.astype("i1"), whole.astype("u8"), whole.astype(float), whole + 0.5, whole.astype(str),
        np.where(whole < 0, np.nan, whole), whole * 2**61, whole.astype(object), whole.tolist(), whole > 0,
        whole[:, None], whole.astype(complex), whole.astype("M8[s]"), [None] * n, np.full(n, np.inf), "text", None, 7,
        np.array(["", "nan", "\0", "-1"] * n, object)[:n], [[1], [2, 3]], {"a": 1}, np.full(n, -1), np.zeros((n, 0)),
    ]  # fmt: skip
    return choices[int(rng.integers(len(choices)))] if rng.random() < 0.7 else whole


def broken_rule(rng) -> str | None:
    n, p = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    name = list(SCORES)[int(rng.integers(len(SCORES)))]
    takes_ensemble, low, high = SCORES[name]
    first = rng.integers(-1, 3, size=(n, p)) if rng.random() < 0.7 else hostile_vector(rng, n)
    options: dict = {}
    if takes_ensemble and rng.random() < 0.3 and name != "ensemble_nmi":
        options = {"sample_weight": hostile_vector(rng, n), "partition_weights": hostile_vector(rng, p)}
    labels = hostile_vector(rng, n)
    call = f"{name}({first!r}, {labels!r}, {options})"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", UserWarning)
            value = getattr(ca.metrics, name)(first if takes_ensemble else hostile_vector(rng, n), labels, **options)
    except (ValueError, TypeError) as error:
        clear = type(error) in (ValueError, TypeError) and str(error).startswith(ARGUMENTS)
        return None if clear else f"{call}: {type(error).__name__}: {error}"
    except FileNotFoundError as error:  # a string is a path
        return None if "'text'" in str(error) else f"{call}: {error}"
    except Exception as error:
        return f"{call}: raw {type(error).__name__}: {error}"
    numbers = np.asarray(value, dtype=float)
    fits = np.isfinite(numbers).all() and (numbers >= low - 1e-12).all() and (numbers <= high + 1e-12).all()
    return None if fits else f"{call} = {value}"


def problems(cases: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [one for _ in range(cases) if (one := broken_rule(rng)) is not None]


def test_scores_are_numbers_in_range_or_clear_errors():
    assert problems(5000, 0) == []


@pytest.mark.slow
def test_scores_are_numbers_in_range_or_clear_errors_for_long():
    cases = int(os.environ.get("COASSOC_FUZZ_CASES", 1_000_000)) // 5
    assert problems(cases, int(os.environ.get("COASSOC_FUZZ_SEED", 1))) == []
