"""The nursery set from its rules: every combination of its attribute values, ranked by a small decision tree.

The set was made from a hierarchical decision model (V. Rajkovic and others; M. Olave, V. Rajkovic, M. Bohanec, "An
application for admission in public school systems", 1989): nursery <- employ(parents, has_nurs),
struct_finan(structure(form, children), housing, finance), soc_health(social, health). The levels below are what
that hierarchy must be for the published labels to come out; the tests compare all 12960 rows.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from .table import RawTable

ATTRIBUTES = {
    "parents": ("usual", "pretentious", "great_pret"),
    "has_nurs": ("proper", "less_proper", "improper", "critical", "very_crit"),
    "form": ("complete", "completed", "incomplete", "foster"),
    "children": ("1", "2", "3", "more"),
    "housing": ("convenient", "less_conv", "critical"),
    "finance": ("convenient", "inconv"),
    "social": ("nonprob", "slightly_prob", "problematic"),
    "health": ("recommended", "priority", "not_recom"),
}

# level of the parents' employment by (parents, has_nurs): 0 best, 3 worst
_EMPLOY = ((0, 1, 1, 2, 3), (1, 1, 2, 3, 3), (2, 2, 3, 3, 3))
# level of the family's structure by (form, children): 0 best, 2 worst
_STRUCTURE = ((0, 1, 2, 2), (1, 1, 2, 2), (1, 2, 2, 2), (2, 2, 2, 2))


def _finances(structure: int, housing: int, finance: int) -> int:
    """Level of structure and finances together: 0 best, 2 worst."""
    if structure == 0:
        return 0 if housing == 0 and finance == 0 else 1
    if structure == 1:
        return 1 if housing < 2 else 2
    return 1 if housing == 0 and finance == 0 else 2


def _rank(employ: int, finances: int, social: int, health: int) -> str:
    """The recommendation for one family."""
    if health == 2:
        return "not_recom"
    if health == 0 and social < 2:
        if employ < 2 and finances < 2:
            return "recommend" if employ == finances == 0 else "very_recom"
        return "spec_prior" if employ == 3 and finances == 2 else "priority"
    return "spec_prior" if employ + finances >= 4 and employ >= 2 else "priority"


def generate_nursery() -> RawTable:
    """All 12960 rows in the order of the product, the last attribute running fastest."""
    levels = list(product(*(range(len(values)) for values in ATTRIBUTES.values())))
    labels = [
        _rank(_EMPLOY[parents][nursery], _finances(_STRUCTURE[form][children], housing, finance), social, health)
        for parents, nursery, form, children, housing, finance, social, health in levels
    ]
    grid = np.array(levels)
    words = {j: np.array(values)[grid[:, j]] for j, values in enumerate(ATTRIBUTES.values())}
    return RawTable(list(ATTRIBUTES), np.full(grid.shape, np.nan), np.array(labels), words)
