"""Ensembles and consensus labels -> files, and on a cluster folders.

Output files are checked before any work, written under a temporary name, then renamed: whole or absent.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ...engines.cluster import on_blocks
from ..encode import Dictionary, encode_column, label_array
from ..ensemble import Ensemble
from .arrow import pq
from .coding import Content, arrow_array, batches_in, ids_in, is_dask
from .formats import Format, Options, endings, find_format, joins_source, listing, naming, pa, several, table_format
from .guard import append_guarded
from .roles import class_names, is_class_name, is_id_name


def write_ensemble(
    path: Any, ensemble: Ensemble, *, format: str | None = None, delimiter: str | None = None, force: bool = False
) -> None:
    """Write the clusterings as a label table that `read_ensemble` reads back as the same ensemble.

    Parameters
    ----------
    path : str or path
        Where to; ``"-"`` is standard output, for text.
    ensemble : Ensemble
        What to write, with its ids and classes (columns ``id`` and ``class``) where it has them. Partitions without
        names of their own (0, 1, 2, ...) are called partition_0 and so on in files that need names.
    format : str or None, default=None
        A name on the page on files; None takes it from the name. A single array holds integers: the labels when they
        are all non-negative integers, else their codes, and −1 for a missing one.
    delimiter : str or None, default=None
        Separator of a text file; None is the usual one of its format.
    force : bool, default=False
        Overwrite an existing file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import coassoc as ca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "labels.csv")
    ...     ca.write_ensemble(path, ca.Ensemble([[0, "a"], [1, None]]))
    ...     path.read_text()
    'partition_0,partition_1\\n0,a\\n1,\\n'
    """
    found = table_format(path, format)
    _check_ids(ensemble.item_ids)
    columns = {name: _partition(ensemble, j) for j, name in enumerate(_names(ensemble, found))}
    classes = None if ensemble.classes is None else _column(ensemble.classes)
    content = Content(columns, ensemble.n_samples, ensemble.item_ids, classes, delimiter)
    _write(path, found, force, lambda target: found.write(target, content))


def write_labels(
    path: Any,
    labels: Any,
    *,
    name: str = "consensus",
    source: Any = None,
    ids: Any = None,
    format: str | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    force: bool = False,
    trusted: bool = False,
) -> None:
    """Write consensus labels: as one more column of the file they came from, or as a table of their own.

    Parameters
    ----------
    path : str or path
        Where to; ``"-"`` is standard output, for text.
    labels : array-like of shape (n_samples,), or dict of str to array-like
        One label per item; −1 is none. A dict holds several columns by name, also of fractions such as a confidence.
    name : str, default="consensus"
        Name of the column; not used with a dict.
    source : str, path or None, default=None
        A file of the same kind, or a folder of such files: everything in it is kept and the column is added, in
        annotated data as a categorical column of ``.obs``. None, or another kind, writes the ids and the labels.
    ids : array-like or None, default=None
        Names of the items, written beside the labels when there is no `source`.
    format : str or None, default=None
        A name on the page on files; None takes it from the name.
    header : bool or None, default=None
        Whether `source` has a header, see :func:`read_ensemble`.
    delimiter : str or None, default=None
        Separator of text, in `source` and in what is written; None finds that of `source` by looking.
    force : bool, default=False
        Overwrite an existing file, and in annotated data an existing column.
    trusted : bool, default=False
        Read `source` in this process, see :func:`read_ensemble`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import coassoc as ca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "consensus.csv")
    ...     ca.write_labels(path, [0, 0, 1], ids=["a", "b", "c"])
    ...     path.read_text()
    'id,consensus\\na,0\\nb,0\\nc,1\\n'
    """
    given = {key: np.asarray(one) for key, one in (labels if isinstance(labels, dict) else {name: labels}).items()}
    shapes = {one.shape for one in given.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise ValueError(f"labels must be one-dimensional and of one length, got shapes {sorted(shapes)}.")
    (n_rows,) = shapes.pop()
    found = table_format(path, format, source)
    if found.one_array and len(given) > 1:
        raise ValueError(f"labels: {found.name} files hold one column; end the name in one of {endings(several())}.")
    columns = given if found.one_array else {key: _column(one) for key, one in given.items()}
    if joins_source(path, source, format):
        files, origin = find_format(Path(source))
        options = Options(delimiter=delimiter, header=header, trusted=trusted)
        new = pa.table(Content(columns, n_rows).arrow(cells=found.is_text))
        append = partial(append_guarded, found) if origin.guarded and not trusted else found.append
        with naming(Path(source)):
            _write(path, found, force, lambda target: append(files, target, new, options, force))
        return
    item_ids = None if ids is None else np.asarray(ids)
    if item_ids is not None and len(item_ids) != n_rows:
        raise ValueError(f"ids must have one entry per label ({n_rows}), got {len(item_ids)}.")
    _check_ids(item_ids)
    content = Content(columns, n_rows, item_ids, delimiter=delimiter)
    _write(path, found, force, lambda target: found.write(target, content))


# -- how it is written ---------------------------------------------------------------------------------------------


def _write(path: Any, found: Format, force: bool, write: Callable[[Any], None]) -> None:
    """Write to a file (text is compressed when its name ends in .gz) or to standard output."""
    if str(path) == "-":
        if not found.is_text:
            raise ValueError(f"{found.name} cannot go to standard output; name a file, or choose csv or tsv.")
        text = io.BytesIO()
        write(text)
        sys.stdout.write(text.getvalue().decode())
        sys.stdout.flush()
        return
    with replacing(path, force=force) as partial:
        if not found.is_text:
            write(partial)
            return
        with (gzip.open if str(path).endswith(".gz") else open)(partial, "wb") as out:
            write(out)


def _check_ids(ids: Any) -> None:
    """Refuse ids that no reader would take back."""
    for i, item in enumerate(ids.tolist() if ids is not None and ids.dtype.kind in "OUS" else ()):
        if item is None or item == "":
            raise ValueError(f"ids must not be empty, but that of item {i} is; give every item a short name.")


def _names(ensemble: Ensemble, found: Format) -> list[str]:
    """Names of the columns; refuses names that a reader would take for something else."""
    names = list(ensemble.names)
    wrong = {name for name in names if names.count(name) > 1}
    if not found.one_array:
        if names == [str(j) for j in range(len(names))]:
            return [f"partition_{name}" for name in names]
        wrong |= {name for name in names if name in ("", "item_ids") or is_class_name(name) or "\x00" in name}
        wrong |= set(class_names(names)) | ({"id"} & set(names) if ensemble.item_ids is not None else set())
        wrong |= {name for name in names[:1] if is_id_name(name)} if ensemble.item_ids is None else set()
    if wrong:
        raise ValueError(f"names must differ, and must not be read as ids or classes: rename {listing(sorted(wrong))}.")
    return names


def _partition(ensemble: Ensemble, j: int) -> Dictionary:
    """A partition as labels; clusters of missing labels, which have no label of their own, get a number."""
    labels = ensemble.categories[j].tolist()
    known = {str(label) for label in labels}
    fresh = (i for i in range(2 * len(labels)) if str(i) not in known)
    labels = [next(fresh) if label is None or label != label else label for label in labels]
    return Dictionary(ensemble.partition(j).astype(np.int32), label_array(labels))


def _column(values: np.ndarray) -> Any:
    """A column of numbers as it is, any other with each different label once."""
    return values if values.dtype.kind in "iufb" else encode_column(values, None, "", "nan")


# -- by the workers of a cluster -----------------------------------------------------------------------------------


def write_parts(folder: Any, columns: dict[str, Any], ensemble: Any) -> None:
    """Write the columns, one file for each block of rows, in row order; fractions are rounded to 4 digits.

    Columns are Dask arrays. The ids of an ensemble in a file are read again by the workers. An array in this process
    is sent. Each worker must see `folder` under this name.
    """
    sizes = next((column.chunks for column in columns.values() if is_dask(column)), (tuple(ensemble.block_sizes),))
    ids, ends = _ids_of_blocks(ensemble, sizes[0]), np.cumsum(sizes[0])[:-1]
    blocks = [
        column.rechunk(sizes).to_delayed().tolist() if is_dask(column) else np.split(column, ends)
        for column in columns.values()
    ]
    with new_folder(folder) as partial:
        paths = [partial.resolve() / f"part-{i:05}.parquet" for i in range(len(ids))]
        names = [[ensemble.id_column, *columns]] * len(ids)
        on_blocks(_write_part, map(str, paths), names, ids, *blocks)
        absent = [path.name for path in paths if not path.exists()]
        if absent:
            raise FileNotFoundError(f"the workers did not write to {str(folder)!r} as seen here; name a shared folder.")


def _ids_of_blocks(ensemble: Any, sizes: Sequence[int]) -> list[Any]:
    """The ids of each block of labels, or the blocks of the file that hold them, or None."""
    name = ensemble.id_column
    if name is None:
        return [None] * len(sizes)
    if ensemble.source.n_rows is None:  # text, which is not read in pieces
        return np.split(ensemble.item_ids, np.cumsum(sizes)[:-1])
    blocks = [replace(block, columns=(name,)) for block in ensemble.source.blocks]
    cuts = np.searchsorted(np.cumsum([0, *(block.rows for block in blocks)]), np.cumsum([0, *sizes]))
    return [blocks[first:last] for first, last in pairwise(cuts.tolist())]


def _write_part(path: str, names: Sequence[str], ids: Any, *values: np.ndarray) -> None:
    rounded = [value.astype(float).round(4) if value.dtype.kind == "f" else value for value in values]
    columns = dict(zip(names[1:], map(arrow_array, rounded)))
    if isinstance(ids, list):
        ids = np.concatenate([ids_in(batch, names[0]) for block in ids for batch in batches_in(block)])
    if ids is not None:
        columns = {names[0]: pa.array(ids), **columns}
    pq.write_table(pa.table(columns), path)


# -- whole or absent ------------------------------------------------------------------------------------------------


def check_outputs(
    outputs: Mapping[str, Any], inputs: Iterable[Any] = (), *, force: bool = False, folders: Collection[str] = ()
) -> None:
    """Check the output paths of a command, by option (``"--save"``), against its inputs and against each other.

    None and ``"-"``, a standard stream, are skipped. Existing files may be replaced with `force`, inputs never. The
    options `folders` name new folders.
    """
    read = [source for source in inputs if source is not None and str(source) != "-"]
    before: dict[str, Any] = {}
    for option, path in outputs.items():
        if path is None or str(path) == "-":
            continue
        for source in read:
            if _same_file(path, source):
                raise ValueError(f"{option} {path} is also an input, which it would replace; choose another name.")
            if os.path.isdir(source) and _real(source) in _real(path).parents:
                raise ValueError(f"{option} {path} lies in the input folder {source}, as data; choose another folder.")
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
    """Refuse an output that exists (unless `force`), is not a regular file, or is where no file can be written."""
    if not str(path):
        raise ValueError("the name of an output file must not be empty.")
    target, folder = Path(path), _real(path).parent
    try:
        mode = os.stat(target).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir():
            missing = f"there is no folder {str(target.parent)!r}; create it first"
            raise FileNotFoundError(f"{target} cannot be written: {missing}.") from None
    else:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(target))
        if not stat.S_ISREG(mode):
            raise ValueError(f"{target} is not a regular file; name one, or - for standard output.")
        if not force:
            raise FileExistsError(f"{target} already exists; choose another name, or pass force=True (--force).")
    for place in (target, folder):
        if place.exists() and not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, "no permission to write", str(place))


@contextmanager
def replacing(path: Any, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to `path` at the end, or delete it after an error.

    A link is followed. A replaced file keeps its mode. An existing file is refused unless `force`.
    """
    check_writable(path, force=force)
    target = _real(path)
    partial = _temporary(target)
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode) if target.exists() else None
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else 0o600))
        if mode is not None:  # from the start, so that the content is never more readable than in the end
            os.chmod(partial, mode)
        yield partial
        with open(partial, "r+b") as written:  # Windows flushes files that are open for writing only
            os.fsync(written.fileno())
        check_writable(path, force=force)  # another process may have made the file meanwhile
        os.replace(partial, target)
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


def _real(path: Any) -> Path:
    return Path(os.path.realpath(path))


def _same_file(first: Any, second: Any) -> bool:
    """Whether two paths name one file, through links, and for files to come also in another case."""
    if os.path.exists(first) or os.path.exists(second):
        return os.path.exists(first) and os.path.exists(second) and os.path.samefile(first, second)
    return str(_real(first)).casefold() == str(_real(second)).casefold()
