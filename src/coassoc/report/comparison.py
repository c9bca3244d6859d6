"""Several consensus methods on one ensemble, with their scores as a table and as JSON."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from ..consensus.auto.chance import support_and_scores
from ..consensus.base import fit_to, mark_unlabelled, on_host
from ..consensus.registry import Method, Settings, compared_methods, named_method, own_method
from ..core.checks import check_integer
from ..core.counts import density_from_counts
from ..ensemble import Ensemble, check_ensemble
from ..ensemble.tables import Columns
from ..metrics import nmi, partition_nmi
from ..metrics.labels import check_labels
from ..metrics.scores import counts_of, mean_nmi
from . import plain_text
from .displays import axes_or_new

MOST_COMPARED = 20_000  # items that methods are compared on where clusterings are left out, and in a report


@dataclass
class MethodScores:
    """One method: its scores, or why it has none."""

    method: str
    density: float | None = None
    ensemble_nmi: float | None = None
    left_out_nmi: float | None = None  # with partitions that the consensus was not made from
    class_ari: float | None = None
    class_nmi: float | None = None
    clusters: int | None = None
    seconds: float | None = None
    error: str | None = None  # why the method could not run


@dataclass
class Comparison:
    """Methods side by side on one ensemble.

    Attributes
    ----------
    n_samples, n_partitions, n_clusters : int
        Items, clusterings, clusters asked for.
    zero_effort_density, zero_effort_nmi : dict
        ``{"mean": ..., "best": ...}`` of taking one clustering as the consensus.
    rows : list of MethodScores
        One per method, in the order asked for.
    labels : dict
        Consensus labels by method, for those that ran.
    """

    n_samples: int
    n_partitions: int
    n_clusters: int
    zero_effort_density: dict[str, float]
    zero_effort_nmi: dict[str, float]
    rows: list[MethodScores] = field(default_factory=list)
    labels: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def __getitem__(self, method: str) -> MethodScores:
        return {row.method: row for row in self.rows}[method]

    def notes(self) -> list[str]:
        """Remarks on the numbers: methods below the best single clustering, with fewer clusters, or that failed."""
        notes = []
        best = self.zero_effort_nmi["best"]
        below = [r.method for r in self.rows if r.left_out_nmi is not None and r.left_out_nmi < best]
        if below:
            notes.append(
                f"{', '.join(below)}: NMI left out is below that of the best single clustering with the others "
                f"({best:.4f}, whatever its number of clusters)."
            )
        fewer = [r.method for r in self.rows if r.clusters is not None and r.clusters < self.n_clusters]
        if fewer:
            notes.append(f"{', '.join(fewer)}: found fewer clusters than the {self.n_clusters} asked for.")
        return notes + [f"{r.method}: did not run. {r.error}" for r in self.rows if r.error is not None]

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            "items": self.n_samples,
            "partitions": self.n_partitions,
            "clusters_asked_for": self.n_clusters,
            "zero_effort_density": self.zero_effort_density,
            "zero_effort_nmi": self.zero_effort_nmi,
            "methods": [asdict(row) for row in self.rows],
            "notes": self.notes(),
        }

    def to_frame(self, kind: str = "pandas") -> Any:
        """One row per method, to sort and filter.

        Parameters
        ----------
        kind : {"pandas", "polars"}, default="pandas"
            In pandas the methods are the index.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame

        Examples
        --------
        >>> import coassoc as ca
        >>> result = ca.compare([[0, 1], [0, 1], [1, 0], [1, 0]], 2, ["kmeans", "sec"])
        >>> result.to_frame()["density"].to_dict()
        {'kmeans': 1.0, 'sec': 1.0}
        """
        rows = [asdict(row) for row in self.rows]
        return Columns({name: [row[name] for row in rows] for name in (rows[0] if rows else ())}).to_frame(kind)

    def plot(self, scores: Sequence[str] = ("density", "ensemble_nmi"), ax: Any = None) -> Any:
        """One line of dots per method; methods that did not run are left out.

        Dashed lines mark the best single clustering.

        Parameters
        ----------
        scores : sequence of str, default=("density", "ensemble_nmi")
            The scores, columns of ``to_frame()``.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> import matplotlib, coassoc as ca; matplotlib.use("agg")
        >>> ax = ca.compare([[0, 1], [0, 1], [1, 0], [1, 0]], 2, ["kmeans", "sec"]).plot()
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['sec', 'kmeans']
        """
        rows = [row for row in self.rows[::-1] if row.error is None]
        ax = axes_or_new(ax, figsize=(6.5, 1.5 + 0.25 * len(rows)))
        best = {"density": self.zero_effort_density["best"], "ensemble_nmi": self.zero_effort_nmi["best"]}
        names = [row.method for row in rows]
        for score in scores:
            (dots,) = ax.plot([getattr(row, score) for row in rows], names, "o", label=score.replace("_", " "))
            if score in best:
                ax.axvline(best[score], color=dots.get_color(), linewidth=1, linestyle="--")
        ax.grid(axis="y", color="0.9")
        ax.legend(frameon=False)
        return ax

    def to_text(self) -> str:
        """The table as plain text."""
        single = {"density": self.zero_effort_density, "ensemble_nmi": self.zero_effort_nmi}
        table = plain_text.scores_table([asdict(row) for row in self.rows], single)
        title = f"{self.n_samples:,} items, {self.n_partitions} clusterings, {self.n_clusters} clusters asked for"
        return "\n".join([title, "", table, "", *self.notes()]).rstrip()

    __repr__ = to_text


def compare(
    X: Any,
    n_clusters: int = 8,
    methods: Any = None,
    classes: Any = None,
    *,
    random_state: int | None = 0,
    engine: Any = "auto",
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Run several consensus methods on one ensemble and compute the same scores for each.

    When a method cannot run at this size, or is not installed, its row has the reason, and the others still run.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The clusterings.
    n_clusters : int, default=8
        Clusters asked of every method.
    methods : sequence of str or estimator, or dict, default=None
        Names such as "kmeans" or "eac-average", ``"package.module:Estimator"``, and estimators or classes of your own,
        in a dict under names of your own. Other clusterers than those of coassoc are given the label table. None: all
        methods.
    classes : array-like of shape (n_samples,), default=None
        Known classes, for ARI and NMI; taken from the ensemble when it carries them.
    random_state : int, default=0
        Seed of every method.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where passes over the items run.
    progress : callable, default=None
        Called with the name of each method before it runs.

    Returns
    -------
    Comparison

    Notes
    -----
    Density and ensemble NMI measure how well a partition represents the ensemble, not agreement with true classes; some
    methods optimise one, some the other. The NMI left out can be compared with that of a single clustering: each method
    is fitted to two random halves of the clusterings and scored on the other half, on at most 20,000 items.

    Examples
    --------
    >>> from coassoc.report import compare
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> result = compare(table, 2, ["kmeans", "eac-average"])
    >>> for row in result.rows:
    ...     print(f"{row.method}: {row.clusters} clusters, density {row.density:.2f}, NMI {row.ensemble_nmi:.2f}")
    kmeans: 2 clusters, density 0.83, NMI 0.91
    eac-average: 2 clusters, density 0.83, NMI 0.91
    """
    k = check_integer(n_clusters, "n_clusters")
    chosen = compared_methods() if methods is None else check_methods(methods)
    ensemble = check_ensemble(X)
    known = known_classes(ensemble, classes)
    _, by_nmi, by_density = support_and_scores(ensemble, engine)
    result = Comparison(ensemble.n_samples, ensemble.n_partitions, k, by_density._asdict(), by_nmi._asdict())
    for name in chosen:
        if progress is not None:
            progress(name)
        row, labels = _run_method(name, *chosen[name], ensemble, k, known, random_state, engine)
        result.rows.append(row)
        if labels is not None:
            result.labels[name] = labels
    return result


