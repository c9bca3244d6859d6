"""The protocol of the published evaluation: data sets, repeats, base partitions, seeds."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass

import numpy as np
from scipy.sparse import csr_matrix, issparse

from ..core.checks import check_choice, check_integer
from ..datasets import Dataset, dataset_info

# the sets with results in the paper, smallest first, except gisette, of which no copy is available
PAPER_SETS = (
    "glass",
    "ecoli",
    "ionosphere",
    "user_knowledge",
    "breastcancer",
    "contraceptive",
    "yeast",
    "abalone",
    "advertisement",
    "landstat",
    "musk",
    "nursery",
    "drybean",
    "pendigits",
)
QUICK_SETS = ("glass", "ecoli", "contraceptive", "yeast")
SPARSE_BELOW = 0.05  # features with fewer non-zero cells than this share are clustered as a sparse matrix
SCALINGS = ("paper", "raw", "z", "minmax")


@dataclass(frozen=True)
class Protocol:
    """The settings every run of one evaluation shares.

    Attributes
    ----------
    seed : int
        Root of every random draw.
    n_repeats, n_partitions : int
        Ensembles per data set and base partitions per ensemble (20 and 20 in the paper).
    n_clusters : int
        Clusters of each consensus partition (20 in the paper).
    n_init : int
        Restarts of the base k-means.
    scaling : {"paper", "raw", "z", "minmax"}
        ``"paper"`` reproduces the printed figures: raw features, min-max for abalone.
    """

    seed: int = 0
    n_repeats: int = 20
    n_partitions: int = 20
    n_clusters: int = 20
    n_init: int = 10
    scaling: str = "paper"

    def __post_init__(self) -> None:
        for name in ("n_repeats", "n_partitions", "n_clusters", "n_init"):
            check_integer(getattr(self, name), name)
        check_integer(self.seed, "seed", 0, 2**128)
        check_choice(self.scaling, "scaling", SCALINGS)


def scaling_of(dataset: str, scaling: str) -> str:
    """The scaling of a data set; ``"paper"`` is that of the paper, and raw for the user's own sets."""
    if scaling != "paper":
        return scaling
    try:
        return dataset_info(dataset).scaling
    except ValueError:
        return "raw"


def dataset_key(name: str) -> int:
    """A number for a name that is the same on every machine (Python's hash is not)."""
    return zlib.crc32(name.encode())


def ensemble_seed(seed: int, dataset: str, repeat: int) -> np.random.SeedSequence:
    """Root of one ensemble's draws; partition j adds j to its spawn key."""
    return np.random.SeedSequence(seed, spawn_key=(dataset_key(dataset), repeat))


def method_seed(seed: int, dataset: str, repeat: int, method: str) -> int:
    """The integer seed of one consensus run, which does not depend on the order of runs."""
    key = (dataset_key(dataset), repeat, dataset_key("method:" + method))
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0] >> 1)


def features(dataset: Dataset) -> np.ndarray | csr_matrix:
    """The matrix that is clustered: sparse where nearly all cells are zero, which changes time but not k-means."""
    X = dataset.X
    if X.size and np.count_nonzero(X) < SPARSE_BELOW * X.size:
        return csr_matrix(X)
    return X


def ensemble_fingerprint(dataset: Dataset, X: np.ndarray | csr_matrix, protocol: Protocol, repeat: int) -> str:
    """Text with everything the base partitions depend on: a stored ensemble is used only if this is equal."""
    digest = hashlib.sha256(np.ascontiguousarray(dataset.X).tobytes()).hexdigest()
    facts = {
        "dataset": dataset.name,
        "features": digest,
        "sparse": bool(issparse(X)),
        "classes": dataset.n_classes,
        "scaling": dataset.scaling,
        "repeat": repeat,
        "recipe": {k: v for k, v in asdict(protocol).items() if k in ("seed", "n_partitions", "n_init")},
    }
    return json.dumps(facts, sort_keys=True)
