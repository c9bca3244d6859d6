"""The packages that read and write files, imported when first used: arrays in memory need none of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Package:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


pa: Any = _Package("pyarrow")
pc: Any = _Package("pyarrow.compute")
pacsv: Any = _Package("pyarrow.csv")
pq: Any = _Package("pyarrow.parquet")
h5py: Any = _Package("h5py")
openpyxl: Any = _Package("openpyxl")