def check_methods(methods: Any) -> dict[str, tuple[Method, Settings]]:
    """What `compare` is to run, by name."""
    if not isinstance(methods, dict):
        given = methods if isinstance(methods, (list, tuple)) else [methods]
        methods = {_name_of(method): method for method in given}
    if not methods:
        raise ValueError("methods must name at least one method, got none.")
    return {
        name: named_method(method) if isinstance(method, str) else (own_method(method, name), {})
        for name, method in methods.items()
    }


def _name_of(method: Any) -> str:
    if isinstance(method, str):
        return method if ":" in method else method.lower()
    return getattr(method, "__name__", None) or type(method).__name__


def _run_method(
    name: str, method: Method, settings: Settings, ensemble: Ensemble, k: int, known: Any, seed: Any, engine: Any
) -> tuple[MethodScores, np.ndarray | None]:
    """The scores and labels of one method; an error becomes a row that says why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the table shows how many clusters were found
            model = method.make(n_clusters=k, random_state=seed, engine=engine, **settings)
            seconds = timed_fit(model, ensemble)
    except (MemoryError, ImportError, ValueError, TypeError, RuntimeError, ArithmeticError) as error:
        return MethodScores(name, error=" ".join(str(error).split()) or type(error).__name__), None
    labels = np.asarray(model.labels_)
    row = scored(name, ensemble, labels, engine, known, seconds=seconds)
    with suppress(MemoryError, ValueError, RuntimeError, ArithmeticError):  # half of the partitions may be too few
        row.left_out_nmi = left_out_nmi(model, ensemble, seed or 0, engine)
    return row, labels


def timed_fit(model: Any, ensemble: Ensemble) -> float:
    """Fit a model; how many seconds it took."""
    start = time.perf_counter()
    fit_to(model, ensemble)
    return time.perf_counter() - start


def left_out_nmi(model: Any, ensemble: Ensemble, seed: int, engine: Any) -> float | None:
    """Mean NMI of the partitions with a consensus of other partitions: a whole fit to each of two random halves.

    Number of clusters, method and choice of partitions come from that half alone. An item that the half does not label
    has no cluster, and does not count. On at most MOST_COMPARED items. None for a single partition.
    """
    p = ensemble.n_partitions
    if p < 2:
        return None
    sample = ensemble.take(sampled_rows(ensemble.n_samples, seed))
    halves = np.array_split(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0x1EF7,))).permutation(p), 2)
    codes, sizes = sample.codes, sample.n_clusters
    parts = [Ensemble.from_codes(np.ascontiguousarray(codes[:, half]), sizes[half]) for half in halves]
    total = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for used, left in (parts, parts[::-1]):
            # other clusterers than those of coassoc give items without a label a cluster
            labels = mark_unlabelled(on_host(fit_to(clone(model), used).labels_), used)
            total += float(partition_nmi(left, labels, engine=engine).sum())
    return total / p


def sampled_rows(n_samples: int, seed: int) -> np.ndarray:
    """Positions of the items, or of MOST_COMPARED of them, in order."""
    if n_samples <= MOST_COMPARED:
        return np.arange(n_samples)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0x5A3,)))
    return np.sort(rng.choice(n_samples, MOST_COMPARED, replace=False))


def known_classes(ensemble: Ensemble, classes: Any = None) -> np.ndarray | None:
    """Codes of the classes given, or of those of the ensemble; None without any."""
    classes = ensemble.classes if classes is None else classes
    return None if classes is None else check_labels(classes, ensemble.n_samples, "classes")[0]


def scored(name: str, ensemble: Ensemble, labels: Any, engine: Any, classes: Any = None, **more: Any) -> MethodScores:
    """The scores of some labels; `more` are other fields of the row."""
    codes, k = check_labels(labels, ensemble.n_samples)
    counts, equal = counts_of(ensemble, codes, k, None, engine), np.ones(ensemble.n_partitions)
    row = MethodScores(name, density_from_counts(counts, equal), mean_nmi(counts, equal), clusters=k, **more)
    known = known_classes(ensemble, classes)
    if known is not None and (both := (known >= 0) & (codes >= 0)).any():
        row.class_nmi, row.class_ari = nmi(known, codes), adjusted_rand_score(known[both], codes[both])
    return row
