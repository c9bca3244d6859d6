"""The bisecting tree: the order of the splits, cuts, and its export as linkage, Newick text and table."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Tree:
    """A binary tree grown by splitting leaves one after another.

    Node 0 is the root; the split of rank r (1, 2, ...) creates nodes 2r − 1 and 2r.

    Attributes
    ----------
    parent, left, right : list of int
        Links, −1 where absent.
    rank : list of int
        Position of the node's split among all splits, from 1; 0 for leaves.
    size, density, gain : list
        Items (copies counted), density D, and the ΔS of the node's split (NaN when it has none).
    """

    parent: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    density: list[float] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)

    def __getstate__(self) -> dict[str, np.ndarray]:
        return {name: np.array(getattr(self, name)) for name in ("rank", "size", "density", "gain")}

    def __setstate__(self, state: dict[str, np.ndarray]) -> None:
        """Make the splits again, so that no file can hold links that go round in circles."""
        rank, size, density, gain = (state[name].tolist() for name in ("rank", "size", "density", "gain"))
        vars(self).update(vars(Tree()))
        self.add(-1, size[0], density[0])
        for node in np.argsort(rank, kind="stable")[rank.count(0) :].tolist():
            pair = slice(len(self.parent), len(self.parent) + 2)
            self.split(node, gain[node], size[pair], density[pair])

    def add(self, parent: int, size: int, density: float) -> int:
        """A new leaf."""
        row = (parent, -1, -1, 0, size, density, float("nan"))
        for column, value in zip(vars(self).values(), row):
            column.append(value)
        return len(self.parent) - 1

    def split(self, node: int, gain: float, sizes, densities) -> tuple[int, int]:
        """Turn leaf `node` into the parent of two new leaves."""
        self.rank[node] = self.n_splits + 1
        self.gain[node] = gain
        left = self.add(node, int(sizes[0]), float(densities[0]))
        right = self.add(node, int(sizes[1]), float(densities[1]))
        self.left[node], self.right[node] = left, right
        return left, right

    @property
    def n_nodes(self) -> int:
        return len(self.parent)

    @property
    def n_splits(self) -> int:
        return (self.n_nodes - 1) // 2

    @property
    def n_leaves(self) -> int:
        return self.n_splits + 1

    def leaves(self, k: int | None = None) -> list[int]:
        """Nodes that are leaves when only the first k − 1 splits are made, from left to right."""
        last = self.n_splits if k is None else k - 1
        reached, stack = [], [0]
        while stack:
            node = stack.pop()
            if 0 < self.rank[node] <= last:
                stack += [self.right[node], self.left[node]]
            else:
                reached.append(node)
        return reached

    def cut(self, k: int) -> np.ndarray:
        """For each final leaf, from left to right, its cluster among the first k leaves."""
        cluster = {node: c for c, node in enumerate(self.leaves(k))}
        for node, parent in enumerate(self.parent):  # parents come before their children
            cluster.setdefault(node, cluster.get(parent, -1))
        return np.array([cluster[leaf] for leaf in self.leaves()], dtype=np.int32)

    def linkage(self) -> np.ndarray:
        """SciPy linkage over the leaves (left to right), height = leaves − rank of the split."""
        position = {node: i for i, node in enumerate(self.leaves())}
        n_leaves = len(position)
        merges = np.zeros((n_leaves - 1, 4))
        items = dict.fromkeys(position, 1)
        inner = sorted((node for node in range(self.n_nodes) if self.rank[node]), key=lambda node: -self.rank[node])
        for row, node in enumerate(inner):
            pair = sorted((position[self.left[node]], position[self.right[node]]))
            items[node] = items[self.left[node]] + items[self.right[node]]
            merges[row] = (*pair, n_leaves - self.rank[node], items[node])
            position[node] = n_leaves + row
        return merges

    def newick(self) -> str:
        """Newick text; leaves are named by position, inner nodes by density, branches by rank."""
        position = {node: i for i, node in enumerate(self.leaves())}
        n_leaves = len(position)
        height = [n_leaves - rank if rank else 0 for rank in self.rank]
        text: dict[int, str] = {}
        for node in reversed(range(self.n_nodes)):  # children are made after their parents
            if self.rank[node]:
                inside = f"({text[self.left[node]]},{text[self.right[node]]}){self.density[node]:.6g}"
            else:
                inside = f"leaf{position[node]}"
            parent = self.parent[node]
            text[node] = inside if parent < 0 else f"{inside}:{height[parent] - height[node]}"
        return text[0] + ";"

    def table(self) -> dict[str, np.ndarray]:
        """One row per node, as columns."""
        return {"node": np.arange(self.n_nodes)} | {name: np.array(values) for name, values in vars(self).items()}
