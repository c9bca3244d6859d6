"""What other installed packages add to coassoc: methods, file formats and engines, declared as entry points.

In the ``pyproject.toml`` of such a package::

    [project.entry-points."coassoc.methods"]
    mine = "package.module:MyConsensus"      # derived from coassoc.ConsensusEstimator

    [project.entry-points."coassoc.formats"]
    mine = "package.module:MyTable"          # derived from coassoc.ensemble.io.formats.Table

    [project.entry-points."coassoc.engines"]
    mine = "package.module:MyEngine"         # a coassoc.engines.Engine
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@cache
def declared(what: str) -> tuple[EntryPoint, ...]:
    """Entry points of the group ``coassoc.what``; nothing is imported."""
    return tuple(entry_points(group=f"coassoc.{what}"))


@cache
def loaded(what: str) -> dict[str, Any]:
    """What the entry points of a group name, imported; one that cannot be imported is left out with a warning."""
    extensions = {}
    for entry in declared(what):
        try:
            extensions[entry.name] = entry.load()
        except Exception as error:  # a fault of that package must not stop the others
            warnings.warn(f"coassoc.{what}: {entry.value} cannot be used ({error}).", stacklevel=2)
    return extensions
