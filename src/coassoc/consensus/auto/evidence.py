"""What the default answer is made from: items that are not noise, clusterings compared, micro-clusters, refits."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ...core.checks import stream
from ...core.counts import Layout
from ...engines import Engine, Rows
from ...ensemble import Ensemble
from ...ensemble.gpu import beside
from ...metrics.labels import check_copies
from ...metrics.profiles import check_rows
from ...metrics.scores import member_tables
from ..base import host_ensemble, on_host
from ..micro import MICRO_PASSES, MicroClusters, local_rows, micro_clusters, sampled_codes
from .candidates import CANDIDATES, MicroFits
from .chance import Support, find_support
from .members import MemberPairs, compare_members, find_camps
from .number import LEAST_SHARE, Neighbours, NumberOfClusters, choose_k
from .refits import Refits

N_MICRO, MOST_MICRO = 300, 1000  # micro-clusters: at least, and at most where the number of clusters is not given
MOST_COMPARED = 20_000  # items on which clusterings are compared; a sample of those above
FINE_RATIO = 2.5  # clusterings with this many times more clusters than k: k-means would divide the items evenly


@dataclass(frozen=True)
class Evidence:
    """What an answer is made from."""

    sample: np.ndarray  # (n, p) codes of the items on which clusterings are compared
    layout: Layout
    n_clusters: np.ndarray  # (p,) clusters of each clustering; those whose items all have weight 0 do not count
    pairs: MemberPairs
    support: Support
    camps: list[np.ndarray]
    micro: MicroClusters
    fits: MicroFits
    refits: Refits
    ks: np.ndarray  # numbers of clusters to choose from
    n_micro: int
    seed: int
    least: int  # smallest size of a cluster

    def choose_k(self, features: Any = None, leaf: np.ndarray | None = None) -> NumberOfClusters:
        """The number of clusters; `features` of the items, which are at micro-clusters `leaf`, vote where given."""
        neighbours = None
        if features is not None and leaf is not None and (leaf >= 0).sum() > 1:
            X = check_array(features, accept_sparse="csr", input_name="features")
            check_rows(X, len(leaf))
            neighbours = Neighbours.of(X, leaf, stream(self.seed, 11))
        return choose_k(self.fits, self.refits, self.ks, self.least, neighbours)

    def stabilities(self, k: int) -> dict[str, float]:
        """Of each candidate at k clusters; k-means is no candidate where clusterings are much finer than k."""
        fine = np.exp(self.pairs.entropy[self.support.used].mean()) / k > FINE_RATIO
        names = [name for name in CANDIDATES if name != "kmeans" or not (fine or self.least > 1)]
        return {name: self.refits.stability(name, k, self.least) for name in names}

    def of_camp(self, camp: np.ndarray) -> tuple[MicroFits, Refits, np.ndarray]:
        """Fits to the clusterings of a camp alone, and the numbers of clusters to choose from."""
        used = self.support.used & np.isin(np.arange(len(self.support.used)), camp)
        fits = _fit_micro(self.sample, self.layout, self.pairs, self.micro, used, self.n_micro, self.seed)
        return *fits, np.arange(2, max(int(self.n_clusters[used].max()), 2) + 1)


def gather_evidence(rows: Rows, engine: Engine, asked: list[int] | None, seed: int, least: int = 1) -> Evidence:
    """Compare the clusterings on a sample, find micro-clusters of all items, and refit to halves."""
    layout = rows.layout
    sample = sampled_codes(rows, MOST_COMPARED, stream(seed, 6))
    local, _ = local_rows(sample, layout)
    tables = member_tables(Ensemble.from_codes(sample, layout.n_clusters), local, range(layout.n_partitions))
    pairs = compare_members(tables, layout)
    support = find_support(pairs)
    used = support.used
    n_clusters = np.add.reduceat(rows.whole_counts().alpha[:, 0] > 0, layout.offsets[:-1], dtype=np.int64)
    largest = int(n_clusters[used].max())
    most = max(largest, 0 if asked is None else asked[-1])
    n_micro = max(N_MICRO, min(3 * most, MOST_MICRO if asked is None else max(MOST_MICRO, 2 * most)))
    n_micro = min(largest if used.sum() == 1 else n_micro, rows.n_rows)
    micro = micro_clusters(rows, engine, n_micro, MICRO_PASSES, seed, used.astype(np.float64))
    camps = [np.flatnonzero(np.isin(pairs.copy_of, camp)) for camp in find_camps(pairs.ami, np.flatnonzero(used))]
    camps.sort(key=lambda camp: (-len(camp), camp[0]))
    fits, refits = _fit_micro(sample, layout, pairs, micro, used, n_micro, seed)
    # incomplete clusterings may each have fewer clusters than there are groups that none of them joins
    n_apart = int((fits.sizes_apart >= LEAST_SHARE * fits.sizes_apart.mean()).sum())
    ks = np.arange(2, max(largest, n_apart, 2) + 1)
    if asked is not None:
        ks = np.union1d(ks, asked) if len(asked) == 1 else np.array(asked)
    ks = ks[ks > 1]
    return Evidence(sample, layout, n_clusters, pairs, support, camps, micro, fits, refits, ks, n_micro, seed, least)


def _fit_micro(
    sample: np.ndarray, layout: Layout, pairs: MemberPairs, micro: MicroClusters, used: np.ndarray, n_micro: int,
    seed: int,
) -> tuple[MicroFits, Refits]:  # fmt: skip
    """Fits to the clusterings that are True in `used`, and to halves of them."""
    order = micro.partitions[used[micro.partitions]]
    fits = MicroFits.of(micro, used, pairs.cluster_entropy, seed)
    return fits, Refits(sample, layout, pairs, order, n_micro, seed, int(micro.sizes.sum()))


# -- items that most clusterings leave without a label: −1 in the answer, where that is asked for ---------------------


def without_noise(ensemble: Any, noise: Any, sample_weight: Any) -> tuple[np.ndarray | None, Any, int]:
    """Which items are above the share `noise`, if any, weights that are 0 for them, and how many they are."""
    if noise is None:
        return None, sample_weight, 0
    if isinstance(noise, bool) or not isinstance(noise, numbers.Real) or not 0 <= float(noise) < 1:
        raise ValueError(f"noise must be None or a share from 0 to below 1, such as 0.5, got {noise!r}.")
    noisy = host_ensemble(ensemble).noise_share() > noise
    if not noisy.any():
        return None, sample_weight, 0
    if noisy.all():
        raise ValueError(f"noise={noise!r} leaves no item: each lacks more labels than that; raise it.")
    copies = check_copies(on_host(sample_weight), len(noisy)) if sample_weight is not None else None
    copies = np.ones(len(noisy), np.int64) if copies is None else copies
    return noisy, np.where(noisy, 0, copies), int(copies[noisy].sum())


def marked(values: Any, noisy: np.ndarray, value: int) -> Any:
    """`values` of all items, where they are, with `value` for those that are noise."""
    values = values.copy()
    values[beside(noisy, values).astype(bool)] = value
    return values
