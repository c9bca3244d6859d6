"""Base ensembles of the evaluation, made once and kept as compact files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from ..datasets import Dataset
from ..ensemble import Ensemble, make_ensemble
from ..ensemble.io.output import replacing
from .protocol import Protocol, ensemble_fingerprint, ensemble_seed, features


def ensemble_path(cache: Path, dataset: str, scaling: str, seed: int, repeat: int) -> Path:
    """Where one ensemble is kept."""
    return cache / f"{dataset}-{scaling}-s{seed}" / f"r{repeat:03d}.npz"


def base_ensemble(dataset: Dataset, protocol: Protocol, repeat: int, cache: Path | None = None) -> Ensemble:
    """The ensemble of one repeat: read from the cache when its fingerprint matches, else made and cached."""
    X = features(dataset)
    fingerprint = ensemble_fingerprint(dataset, X, protocol, repeat)
    path = None
    if cache is not None:
        path = ensemble_path(cache, dataset.name, dataset.scaling, protocol.seed, repeat)
        found = read_cached(path, fingerprint)
        if found is not None:
            return found
    made = make_ensemble(
        X,
        protocol.n_partitions,
        n_classes=dataset.n_classes,
        n_init=protocol.n_init,
        random_state=ensemble_seed(protocol.seed, dataset.name, repeat),
    )
    if path is not None:
        write_cached(path, made, fingerprint)
    return made


def read_cached(path: Path, fingerprint: str) -> Ensemble | None:
    """The stored ensemble, or None when there is none, it is damaged, or its fingerprint differs."""
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as stored:
            if str(stored["fingerprint"]) != fingerprint:
                return None
            return Ensemble.from_codes(np.ascontiguousarray(stored["codes"]), stored["n_clusters"])
    except (FileNotFoundError, zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError):
        return None


def write_cached(path: Path, ensemble: Ensemble, fingerprint: str) -> None:
    """Store an ensemble under a temporary name and rename it, so that no partial file remains."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, force=True) as partial, open(partial, "wb") as out:
        np.savez_compressed(
            out, codes=ensemble.codes, n_clusters=ensemble.n_clusters, fingerprint=np.array(fingerprint)
        )
