"""find the consensus of the clusterings in a label table, and write it back as one more column.

Without -k and -m the method and the number of clusters are chosen, and the first lines say how reliable the
result is. Without --output the scores are printed and nothing is written.

examples:
  coassoc fit labels.csv
  coassoc fit labels.csv --confidence -o with-consensus.csv
  coassoc fit labels.csv -k 2:12 -o with-consensus.csv
  coassoc fit labels.csv -k 10 -m kmeans -o with-consensus.csv
  coassoc fit run1.csv run2.csv run3.csv --id cell -k 8 -o consensus.csv
  coassoc fit cells.h5ad --columns 'leiden*' -k 12 -o cells-consensus.h5ad
  coassoc fit big.parquet -k 50 --memory 2GB -o consensus.parquet
  coassoc fit big.parquet -k 50 --dask tcp://host:8786 -o consensus.parquet
  coassoc fit big/ -k 50 --dask tcp://host:8786 -o consensus/
  cat labels.csv | coassoc fit - -k 10 -o - > with-consensus.csv
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.counts import cluster_densities, density_from_counts
from ..engines import Dask, Stream, resolve
from ..engines.cluster import on_blocks, open_client
from ..engines.memory import available_bytes
from ..ensemble import StoredEnsemble, write_labels
from ..ensemble.io.coding import is_dask
from ..ensemble.io.formats import format_called, joins_source, several, table_format
from ..ensemble.io.writing import write_parts
from ..metrics import nmi
from ..metrics.labels import check_labels, count_labels, ranks_by_size
from ..metrics.scores import mean_nmi
from ..report import plain_text
from . import Progress, common, note

_PART_ROWS = 1 << 20  # labels that are numbered at a time
_LOCAL_ENGINES = ("auto", "native", "numpy")  # engines that work on a chunk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    common.add_input(parser)
    common.add_method(parser)
    option("--n-init", type=common.positive, metavar="N", help="restarts of the method")
    option("--min-cluster-size", type=common.positive, metavar="N",
           help="smaller groups join the nearest cluster (default: 1)")  # fmt: skip
    common.add_seed_and_engine(parser)
    common.add_output(parser, "where the consensus goes: the input with one more column when both are of one kind, "
                      "else ids and labels; - is standard output; with --dask or --jobs, a folder/ of Parquet files "
                      "that the workers write")  # fmt: skip
    option("--name", default="consensus", help="name of the new column (default: consensus)")
    option("--order", choices=("method", "size"), default="size", help="number clusters by size, largest 0 (default)")
    option("--confidence", action="store_true",
           help="also write the confidence of each item, in a column NAME_confidence")  # fmt: skip
    option("--save", metavar="FILE", help="also save the fitted model (.skops), for coassoc.load")
    scale = parser.add_argument_group("scale (files larger than memory, and folders of files)")
    group = scale.add_mutually_exclusive_group()
    group.add_argument("--memory", metavar="SIZE", help="leave labels in the file; memory for the rest, such as 2GB")
    common.add_jobs(group, "start a Dask cluster of N processes here", None)
    group.add_argument("--dask", metavar="ADDRESS", help="use a running Dask cluster, such as tcp://host:8786")


def run(args: argparse.Namespace) -> None:
    _check_outputs(args)
    start = time.perf_counter()
    with common.input_paths(args) as paths, Progress("coassoc fit") as progress:
        progress.step("reading")
        with _opened(args, paths) as (ensemble, engine, stored):
            _check_name(args, paths, ensemble)
            read = time.perf_counter()
            progress.step(f"{args.method} on {ensemble.n_samples:,} items")
            model = fit(args, ensemble, engine)
            labels, order = numbered(model, args.order)
            seconds = {"read": round(read - start, 4), "fit": round(time.perf_counter() - read, 4)}
            result = summary(args, ensemble, model, labels, order, engine)
            if not stored and ensemble.classes is not None:  # a stored column of classes may not fit in memory
                result["scores"]["class_nmi"] = nmi(ensemble.classes, labels)
            result |= {"seconds": seconds, "output": args.output, "column": args.name if args.output else None}
            if args.output is not None:
                progress.step("writing")
                result |= {"confidence_column": f"{args.name}_confidence"} if args.confidence else {}
                _write(args, paths, labels, model, ensemble)
            if args.save is not None:
                model.save(args.save, force=args.force)
                result["saved"] = args.save
    if stored:
        result["engine"] = repr(engine)
    if result["chance"] is not None and not result["chance"]["exceeded"]:
        note(result["chance"]["warning"], "warning")
    common.tell(args, result, _text(result), args.output)


def _check_outputs(args: argparse.Namespace) -> None:
    from ..consensus.persist import check_model_path

    folder = writes_folder(args)
    common.check_paths(args, {"-o": args.output, "--save": args.save}, folders=["-o"] * folder)
    if args.output is not None and not folder and table_format(args.output).one_array and args.confidence:
        able = ", ".join(known.name for known in several())
        raise ValueError(f"--confidence needs an output of several columns ({able}), got {args.output}.")
    if args.confidence and args.method.lower() not in ("auto", "consensus"):
        raise ValueError(f"--confidence needs -m auto, got -m {args.method}.")
    if args.save is not None:
        check_model_path(args.save)


def writes_folder(args: argparse.Namespace) -> bool:
    """Whether the workers of a cluster write the labels, in parts, to a folder."""
    on_cluster = args.dask is not None or args.jobs is not None
    slash = args.output is not None and args.output.endswith(("/", os.sep))
    if slash and not on_cluster:
        raise ValueError(f"-o {args.output} is a folder, which the workers of a cluster write; name a file, or add "
                         "--dask or --jobs.")  # fmt: skip
    return slash or (on_cluster and args.output is not None and os.path.isdir(args.output))


def _check_name(args: argparse.Namespace, paths: list[Path], ensemble: Any) -> None:
    """Refuse a name of the new column that the output will have already, before the fit."""
    if args.output is None or len(paths) != 1 or writes_folder(args) or not joins_source(args.output, paths[0]):
        return
    replaced = table_format(args.output).replaces and args.force
    if args.name in (*ensemble.names, *args.exclude, args.class_column) and not replaced:
        raise ValueError(f"{args.labels[0]} already has a column {args.name!r}; choose another name with --name.")


# -- files larger than memory: labels are read in blocks, here or on a Dask cluster ------------------------------


@contextmanager
def _opened(args: argparse.Namespace, paths: list[Path]) -> Iterator[tuple[Any, Any, bool]]:
    """The ensemble, the engine for it, and whether it was left in its file: when scale was asked for, or when the
    table would fill half of the free memory."""
    asked = [option for option in ("memory", "jobs", "dask") if getattr(args, option) is not None]
    if asked and len(paths) > 1:
        raise ValueError("--memory, --jobs and --dask take one file or folder, got several.")
    file = common.open_input(args, paths[0]) if len(paths) == 1 else None
    fits = file is None or args.missing == "singletons" or file.bytes_in_memory <= available_bytes() // 2
    if not asked and fits:
        in_memory = common.read_input(args, paths) if file is None else common.noted(args, file.ensemble(args.missing))
        yield in_memory, args.engine, False
        return
    local = args.engine in _LOCAL_ENGINES
    if asked and not local:
        raise ValueError(f"--engine with --{asked[0]} must be one of {', '.join(_LOCAL_ENGINES)}, got {args.engine!r}.")
    with open_client(args.dask, args.jobs) as client:
        if client is not None:
            engine: Any = Dask(client, worker_engine=args.engine)
        elif local:
            engine = Stream(args.memory or available_bytes() // 2, local=args.engine)
        else:
            engine = resolve(args.engine)
        yield StoredEnsemble(file, missing=args.missing), engine, True


# -- the consensus -----------------------------------------------------------------------------------------------


def fit(args: argparse.Namespace, ensemble: Any, engine: Any) -> Any:
    """The fitted estimator."""
    from ..consensus.base import fit_to
    from ..consensus.registry import make_method

    settings = {"n_init": args.n_init, "random_state": args.seed, "min_cluster_size": args.min_cluster_size}
    model = make_method(args.method, n_clusters=common.clusters_for(args), **settings, engine=engine)
    if args.min_cluster_size is not None and not hasattr(model, "min_cluster_size"):
        raise ValueError(f"--min-cluster-size: {args.method} has no such setting; use -m auto, average or lwea.")
    if args.save is not None and not hasattr(model, "save"):
        raise ValueError(f"--save: {args.method} cannot be saved; a class derived from ConsensusEstimator can.")
    return fit_to(model, ensemble)


def numbered(model: Any, order: str) -> tuple[Any, np.ndarray]:
    """Labels under the numbers asked for, which stay on a cluster; the cluster behind each number."""
    from ..consensus.base import ConsensusEstimator, look_up

    fitted = model.labels_
    if isinstance(model, ConsensusEstimator):
        k = len(model.cluster_sizes_)
    else:  # an estimator of the user's own may name clusters as it likes
        fitted, k = check_labels(fitted, len(fitted))
    if order != "size":
        return fitted, np.arange(k)
    if is_dask(fitted):  # counted by the workers
        blocks = fitted.to_delayed()
        ranks = ranks_by_size(on_blocks(count_labels, blocks, [k] * len(blocks)), k)
        labels = look_up(ranks, fitted)
    else:
        parts = np.array_split(np.asarray(fitted), len(fitted) // _PART_ROWS + 1)
        ranks = ranks_by_size((count_labels(part, k) for part in parts), k)
        labels = np.concatenate([ranks[part] for part in parts])
    used = np.flatnonzero(ranks[:k] >= 0)
    return labels, used[np.argsort(ranks[used])]


def _write(args: argparse.Namespace, paths: list[Path], labels: Any, model: Any, ensemble: Any) -> None:
    """The labels, and the confidence where asked for, beside the content of a single input of the same kind."""
    columns = {args.name: labels} | ({f"{args.name}_confidence": model.confidence_} if args.confidence else {})
    if writes_folder(args):
        write_parts(args.output, columns, ensemble)
        return
    if args.confidence:
        columns[f"{args.name}_confidence"] = np.asarray(model.confidence_, dtype=float).round(4)
    source = paths[0] if len(paths) == 1 else None
    kind = args.format if args.output == "-" and args.format and format_called(args.format).is_text else None
    ids = None if joins_source(args.output, source, kind) else ensemble.item_ids
    write_labels(args.output, columns, source=source, ids=ids, format=kind, header=args.header,
                 delimiter=args.delimiter, force=args.force, trusted=args.trusted)  # fmt: skip


def summary(
    args: argparse.Namespace, ensemble: Any, model: Any, labels: Any, order: Any, engine: Any
) -> dict[str, Any]:
    """What the command reports, as plain values."""
    from ..consensus.auto.chance import support_and_scores
    from ..consensus.base import fitted_counts

    counts = fitted_counts(model, ensemble, labels, order, engine)
    support, zero_nmi, zero_density = support_and_scores(ensemble, engine)
    if hasattr(model, "p_value_"):  # tested on a sample of many items; say what the verdict says
        support = replace(support, supported=model.supported_, p_value=model.p_value_)
    equal = np.ones(ensemble.n_partitions)
    result = {
        "input": [str(path) for path in args.labels],
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        "base_clusters": [int(ensemble.n_clusters.min()), int(ensemble.n_clusters.max())],
        "columns": ensemble.names,
        "missing_labels": ensemble.has_missing,
        "method": type(model).__name__,
        "parameters": {k: v for k, v in model.get_params(deep=False).items() if isinstance(v, (int, float, str))},
        "clusters": len(counts.sizes),
        "unlabelled_items": int(np.count_nonzero(labels < 0)),
        "scores": {
            "density": density_from_counts(counts, equal),
            "ensemble_nmi": mean_nmi(counts, equal),
            "zero_effort_nmi": zero_nmi._asdict(),
            "zero_effort_density": zero_density._asdict(),
        },
        "chance": support.as_dict() if ensemble.n_partitions > 1 else None,
    }
    if hasattr(model, "verdict_"):
        shown = ("method", "agreement", "stability", "distance")
        others = [{"clusters": a.n_clusters} | {name: getattr(a, name) for name in shown} for a in model.alternatives_]
        result |= {"verdict": model.verdict_, "supported": model.supported_, "chosen_method": model.method_}
        result |= {"partition_weights": model.partition_weights_.tolist(), "alternatives": others}
    sizes, densities = counts.sizes.tolist(), cluster_densities(counts, equal).tolist()
    return {**result, "cluster_sizes": sizes, "cluster_density": densities}


def _text(result: dict[str, Any]) -> str:
    scores, sizes, columns = result["scores"], result["cluster_sizes"], result["columns"]
    low, high = result["base_clusters"]
    clusterings = f"{result['partitions']} clustering{'s' * (result['partitions'] != 1)}"
    head = f"{result['items']:,} items, {clusterings} of {plain_text.span(low, high)} clusters"
    names = ", ".join(columns[:8]) + (f" and {len(columns) - 8} more" if len(columns) > 8 else "")
    row = {name: {**result, **scores}[name] for name in ("method", "clusters", "density", "ensemble_nmi")}
    row["seconds"] = result["seconds"]["fit"]
    single = {"density": scores["zero_effort_density"], "ensemble_nmi": scores["zero_effort_nmi"]}
    lines = [
        head + (", some labels missing" if result["missing_labels"] else ""),
        f"clusterings: {names} (choose others with --columns, --exclude)",
        *([result["verdict"]] if "verdict" in result else []),
        f"\n{plain_text.scores_table([row], single, f'{low}' if low == high else f'{low}–{high}')}\n",
    ]
    if scores["ensemble_nmi"] < scores["zero_effort_nmi"]["best"] and result.get("supported", True):
        lines.append(
            "The best single clustering agrees more with the others than this consensus does"
            + (": with fewer clusters it agrees less; coassoc report compares at the same number."
               if result["clusters"] < low
               else ": consider another number of clusters (-k) or another method (-m).")
        )  # fmt: skip
    shown = ", ".join(map(str, sizes[:12])) + (", ..." if len(sizes) > 12 else "")
    lines.append(f"{len(sizes)} cluster{'s' if len(sizes) != 1 else ''} of {shown} items.")
    if result["unlabelled_items"]:
        lines.append(f"{result['unlabelled_items']} items have no label in any clustering and get -1.")
    if "class_nmi" in scores:
        lines.append(f"NMI with the known classes: {scores['class_nmi']:.4f} (density does not measure this).")
    if "engine" in result:
        lines.append(f"Read in pieces with {result['engine']}.")
    if result["output"] is None:
        lines.append("Nothing was written; add -o FILE to keep the labels.")
    else:
        more = f"s {result['column']!r} and {result.get('confidence_column')!r}"
        written = more if "confidence_column" in result else f" {result['column']!r}"
        lines.append(f"Wrote column{written} to {result['output']}.")
    if "saved" in result:
        lines.append(f"Saved the model to {result['saved']}.")
    return "\n".join(lines)
