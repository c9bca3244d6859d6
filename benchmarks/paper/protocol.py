"""The protocol of the published evaluation: data sets, repeats, seeds, and the base ensembles they give."""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, issparse

from coassoc import Ensemble, make_ensemble, read_ensemble, write_ensemble

from ..datasets import Dataset, dataset_info

# the sets with results in the paper, smallest first, except gisette, of which no copy is available
PAPER_SETS = (
    "glass", "ecoli", "ionosphere", "user_knowledge", "breastcancer", "contraceptive", "yeast", "abalone",
    "advertisement", "landstat", "musk", "nursery", "drybean", "pendigits",
)  # fmt: skip
QUICK_SETS = ("glass", "ecoli", "contraceptive", "yeast")
SPARSE_BELOW = 0.05  # features with fewer non-zero cells than this share are clustered as a sparse matrix
SCALINGS = ("paper", "raw", "z", "minmax")


@dataclass(frozen=True)
class Protocol:
    """The settings every run of one evaluation shares; by default those of the paper."""

    seed: int = 0  # root of every random draw
    n_repeats: int = 20  # ensembles per data set
    n_partitions: int = 20  # base partitions per ensemble
    n_clusters: int = 20  # of each consensus
    n_init: int = 10  # restarts of the base k-means
    scaling: str = "paper"  # or raw, z, minmax; "paper" is raw features, min-max for abalone, as the figures show


def scaling_of(dataset: str, scaling: str) -> str:
    """The scaling of a data set; ``"paper"`` is that of the paper, and raw for the user's own sets."""
    if scaling != "paper":
        return scaling
    try:
        return dataset_info(dataset).scaling
    except ValueError:
        return "raw"


def _key(name: str) -> int:
    """A number for a name that is the same on every machine (Python's hash is not)."""
    return zlib.crc32(name.encode())


def ensemble_seed(seed: int, dataset: str, repeat: int) -> np.random.SeedSequence:
    """Root of one ensemble's draws; partition j adds j to its spawn key."""
    return np.random.SeedSequence(seed, spawn_key=(_key(dataset), repeat))


def method_seed(seed: int, dataset: str, repeat: int, method: str) -> int:
    """The integer seed of one consensus run, which does not depend on the order of runs."""
    key = (_key(dataset), repeat, _key("method:" + method))
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0] >> 1)


def features(dataset: Dataset) -> np.ndarray | csr_matrix:
    """The matrix that is clustered: sparse where nearly all cells are zero, which changes time but not k-means."""
    X = dataset.X
    return csr_matrix(X) if X.size and np.count_nonzero(X) < SPARSE_BELOW * X.size else X


def base_ensemble(dataset: Dataset, protocol: Protocol, repeat: int, cache: Path | None = None) -> Ensemble:
    """The ensemble of one repeat: read from the cache, where its name has all that it depends on, or made and kept."""
    X = features(dataset)
    path = None
    if cache is not None:
        recipe = {name: getattr(protocol, name) for name in ("seed", "n_partitions", "n_init")}
        digest = hashlib.sha256(np.ascontiguousarray(dataset.X).tobytes()).hexdigest()
        facts = {"dataset": dataset.name, "features": digest, "sparse": bool(issparse(X)), "repeat": repeat,
                 "classes": dataset.n_classes, "scaling": dataset.scaling, "recipe": recipe}  # fmt: skip
        made_from = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
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
