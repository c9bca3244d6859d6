"""Output that is whole or absent."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike, *, force: bool = False) -> Iterator[Path]:
    """A name to write to, moved to `path` when all went well: the file is whole or absent.

    Refuses an existing file unless `force`.
    """
    target = Path(path)
    check_writable(target, force=force)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part{''.join(target.suffixes)}")
    try:
        yield partial
        with open(partial, "rb") as written:
            os.fsync(written.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike, *, force: bool = False) -> None:
    """Say early that an output is in the way or has no folder to go to."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(21, "is a folder", str(target))
    if target.exists() and not force:
        raise FileExistsError(
            f"{target} already exists; choose another name, or overwrite it with force=True (--force)."
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(2, "no such folder", str(target.parent))
