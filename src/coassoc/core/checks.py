"""Checks of common arguments, and seeds."""

from __future__ import annotations

import numbers
import secrets
from typing import Any

import numpy as np


def check_integer(value: Any, name: str, minimum: int = 1, maximum: int = 2**31 - 1) -> int:
    """`value` as an int from `minimum` to `maximum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    value = int(value)
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}.")
    if value > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {value if value < 10**40 else 'a larger number'}.")
    return value


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """`value`, one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")
    return value


def seed_from(random_state: Any) -> int:
    """One integer seed from None, an integer, a SeedSequence, a Generator or a RandomState."""
    if random_state is None:
        return secrets.randbits(128)
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state}.")
        return int(random_state)
    if isinstance(random_state, np.random.SeedSequence):
        return int.from_bytes(random_state.generate_state(4).tobytes(), "little")
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise TypeError(f"random_state must be None, an integer, a numpy Generator or RandomState, got {random_state!r}.")


def stream(seed: int, *path: int) -> np.random.Generator:
    """The random stream of one restart or tree node: a function of (seed, path) alone."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=path))
