"""The ensemble: many clusterings of the same items as compact codes. Input is validated here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.counts import smallest_unsigned
from ..engines.contract import Loadable
from .encode import check_missing_rule, count_codes, counts_of_codes, distinct_rows, encode_column, row_chunks
from .graphs import are_communities, check_no_communities, community_labels, graph_shares, is_graph, pair_shares
from .io.roles import warn_of_odd_columns, warn_of_transposed
from .tables import Vocabulary, check_table_shape, column_values, columns_of, drawn_labels, ids_of, is_membership_matrix

_PIECE_LABELS = 1 << 21  # labels of a block of the co-association that are held as numbers at a time


class Ensemble(Loadable):
    r"""Many clusterings of the same items, recoded into the smallest integers that hold them.

    With :math:`p` clusterings of :math:`n` items, clustering :math:`j` having :math:`k_j` clusters, the ensemble
    is the :math:`n \times p` table of codes :math:`0..k_j-1`; the one-hot matrix :math:`H` (:math:`n \times d`,
    :math:`d = \sum_j k_j`) and the co-association matrix :math:`A = H H^T / p` are never needed on the main path.

    Parameters
    ----------
    partitions : array-like of shape (n_samples, n_partitions), or Ensemble
        One row per item, one column per clustering: integers, strings, booleans, whole floats in a NumPy array, memory
        map, nested list of rows, pandas, polars or pyarrow table. A path (of a file or a folder) or a Dask collection
        gives an ensemble that leaves the labels where they are: see the page on scale.
    missing : {"negative", "nan", "cluster", "singletons"}, default="negative"
        What a missing label is and becomes. ``"negative"``: NaN, None and negative integers (HDBSCAN's noise) are
        missing. ``"nan"``: only NaN and None are. ``"cluster"`` and ``"singletons"``: NaN, None and negative integers
        form one more cluster of that clustering, or one cluster each.

    Attributes
    ----------
    codes : ndarray of shape (n_samples, n_partitions), unsigned
        Code of each label; ``codes[i, j] == n_clusters[j]`` marks a missing one.
    n_clusters : ndarray of shape (n_partitions,)
        Clusters in each clustering.
    offsets : ndarray of shape (n_partitions + 1,)
        Column of H where each clustering starts; ``offsets[-1]`` is d.
    sizes : ndarray of shape (d,)
        Items in each base cluster.
    names : list of str
        Names of the clusterings.
    categories : list of ndarray
        The original label behind each code of each clustering.
    has_missing : bool
        Whether any label is missing.
    item_ids, classes : ndarray or None
        Names of the items (the index of a pandas frame, or what :func:`read_ensemble` found), and known classes.

    Examples
    --------
    >>> import coassoc as ca
    >>> ens = ca.Ensemble([[0, "a"], [0, "a"], [1, "b"], [1, None]])
    >>> ens.n_samples, ens.n_partitions, ens.n_clusters.tolist()
    (4, 2, [2, 2])
    >>> ens.coassociation([0, 2], [1, 3])
    array([[1., 0.],
           [0., 1.]])

    Notes
    -----
    An unsigned array whose columns already run over 0..k-1 without gaps is used as it is, without a copy.
    """

    codes: np.ndarray
    n_clusters: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    names: list[str]
    categories: list[np.ndarray]
    has_missing: bool
    item_ids: np.ndarray | None = None
    classes: np.ndarray | None = None

    def __new__(cls, partitions: Any = None, **_: Any) -> Ensemble:
        """Files, Dask collections and tables on a GPU make ensembles that leave the labels where they are."""
        kinds = cls.__subclasses__() if cls is Ensemble else ()
        return object.__new__(next((kind for kind in kinds if kind.takes(partitions)), cls))

    @staticmethod
    def takes(table: Any) -> bool:
        """Whether ``Ensemble(table)`` is of this class; for classes that leave the labels where they are."""
        return False

    def __init__(self, partitions: Any, *, missing: str = "negative"):
        check_missing_rule(missing)
        if isinstance(partitions, Ensemble):
            self.__dict__.update(partitions.__dict__)
            return
        counts = counts_of_codes(partitions)
        if counts is not None:  # used as it is
            warn_of_transposed("partitions", *partitions.shape)
            n_clusters, names = np.array([len(count) for count in counts]), _names(None, len(counts))
            self._store(partitions, n_clusters, np.concatenate(counts), names, [np.arange(k) for k in n_clusters])
            return
        check_no_communities(partitions)
        names, columns, n_rows = columns_of(partitions)
        warn_of_transposed("partitions", n_rows, len(names))
        self._encode(names, columns, n_rows, missing)
        self.item_ids = ids_of(partitions)
        warn_of_odd_columns(partitions)

    @classmethod
    def from_partitions(
        cls, partitions: Iterable[Any], *, names: Sequence[str] | None = None, missing: str = "negative"
    ) -> Ensemble:
        """Ensemble from a list of label vectors, one per clustering, all over the same items in one order.

        Parameters
        ----------
        partitions : iterable of array-like of shape (n_samples,), or dict of name to array-like
            The label vectors.
        names : list of str, optional
            Name of each clustering; those of a dict are its keys.
        missing : {"negative", "nan", "cluster", "singletons"}, default="negative"
            As for `Ensemble`.

        Examples
        --------
        >>> import coassoc as ca
        >>> ca.Ensemble.from_partitions({"kmeans": [0, 0, 1, 1], "hdbscan": ["a", "b", "b", None]})
        Ensemble(4 items, 2 clusterings of 2 clusters, uint8, some labels missing)
        """
        check_missing_rule(missing)
        if isinstance(partitions, dict):
            names = list(map(str, partitions)) if names is None else names
            partitions = partitions.values()
        vectors = list(partitions)
        if not vectors:
            raise ValueError("partitions must hold at least one label vector, got none.")
        check_no_communities(vectors)
        columns = [column_values(vector) for vector in vectors]
        for j, (values, _) in enumerate(columns):
            if values.ndim != 1:
                way_out = "pass a table of shape (n_samples, n_partitions) to Ensemble(...)"
                if is_membership_matrix(values):
                    way_out = "its rows sum to 1: pass soft memberships to Ensemble.from_memberships(...)"
                raise ValueError(f"partitions[{j}] must be one-dimensional, got shape {values.shape}; {way_out}.")
            if len(values) != len(columns[0][0]):
                raise ValueError(
                    f"partitions[{j}] has {len(values)} labels but partitions[0] has {len(columns[0][0])}; "
                    "every clustering must label the same items in the same order (use None where absent)."
                )
        names = _names(names, len(columns))
        if len(names) != len(columns):
            raise ValueError(f"names must have one entry per partition ({len(columns)}), got {len(names)}.")
        check_table_shape((len(columns[0][0]), len(columns)))
        return cls.from_columns(names, columns, len(columns[0][0]), missing)

    @classmethod
    def from_communities(
        cls, communities: Iterable[Any], nodes: Any = None, *, names: Sequence[str] | None = None
    ) -> Ensemble:
        """Ensemble from communities of a network, found by several runs or methods.

        Parameters
        ----------
        communities : list, or dict from name to one of its elements
            One clustering of the nodes per element: a list (or generator) of sets of nodes, as networkx returns, a
            dict from node to label, a ``VertexClustering`` of igraph, or a ``NodeClustering`` of cdlib. A node that is
            absent from one of them, or has a negative label, is missing there.
        nodes : list of nodes or graph of networkx or igraph, optional
            All nodes, in the order of the items (``item_ids``). By default those of the clusterings, a graph's in the
            order of the graph, others sorted.
        names : list of str, optional
            Names of the clusterings.

        Examples
        --------
        >>> import coassoc as ca
        >>> ens = ca.Ensemble.from_communities([[{"a", "b"}, {"c"}], {"a": 0, "b": 1}])
        >>> ens.item_ids.tolist(), ens.partition(1).tolist()
        (['a', 'b', 'c'], [0, 1, -1])
        """
        if isinstance(communities, dict) and all(map(are_communities, communities.values())):
            names = list(map(str, communities)) if names is None else names
            communities = communities.values()
        vectors, item_ids = community_labels(communities, nodes)
        self = cls.from_partitions(vectors, names=names)
        self.item_ids = item_ids
        return self

    @classmethod
    def from_memberships(cls, memberships: Iterable[Any], *, n_draws: int = 10, random_state: Any = None) -> Ensemble:
        r"""Ensemble of hard labels drawn from soft memberships.

        Each draw gives item i the label c with probability :math:`P_{ic}`, so that the expected co-association of two
        items is the mean of :math:`(P P^T)_{ii'}` over the matrices. The draws of one matrix are side by side.

        Parameters
        ----------
        memberships : list of array-like of shape (n_samples, n_clusters)
            Probabilities, such as ``predict_proba`` of a mixture. What a row lacks to 1 is the probability of noise.
        n_draws : int, default=10
            Label vectors drawn from each matrix.
        random_state : int, Generator, RandomState or None, default=None
            Seed.

        Examples
        --------
        >>> import coassoc as ca
        >>> ca.Ensemble.from_memberships([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]], n_draws=4, random_state=0)
        Ensemble(3 items, 4 clusterings of 2 clusters, uint8)
        """
        return cls.from_partitions(drawn_labels(memberships, n_draws, random_state))

    @classmethod
    def from_columns(
        cls, names: list[str], columns: Iterable[tuple[Any, Any]], n_rows: int, missing: str = "negative"
    ) -> Ensemble:
        """Ensemble of columns (values, nulls), coded one after the other."""
        self = cls.__new__(cls)
        self._encode(names, columns, n_rows, missing)
        return self

    @classmethod
    def from_codes(
        cls,
        codes: np.ndarray,
        n_clusters: Sequence[int] | np.ndarray,
        *,
        names: Sequence[str] | None = None,
        categories: list[np.ndarray] | None = None,
    ) -> Ensemble:
        """Ensemble over codes that are already compact, without a copy and in the integer width given.

        Parameters
        ----------
        codes : ndarray or array on a GPU, of shape (n_samples, n_partitions), uint8, uint16 or uint32
            ``0..n_clusters[j]-1`` are clusters, ``n_clusters[j]`` is a missing label.
        n_clusters : array-like of shape (n_partitions,)
            Clusters in each clustering. Unlike ``Ensemble(table)``, empty clusters are allowed.
        names, categories : list, optional
            Names of clusterings; original labels behind the codes.

        Examples
        --------
        >>> import numpy as np, coassoc as ca
        >>> ca.Ensemble.from_codes(np.array([[0, 1], [1, 0], [1, 2]], dtype=np.uint8), [2, 2])
        Ensemble(3 items, 2 clusterings of 2 clusters, uint8, some labels missing)
        """
        if is_on_gpu(codes):
            on_device: Any = next(kind for kind in Ensemble.__subclasses__() if kind.takes(codes))
            return on_device.from_codes(codes, n_clusters, names=names, categories=categories)
        if not isinstance(codes, np.ndarray):
            raise TypeError(
                f"codes must be a uint8, uint16 or uint32 array, got {type(codes).__name__}; use Ensemble(table)."
            )
        self = cls.__new__(cls)
        self._store_codes(codes, n_clusters, names, categories)
        return self

    # -- building ------------------------------------------------------------------------------------------

    def _encode(self, names: list[str], columns: Iterable, n_rows: int, missing: str) -> None:
        codes: np.ndarray | None = None
        n_clusters, sizes, categories = [], [], []
        for j, (values, nulls) in enumerate(columns):
            column = encode_column(values, nulls, names[j], missing)
            k = len(column.labels)
            counts, n_missing = column.counts()
            dtype = smallest_unsigned(k + (n_missing > 0))
            if codes is None:
                codes = np.empty((n_rows, len(names)), dtype=dtype)
            elif dtype.itemsize > codes.dtype.itemsize:
                codes = codes.astype(dtype)
            codes[:, j] = np.where(column.indices < 0, k, column.indices) if n_missing else column.indices
            n_clusters.append(k)
            sizes.append(counts)
            categories.append(column.labels)
        self._store(codes, np.array(n_clusters, dtype=np.int64), np.concatenate(sizes), names, categories)

    def _store_codes(self, codes: Any, n_clusters: Any, names: Any = None, categories: Any = None) -> None:
        if codes.dtype.name not in ("uint8", "uint16", "uint32"):
            raise TypeError(f"codes must be a uint8, uint16 or uint32 array, got {codes.dtype}; use Ensemble(table).")
        check_table_shape(codes.shape)
        n_clusters = np.asarray(n_clusters, dtype=np.int64)
        if n_clusters.shape != (codes.shape[1],) or (n_clusters < 1).any():
            raise ValueError(
                f"n_clusters must hold one positive number per partition ({codes.shape[1]}), got {n_clusters}."
            )
        sizes = [counts[:k] for counts, k in zip(self._count_codes(codes, n_clusters), n_clusters)]
        categories = categories or [np.arange(k) for k in n_clusters]
        self._store(codes, n_clusters, np.concatenate(sizes), _names(names, len(n_clusters)), categories)

    def _count_codes(self, codes: Any, n_clusters: np.ndarray) -> Any:
        """How often each code of each partition occurs."""
        for j, (k, highest) in enumerate(zip(n_clusters, codes.max(axis=0))):
            if highest > k:
                raise ValueError(
                    f"codes of partition {j} must be at most n_clusters[{j}] = {k} (that value marks a missing label), "
                    f"got {highest}."
                )
        return count_codes(codes, n_clusters)

    def _store(self, codes: Any, n_clusters: np.ndarray, sizes: np.ndarray, names: list[str], categories: list) -> None:
        self.codes, self.n_clusters, self.sizes = codes, n_clusters, sizes.astype(np.int64)
        self.names, self.categories = names, categories
        self.offsets = np.concatenate([[0], np.cumsum(n_clusters)]).astype(np.int64)
        observed = np.add.reduceat(self.sizes, self.offsets[:-1])
        self.has_missing = bool((observed < codes.shape[0]).any())
        if not observed.any():
            raise ValueError("partitions: every label is missing; there is nothing to agree on.")

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of items."""
        return self.codes.shape[0]

    @property
    def n_partitions(self) -> int:
        """Number of clusterings."""
        return self.codes.shape[1]

    @property
    def n_codes(self) -> int:
        """d, the number of base clusters over all partitions."""
        return int(self.offsets[-1])

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        low, high = int(self.n_clusters.min()), int(self.n_clusters.max())
        clusters = f"{low}" if low == high else f"{low}-{high}"
        note = ", some labels missing" if self.has_missing else ""
        return (
            f"Ensemble({self.n_samples} items, {self.n_partitions} clusterings of {clusters} clusters, "
            f"{self.codes.dtype}{note})"
        )

    def partition(self, j: int) -> np.ndarray:
        """Labels of clustering `j` as codes, −1 where missing.

        Examples
        --------
        >>> import coassoc as ca
        >>> ca.Ensemble([["a", 0], ["b", None], ["b", 1]]).partition(1).tolist()
        [0, -1, 1]
        """
        labels = self.codes[:, j].astype(np.int64)
        labels[labels == self.n_clusters[j]] = -1
        return labels

    def observed(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Where labels are present, as booleans of shape (rows, n_partitions)."""
        return self.codes[rows] < self.n_clusters

    def unlabelled(self) -> np.ndarray | None:
        """Indices of the items no partition labels, or None when there are none."""
        if not self.has_missing:
            return None
        chunks = [
            start + np.flatnonzero(~self.observed(slice(start, stop)).any(axis=1))
            for start, stop in row_chunks(self.codes)
        ]
        rows = np.concatenate(chunks)
        return rows if len(rows) else None

    def one_hot(self, dtype: Any = np.float64, rows: slice = slice(None)):
        """H, or some of its rows, as a SciPy CSR matrix of shape (rows, d): one 1 per item and label.

        Examples
        --------
        >>> import coassoc as ca
        >>> ca.Ensemble([["a", 0], ["b", 0], ["b", 1]]).one_hot(dtype=int).toarray().tolist()
        [[1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 0, 1]]
        """
        from scipy.sparse import csr_matrix

        observed = self.observed(rows)
        columns = (self.codes[rows].astype(np.int64) + self.offsets[:-1])[observed]
        indptr = np.concatenate([[0], np.cumsum(observed.sum(axis=1))])
        return csr_matrix((np.ones(len(columns), dtype=dtype), columns, indptr), shape=(len(observed), self.n_codes))

    def noise_share(self) -> np.ndarray:
        """Share of the clusterings, from 0 to 1, that leave each item without a label, such as the noise of HDBSCAN.

        Examples
        --------
        >>> import coassoc as ca
        >>> ca.Ensemble([[0, 0], [0, -1], [1, 1]]).noise_share().tolist()
        [0.0, 0.5, 0.0]
        """
        shares = np.zeros(self.n_samples)
        for start, stop in row_chunks(self.codes) if self.has_missing else ():
            shares[start:stop] = (~self.observed(slice(start, stop))).mean(axis=1)
        return shares

    def coassociation(self, rows: Any, cols: Any = None, *, max_bytes: int = 1 << 30, engine: Any = "auto") -> Any:
        """Co-association of a block of items, of pairs of items, or of the edges of a graph.

        ``A[i, i']`` is the share of clusterings that put items i and i' together, among those that label both (0 when
        none does).

        Parameters
        ----------
        rows, cols : array-like of int, slice, or "all"
            Items of the block. `cols` defaults to `rows`. The whole matrix must be asked for by name:
            ``ens.coassociation("all")``. Instead of `rows` alone: pairs, an integer array of shape (m, 2); or a graph
            with one node per item, a SciPy sparse matrix (``kneighbors_graph``), igraph or networkx graph. The nodes of
            a networkx graph are matched to ``item_ids``, where the ensemble has them.
        max_bytes : int, default=1073741824
            Refuse blocks whose float64 values need more than this.
        engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
            Where pairs and edges are counted. The result does not depend on it.

        Returns
        -------
        ndarray of shape (len(rows), len(cols)), or (m,) for pairs, or CSR matrix with the pattern of the graph

        Examples
        --------
        >>> import coassoc as ca
        >>> ens = ca.Ensemble([[0, 0], [0, 1], [1, 1]])
        >>> ens.coassociation("all").tolist()
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
        >>> import numpy as np
        >>> ens.coassociation(np.array([[0, 1], [0, 2]]))
        array([0.5, 0. ])
        """
        if cols is None and is_graph(rows):
            return graph_shares(self, rows, engine)
        if cols is None and np.ndim(rows) == 2:
            return pair_shares(self, rows, engine)
        left = self._item_index(rows, "rows")
        right = left if cols is None else self._item_index(cols, "cols")
        need = len(left) * len(right) * 8
        if need > max_bytes:
            raise ValueError(
                f"coassociation of {len(left)} x {len(right)} items needs {need} bytes, above max_bytes={max_bytes}; "
                "ask for fewer items, or raise max_bytes."
            )
        shares, step = np.empty((len(left), len(right))), max(1, _PIECE_LABELS // self.n_partitions)
        for start in range(0, len(right), step):
            shares[:, start : start + step] = self._shares(left, right[start : start + step])
        return shares

    def _shares(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Co-association of some items with others."""
        a, b = self.codes[left].astype(np.int64), self.codes[right].astype(np.int64)
        seen_a, seen_b = a < self.n_clusters, b < self.n_clusters
        a[~seen_a], b[~seen_b] = -1, -2  # no label equals a missing one
        together = np.zeros((len(left), len(right)), dtype=np.int32)
        for label_a, label_b in zip(a.T, b.T):
            together += label_a[:, None] == label_b
        return together / np.maximum(seen_a.astype(np.float32) @ seen_b.T, 1)

    def distinct(self) -> tuple[Ensemble, np.ndarray, np.ndarray]:
        """The different rows in order of first appearance, how often each occurs, and for each item its row there."""
        first, counts, inverse = distinct_rows(self.codes)
        return self.take(first), counts, inverse

    def take(self, rows: np.ndarray) -> Ensemble:
        """The same partitions on some of the items; base clusters keep their codes, also when left empty."""
        codes = np.ascontiguousarray(self.codes[rows])
        return Ensemble.from_codes(codes, self.n_clusters, names=self.names, categories=self.categories)

    def vocabulary(self) -> Vocabulary:
        """The labels behind the codes, for coding new rows."""
        return Vocabulary(self.n_clusters, self.categories, self.names, self.codes.dtype)

    def encode(self, partitions: Any) -> np.ndarray:
        """Codes of new label rows; labels never seen here become missing."""
        return self.vocabulary().encode(partitions)

    def _item_index(self, which: Any, name: str) -> np.ndarray:
        if which is None or (isinstance(which, str) and which != "all"):
            raise ValueError(f"{name} must be indices, a slice or 'all' (the whole matrix), got {which!r}.")
        try:
            index = np.atleast_1d(np.arange(self.n_samples)[slice(None) if isinstance(which, str) else which])
        except (IndexError, TypeError) as error:
            items = f"items 0..{self.n_samples - 1} (indices, a mask, a slice)"
            raise IndexError(f"{name} must name {items}: {error}") from None
        if index.ndim != 1:
            raise IndexError(f"{name} must be one-dimensional, got shape {index.shape}.")
        return index


def _names(names: Sequence[str] | None, n_partitions: int) -> list[str]:
    """Names of the clusterings, by default their numbers."""
    return list(map(str, range(n_partitions) if names is None else names))


def is_on_gpu(table: Any) -> bool:
    """Whether the values of `table`, an array or an ensemble, are in the memory of a GPU."""
    if isinstance(table, np.ndarray):
        return False
    if hasattr(table, "__cuda_array_interface__") or hasattr(table, "to_host"):
        return True
    where = getattr(table, "__dlpack_device__", None)
    return where is not None and int(where()[0]) == 2  # DLPack's number for CUDA


def check_ensemble(X: Any) -> Ensemble:
    """`X` itself when it is an Ensemble, else the Ensemble of the label table `X`."""
    return X if isinstance(X, Ensemble) else Ensemble(X)


Vocabulary.ensembles = Ensemble  # which imports Vocabulary, and so cannot be imported there
