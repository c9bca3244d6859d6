"""Scenes: random mixtures of shapes in the plane, as many as one likes, for families with many data sets.

The sets of the published evaluation are few, and single ones decide the mean of a family. Scenes cost nothing, and
those with numbers from N_DESIGN on are held out.
"""

from __future__ import annotations

import numpy as np

N_DESIGN, N_HELD_OUT = 120, 60
KINDS = {
    "gaussians": ["gaussian"],
    "mixed": ["gaussian", "ring", "moon", "rectangle", "core"],
    "rings": ["ring", "core", "moon"],
    "bars": ["bar", "rectangle"],
}


def names(held_out: bool) -> tuple[str, ...]:
    first, count = (N_DESIGN, N_HELD_OUT) if held_out else (0, N_DESIGN)
    return tuple(f"scene-{number:03d}" for number in range(first, first + count))


def scene(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points and classes: 2 to 8 shapes of unequal size, some that touch; -1 for points strewn between them."""
    k = int(rng.integers(2, 9))
    kind = str(rng.choice(list(KINDS), p=[0.35, 0.35, 0.15, 0.15]))
    centers = _centers(k, rng)
    points, classes = [], []
    for j in range(k):
        n = 25 + int(60 * np.exp(0.8 * rng.normal()))
        shape = str(rng.choice(KINDS[kind]))
        inside_other = kind == "rings" and shape == "core" and j > 0 and rng.random() < 0.6
        points.append(_shape(shape, n, rng) + centers[j - 1 if inside_other else j])
        classes.append(np.full(n, j))
    X, y = np.concatenate(points), np.concatenate(classes)
    if rng.random() < 0.3:
        strewn = rng.uniform(X.min(axis=0), X.max(axis=0), (len(X) // 12, 2))
        X, y = np.concatenate([X, strewn]), np.concatenate([y, np.full(len(strewn), -1)])
    if rng.random() < 0.25:  # features that know nothing
        X = np.c_[X, 0.3 * rng.normal(size=(len(X), int(rng.integers(1, 4))))]
    return X, y


def _centers(k: int, rng: np.random.Generator) -> list[np.ndarray]:
    apart = rng.uniform(2.0, 6.0)
    found: list[np.ndarray] = []
    while len(found) < k:
        center = rng.uniform(0, 1.3 * apart * k**0.5, 2)
        if rng.random() < 0.02 or all(np.linalg.norm(center - other) > 0.8 * apart for other in found):
            found.append(center)
    return found


def _shape(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    turn = np.linalg.svd(rng.normal(size=(2, 2)))[0]
    noise = rng.normal(size=(n, 2))
    if name == "gaussian":
        return noise * np.exp(rng.normal(-0.2, 0.5, 2)) @ turn
    if name == "core":
        return 0.35 * noise
    if name == "rectangle":
        return rng.uniform(-1, 1, (n, 2)) * rng.uniform(0.4, 1.8, 2) @ turn
    if name == "bar":
        return np.c_[rng.uniform(-3, 3, n), 0.15 * noise[:, 0]] @ turn
    angle = rng.uniform(0, np.pi if name == "moon" else 2 * np.pi, n)
    radius = 1.6 if name == "moon" else rng.uniform(1.0, 2.2)
    return (radius * np.c_[np.cos(angle), np.sin(angle)] + 0.12 * noise) @ turn
