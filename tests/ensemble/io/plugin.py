"""A file format of another package, installed for a test as pip would: a module and an entry point."""

from __future__ import annotations

import sys

from coassoc.core import plugins

MODULE = '''
"""Columns as JSON lists, for the sake of the test."""
import json
import pyarrow as pa
from coassoc.ensemble.io.formats import Table

class JsonTable(Table):
    name, suffixes, magic, in_folders = "jsontable", (".jt",), (b"JT1 ",), True

    def __init__(self, path, options, file=None):
        super().__init__(path, options, file)
        self.content = json.loads(path.read_bytes()[4:])
        self.names, self.n_rows = list(self.content), len(next(iter(self.content.values())))

    def batches(self, columns, ids=None, where=None):
        yield pa.record_batch({name: self.content[name] for name in columns})

    @classmethod
    def write(cls, target, content):
        columns = {name: column.to_pylist() for name, column in content.arrow().items()}
        target.write_bytes(b"JT1 " + json.dumps(columns).encode())

    @classmethod
    def append(cls, source, target, columns, options, force):
        content = json.loads(source[0].read_bytes()[4:]) | columns.to_pydict()
        target.write_bytes(b"JT1 " + json.dumps(content).encode())
'''


def install(monkeypatch, folder, module: str = MODULE) -> None:
    """Make the format known to this process and to those it starts."""
    (folder / "json_format-1.dist-info").mkdir(parents=True)
    (folder / "json_format.py").write_text(module)
    (folder / "json_format-1.dist-info" / "METADATA").write_text("Name: json-format\nVersion: 1\n")
    entry = "[coassoc.formats]\njt = json_format:JsonTable\n"
    (folder / "json_format-1.dist-info" / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(str(folder))
    forget()


def forget() -> None:
    """Let entry points be looked for again."""
    sys.modules.pop("json_format", None)
    plugins.declared.cache_clear()
    plugins.loaded.cache_clear()
