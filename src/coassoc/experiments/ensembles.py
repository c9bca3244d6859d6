"""Base ensembles of the evaluation, made once and kept as files."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from ..datasets import Dataset
from ..ensemble import Ensemble, make_ensemble
from ..ensemble.io.reading import read_ensemble
from ..ensemble.io.writing import write_ensemble
from .protocol import Protocol, ensemble_fingerprint, ensemble_seed, features


def base_ensemble(dataset: Dataset, protocol: Protocol, repeat: int, cache: Path | None = None) -> Ensemble:
    """The ensemble of one repeat: read from the cache, where its name has all that it depends on, or made and kept."""
    X = features(dataset)
    path = None
    if cache is not None:
        made_from = hashlib.sha256(ensemble_fingerprint(dataset, X, protocol, repeat).encode()).hexdigest()[:16]
        path = cache / f"{dataset.name}-{dataset.scaling}-s{protocol.seed}" / f"r{repeat:03d}-{made_from}.npz"
        with suppress(FileNotFoundError, ValueError):  # absent or damaged
            return read_ensemble(path)
    made = make_ensemble(
        X,
        protocol.n_partitions,
        n_classes=dataset.n_classes,
        n_init=protocol.n_init,
        random_state=ensemble_seed(protocol.seed, dataset.name, repeat),
    )
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_ensemble(path, made, force=True)
    return made
