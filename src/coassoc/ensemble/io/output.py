"""Output files: checked before any work, written under a temporary name, then renamed: whole or absent."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def check_outputs(
    outputs: Mapping[str, Any], inputs: Iterable[Any] = (), *, force: bool = False, folders: Collection[str] = ()
) -> None:
    """Check the output paths of a command, by option (``"--save"``), against its inputs and against each other.

    None and ``"-"``, a standard stream, are skipped. Existing files may be replaced with `force`, inputs never. The
    options `folders` name new folders.
    """
    read = [source for source in inputs if source is not None and str(source) != "-"]
    written = {option: path for option, path in outputs.items() if path is not None and str(path) != "-"}
    before: dict[str, Any] = {}
    for option, path in written.items():
        for source in read:
            if _same_file(path, source):
                raise ValueError(f"{option} {path} is also an input, which it would replace; choose another name.")
            if os.path.isdir(source) and _real(source) in _real(path).parents:
                raise ValueError(
                    f"{option} {path} lies in the input folder {source} and would be read as data next time; "
                    "choose another folder."
                )
        for other, there in before.items():
            if _same_file(path, there):
                raise ValueError(f"{other} {there} and {option} {path} are the same file; choose different names.")
        if option in folders:
            check_new_folder(path)
        else:
            check_writable(path, force=force)
        before[option] = path


def check_new_folder(path: Any) -> None:
    """Refuse a folder that holds something: what is there is never mixed with new parts, nor deleted."""
    target = _real(path)
    if target.is_dir() and any(target.iterdir()):
        raise FileExistsError(f"the folder {path} is not empty; choose another name, or empty it first.")
    if not target.is_dir():
        check_writable(target)


@contextmanager
def new_folder(path: Any) -> Iterator[Path]:
    """Yield a temporary folder to write to; rename it to `path` at the end, or delete it after an error."""
    check_new_folder(path)
    target = _real(path)
    partial = _temporary(target)
    partial.mkdir()
    try:
        yield partial
        if target.is_dir():
            target.rmdir()  # refused by the system if something came into it meanwhile
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_writable(path: Any, *, force: bool = False) -> None:
    """Refuse an output that exists (unless `force`), is not a regular file, or is in a folder that cannot be used."""
    if not str(path):
        raise ValueError("the name of an output file must not be empty.")
    target = Path(path)
    folder = _real(target).parent
    try:
        mode = os.stat(target).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist; create it first"
            raise FileNotFoundError(
                f"{target} cannot be written: the folder {str(target.parent)!r} {what}."
            ) from None
    else:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(target))
        if not stat.S_ISREG(mode):
            kind = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode), "a device")
            raise ValueError(f"{target} is {kind}; name a regular file, or - for standard output.")
        if not force:
            raise FileExistsError(
                f"{target} already exists; choose another name, or overwrite it with force=True (--force)."
            )
        if not _may(target, os.W_OK):
            raise PermissionError(f"{target} is read-only; change its mode, or choose another name.")
    if not _may(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{target} cannot be written: no permission to create files in {str(target.parent)!r}.")


@contextmanager
def replacing(path: Any, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to `path` at the end, or delete it after an error.

    A link is followed. A replaced file keeps its mode and, where possible, its owner. An existing file is refused
    unless `force`.
    """
    check_writable(path, force=force)
    target = _real(path)
    partial = _temporary(target)
    try:
        _create(partial, target)
        yield partial
        with open(partial, "r+b") as written:  # Windows flushes files that are open for writing only
            os.fsync(written.fileno())
        _publish(partial, target, force)
    except OSError as error:
        # about the path that the user gave; libraries may name the temporary one without a number
        foreign = error.filename is not None and partial.name not in str(error.filename)
        if foreign or (error.errno is None and partial.name not in str(error)):
            raise
        told = os.strerror(error.errno) if error.errno else str(error).replace(str(partial), str(path))
        raise OSError(error.errno or errno.EIO, told, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)


def _temporary(target: Path) -> Path:
    """A hidden name without the suffix of a data format: left behind by ``kill -9`` it is never read as data."""
    return target.with_name(f".coassoc-{secrets.token_hex(8)}.part")


def _create(partial: Path, target: Path) -> None:
    """An empty file with the mode that the final one will have, so that its content is never more readable."""
    old = os.stat(target) if target.exists() else None
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if old is None else 0o600))
    if old is not None:
        if hasattr(os, "chown"):
            with suppress(OSError):  # a file of another user becomes ours
                os.chown(partial, old.st_uid, old.st_gid)
        os.chmod(partial, stat.S_IMODE(old.st_mode))


def _publish(partial: Path, target: Path, force: bool) -> None:
    if not force:
        try:
            os.link(partial, target)  # fails if another process has made the file since the check
            return
        except FileExistsError:
            raise
        except OSError:
            pass  # no hard links on this file system
    os.replace(partial, target)


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _real(path: Any) -> Path:
    return Path(os.path.realpath(path))


def _same_file(first: Any, second: Any) -> bool:
    """Whether two paths name one file, through links, and for files to come also in another case."""
    if os.path.exists(first) or os.path.exists(second):
        return os.path.exists(first) and os.path.exists(second) and os.path.samefile(first, second)
    return str(_real(first)).casefold() == str(_real(second)).casefold()
