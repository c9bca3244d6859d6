"""The report page: numbers from `summary` and pictures from `charts` in one self-contained HTML file."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..ensemble.io.output import check_writable, replacing
from . import charts, plain_text
from .png import heat_map_png, png_uri
from .summary import Summary, summarize

_MOST_ROWS = 500  # of any table in the page
_MOST_SAVED = 5000  # rows of any downloadable table
_MOST_PARTITIONS = 200  # rows of the agreement picture


def write_report(
    X: Any, n_clusters: int | None = None, *, path: Any = None, force: bool = False, **settings: Any
) -> str | Path:
    """Write one self-contained HTML page about an ensemble and its consensus.

    Parameters
    ----------
    X : Ensemble, label table of shape (n_samples, n_partitions), or path of a label file
        The base partitions.
    n_clusters : int or None, default=None
        Clusters of the consensus; None is 8, or those of ``labels=``.
    path : str, path or None, default=None
        Where to write; None returns the page as text.
    force : bool, default=False
        Overwrite an existing file.
    **settings
        Those of :func:`coassoc.report.summarize`: ``labels``, ``method``, ``features``, ``compare``, ``title``,
        ``random_state``, ``engine`` and others.

    Returns
    -------
    str or Path
        The page, or where it was written.

    Notes
    -----
    The page needs no network and stays under 5 MB whatever the number of items: the co-association is shown as block
    means. Time is linear in the number of items.

    Examples
    --------
    >>> import coassoc as ca
    >>> page = ca.report([[0, 1], [0, 1], [1, 0], [1, 0]], 2, random_state=0)
    >>> page.startswith("<!doctype html>")
    True
    """
    if path is not None:
        check_writable(path, force=force)
    page = render(summarize(X, n_clusters, **settings))
    if path is None:
        return page
    target = Path(path)
    with replacing(target, force=force) as partial:
        partial.write_text(page, encoding="utf-8")
    return target


def render(summary: Summary) -> str:
    """The page of a summary."""
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError:
        raise ImportError("reports need jinja2: pip install 'coassoc[report]'.") from None
    environment = Environment(
        loader=PackageLoader("coassoc.report", "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        num=lambda value, digits=3: plain_text.number(value, digits),
        pct=_percent,
        seconds=plain_text.seconds,
        count=lambda value: f"{value:,}",
    )
    import coassoc

    return environment.get_template("page.html").render(
        s=summary,
        version=coassoc.__version__,
        pictures=_pictures(summary),
        data=_data_script(tables(summary)),
        matrix=_matrix_script(summary),
        verdict=verdict(summary),
        most_rows=_MOST_ROWS,
        certain_share=None if _by_chance(summary) else _certain_share(summary),
    )


def _pictures(s: Summary) -> dict[str, Any]:
    counts, edges = charts.stability_histogram(s.stability.own, s.stability.other, s.labels)
    agreement, _ = _agreement(s)
    return {
        "clusters": charts.clusters_chart(s.clusters),
        "coassociation": png_uri(heat_map_png(s.blocks.values)),
        "tree": charts.tree_chart(s.tree) if s.tree else None,
        "density_by_k": charts.density_by_k_chart(s.tree) if s.tree else None,
        "stability": charts.stability_chart(counts, edges),
        "agreement": png_uri(heat_map_png(agreement)),
        "cdf": charts.cdf_chart(s.distribution),
        "over_k": charts.over_k_charts(s.over_k) if s.over_k else [],
        "comparison": charts.comparison_chart(s.comparison) if len(s.comparison) > 1 else None,
    }


def _by_chance(s: Summary) -> str | None:
    """The warning when the partitions agree no more than chance."""
    return None if s.consensus["chance"] is None else s.consensus["chance"]["warning"]


def verdict(s: Summary) -> list[tuple[str, str]]:
    """The main findings as (kind, sentence); kind is good, note or warn."""
    found = []
    by_chance = _by_chance(s)
    if by_chance:
        found.append(("warn", by_chance[:1].upper() + by_chance[1:]))
    if "verdict" in s.consensus:
        found.insert(0, ("warn" if by_chance else "note", s.consensus["verdict"]))
    mean, best = s.consensus["zero_effort_nmi"]["mean"], s.consensus["zero_effort_nmi"]["best"]
    score = s.consensus["ensemble_nmi"]
    if s.input["n_partitions"] > 1 and score < best - 1e-9:
        text = (
            f"The consensus agrees less with the base partitions (NMI {score:.3f}) than the best of them does "
            f"({best:.3f}): consider taking that one, another method or another k."
        )
        found.append(("warn", text))
    elif s.input["n_partitions"] > 1 and not by_chance:
        text = (
            f"The consensus agrees with the base partitions (NMI {score:.3f}) more than any one of them does "
            f"(best {best:.3f}, mean {mean:.3f})."
        )
        found.append(("good", text))
    present = s.labels >= 0
    ambiguous = float((s.stability.own <= s.stability.other)[present].mean()) if present.any() else 0.0
    if ambiguous > 0:
        text = f"{ambiguous:.1%} of the items are at least as often together with another cluster as with their own."
        found.append(("warn" if ambiguous > 0.1 else "note", text))
    outliers = [s.input["partitions"][j]["name"] for j in np.flatnonzero(s.partitions.outlier)]
    if outliers:
        more = f" and {len(outliers) - 5} more" if len(outliers) > 5 else ""
        found.append(("warn", f"Base partitions that agree far less with the others: {', '.join(outliers[:5])}{more}."))
    if s.input["missing_share"] > 0:
        text = f"{s.input['missing_share']:.1%} of the labels are missing; a pair counts where both items are labelled."
        found.append(("note", text))
    if s.consensus["unlabelled"]:
        found.append(("note", f"{s.consensus['unlabelled']:,} items have no label in any partition and take no part."))
    return found


def _certain_share(s: Summary) -> float:
    """Share of items with a confidence of at least 0.9; without one, of those nearest to their own cluster."""
    if "sure_share" in s.consensus:
        return s.consensus["sure_share"]
    present = s.labels >= 0
    return float((s.stability.own > s.stability.other)[present].mean()) if present.any() else 0.0


# -- numbers behind the pictures -------------------------------------------------------------------------------


def tables(s: Summary) -> dict[str, dict[str, Any]]:
    """Every table and picture as columns and rows, for download."""
    counts, edges = charts.stability_histogram(s.stability.own, s.stability.other, s.labels)
    found = {
        "partitions": _rows(
            [
                {
                    **row,
                    "mean_nmi_with_others": s.partitions.mean[j],
                    "nmi_with_consensus": s.partitions.consensus[j],
                    "outlier": bool(s.partitions.outlier[j]),
                }
                for j, row in enumerate(s.input["partitions"])
            ]
        ),
        "clusters": _rows(s.clusters),
        "stability": _rows([{"from": a, "to": b, "items": int(c)} for a, b, c in zip(edges[:-1], edges[1:], counts)]),
        "uncertain": _rows(s.uncertain),
        "cdf": _rows(
            [{"coassociation": x, "share_of_pairs": y} for x, y in zip(s.distribution.grid, s.distribution.cdf)]
        ),
        "comparison": _rows(s.comparison),
    }
    names = [f"block_{i}" for i in range(len(s.blocks.sizes))]
    found["coassociation"] = {
        "columns": ["block", "cluster", "items", *names],
        "rows": [
            [i, int(s.blocks.clusters[i]), int(s.blocks.sizes[i]), *map(_rounded, s.blocks.values[i])]
            for i in range(len(names))
        ],
    }
    agreement, labels = _agreement(s)
    found["agreement"] = {
        "columns": ["partition", *labels],
        "rows": [[labels[i], *map(_rounded, agreement[i])] for i in range(len(labels))],
    }
    if s.tree is not None:
        keys = ("node", "parent", "left", "right", "rank", "size", "density", "gain")
        found["tree"] = _rows([dict(zip(keys, row)) for row in zip(*(s.tree[key] for key in keys))])
        found["density_by_k"] = _rows([{"k": k, "density": v} for k, v in enumerate(s.tree["density_at"], 1)])
    if s.over_k:
        gains = charts.delta_area(s.over_k)
        found["over_k"] = _rows(
            [
                {"k": c.k, "pac": c.pac, "area": c.area, "relative_change": g, **{f"cdf_{x:.2f}": y for x, y in
                 zip(c.grid, c.cdf)}}
                for c, g in zip(s.over_k, gains)
            ]
        )  # fmt: skip
    return found


def _rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns = list(rows[0]) if rows else []
    return {"columns": columns, "rows": [[_rounded(row[c]) for c in columns] for row in rows[:_MOST_SAVED]]}


def _agreement(s: Summary) -> tuple[np.ndarray, list[str]]:
    """The matrix between partitions, averaged over neighbours when there are very many of them."""
    names = [row["name"] for row in s.input["partitions"]]
    matrix = s.partitions.matrix
    if len(names) <= _MOST_PARTITIONS:
        return matrix, names
    edges = np.linspace(0, len(names), _MOST_PARTITIONS + 1).astype(int)
    sums = np.add.reduceat(np.add.reduceat(matrix, edges[:-1], axis=0), edges[:-1], axis=1)
    means = sums / np.outer(np.diff(edges), np.diff(edges))
    return means, [f"{names[a]} to {names[b - 1]}" for a, b in pairwise(edges.tolist())]


def _data_script(data: Any) -> str:
    # "</script>" inside a name must not end the script
    return json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _matrix_script(s: Summary) -> str:
    """Data of the pictures for the texts shown under the pointer."""
    agreement, names = _agreement(s)
    blocks = s.blocks
    ends = np.cumsum(blocks.sizes)
    labels = []
    for first, last, size, end in zip(blocks.clusters, blocks.last_clusters, blocks.sizes, ends):
        where = f"cluster {first}" if first == last else f"clusters {first} to {last}"
        what = f"items {end - size + 1:,} to {end:,}" if size > 1 else f"item {end:,}"
        labels.append(f"{where}, {what} of the order")
    return _data_script(
        {
            "coassociation": {"labels": labels, "borders": blocks.borders, "n": len(labels)},
            "agreement": {"labels": names, "borders": [], "n": len(agreement)},
        }
    )


def _rounded(value: Any) -> Any:
    """Six significant digits; NaN is absent."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"
