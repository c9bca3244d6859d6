"""The labels an ensemble knows: what coding new rows needs, and nothing of the size of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.counts import smallest_unsigned
from .encode import encode_column, is_negative
from .tables import columns_of


@dataclass(frozen=True)
class Vocabulary:
    """Label of each code, partition by partition."""

    n_clusters: np.ndarray
    categories: list[np.ndarray]
    names: list[str]
    dtype: np.dtype  # width of the codes at fit

    ensembles: ClassVar[Any]  # the class Ensemble

    def encode(self, partitions: Any) -> np.ndarray:
        """Codes of new label rows; labels never seen become missing (code ``n_clusters[j]``)."""
        coded = isinstance(partitions, self.ensembles)
        names, columns, n_rows = (partitions.names, (), len(partitions)) if coded else columns_of(partitions)
        n_columns = len(names)
        if n_columns != len(self.n_clusters):
            raise ValueError(
                f"X has {n_columns} features, but the model is expecting {len(self.n_clusters)} features as "
                "input: one label (or None) for each base partition."
            )
        wide = smallest_unsigned(int(self.n_clusters.max()) + 1)
        codes = np.empty((n_rows, n_columns), dtype=max(wide, self.dtype, key=lambda t: t.itemsize))
        for j, (values, nulls) in enumerate(columns):
            codes[:, j] = self.codes_of_column(j, values, nulls)
        for j, labels in enumerate(partitions.categories if coded else ()):
            codes[:, j] = self.lookup(j, labels)[partitions.codes[:, j]]
        return codes

    def codes_of_column(self, j: int, values: Any, nulls: np.ndarray | None) -> np.ndarray:
        """Codes of new labels of partition j."""
        new = encode_column(values, nulls, self.names[j], "nan", allow_empty=True)
        return self.lookup(j, new.categories)[new.codes]

    def ensemble_of(self, partitions: Any) -> Any:
        """Ensemble of new label rows over the known base clusters; None when no label at all is known."""
        codes = self.encode(partitions)
        if (codes == self.n_clusters.astype(codes.dtype)).all():
            return None
        return self.ensembles.from_codes(codes, self.n_clusters, names=self.names, categories=self.categories)

    def lookup(self, j: int, labels: np.ndarray) -> np.ndarray:
        """Code of each of the labels in partition j, and of a missing label at the end."""
        k = int(self.n_clusters[j])
        # integer and string labels never compare equal, so 1 and "1" stay different here too
        known = {label: code for code, label in enumerate(self.categories[j].tolist())}
        absent = known.get(None, k)  # None: missing labels were made a cluster
        found = [known.get(label, absent if is_negative(label) else k) for label in labels.tolist()]
        lone = [label != label for label in labels.tolist()]  # NaN: a missing label that was made a cluster
        return np.append(np.where(lone, absent, found), absent).astype(np.int64)
