"""The report page: the numbers of `summary` in one self-contained HTML file, drawn there by Apache ECharts."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..consensus.auto.estimator import SURE
from ..engines.config import version_of
from ..ensemble.io.output import check_writable, replacing
from ..metrics.counting import contingency
from . import plain_text
from .summary import Summary, summarize

_MOST_ROWS = 2000  # of tables other than that of the items
_MOST_DRAWN = 200  # clusterings in the agreement picture
_MOST_CLASSES = 100  # rows and columns of the table of classes


def write_report(
    X: Any, n_clusters: int | None = None, *, path: Any = None, force: bool = False, **settings: Any
) -> str | Path:
    """Write one self-contained HTML page about an ensemble and its consensus.

    Parameters
    ----------
    X : Ensemble, label table of shape (n_samples, n_partitions), or path of a label file
        The base partitions.
    n_clusters : int or None, default=None
        Clusters of the consensus; None lets the method choose.
    path : str, path or None, default=None
        Where to write; None returns the page as text.
    force : bool, default=False
        Overwrite an existing file.
    **settings
        Those of :func:`coassoc.summarize`: ``labels``, ``method``, ``features``, ``compare``, ``title``,
        ``random_state``, ``engine`` and others.

    Returns
    -------
    str or Path
        The page, or where it was written.

    Notes
    -----
    The page needs no network and stays under 5 MB whatever the number of items: the co-association is shown as block
    means, and the table of items holds the least certain ones and a sample. Time is linear in the number of items.

    Examples
    --------
    >>> import coassoc as ca
    >>> page = ca.report.write_report([[0, 1], [0, 1], [1, 0], [1, 0]], 2, random_state=0)
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
    environment.filters.update(num=plain_text.number, seconds=plain_text.seconds, pct=_percent, count="{:,}".format)
    return environment.get_template("page.html").render(
        s=summary,
        version=version_of("coassoc"),
        library=files("coassoc.report").joinpath("assets/echarts.min.js").read_text(encoding="utf-8"),
        data=_data_script({"tables": tables(summary), "facts": _facts(summary)}),
        findings=findings(summary),
        sure=SURE,
    )


def findings(s: Summary) -> list[tuple[str, str]]:
    """What else there is to know, as (kind, sentence); kind is good, note or warn."""
    sentences = []
    facts, supported = s.consensus, s.consensus["supported"]
    suggested = s.number["suggested"]
    if s.confidence is None:
        text = (
            f"The verdict is that of Consensus on these clusterings. The labels below are others ({facts['method']}); "
            f"their adjusted Rand index with its answer is {1 - s.alternatives[0]['distance']:.3f}."
        )
        sentences.append(("note", text))
    if suggested and facts["n_clusters"] not in (suggested, *s.number["runners_up"]):
        text = f"This consensus has {facts['n_clusters']} clusters; the clusterings suggest {suggested}."
        sentences.append(("warn", text))
    if supported and facts["left_out"] is not None:
        sentences += _against_members(s)
    sure, pac = facts["sure_share"], s.distribution.pac
    if supported and sure is not None and sure > 0.5 and pac > 0.3:
        text = (
            f"{_percent(sure)} of the items are surely placed, though {_percent(pac)} of the pairs are together in "
            "some clusterings only. Both can hold: clusterings with other numbers of clusters divide or join whole "
            "groups, which changes pairs but not where an item belongs."
        )
        sentences.append(("note", text))
    elsewhere = float((s.stability.margin <= 0)[s.labels >= 0].mean())
    if supported and facts["n_clusters"] > 1 and elsewhere > 0:
        text = f"{_percent(elsewhere)} of the items are together with another cluster at least as often as with theirs."
        sentences.append(("warn" if elsewhere > 0.1 else "note", text))
    outliers = s.partitions["partition"][s.partitions["outlier"]].tolist()
    if outliers:
        more = f" and {len(outliers) - 5} more" if len(outliers) > 5 else ""
        sentences.append(("warn", f"Clusterings that agree far less with the others: {', '.join(outliers[:5])}{more}."))
    if s.input["missing_share"] > 0:
        share = _percent(s.input["missing_share"])
        sentences.append(("note", f"{share} of the labels are missing; a pair counts where both items are labelled."))
    if facts["unlabelled"]:
        sentences.append(("note", f"Items without a label, which take no part: {facts['unlabelled']:,}."))
    return sentences


def _against_members(s: Summary) -> list[tuple[str, str]]:
    """Consensus and single clusterings, scored on clusterings left out, at the same number of clusters."""
    matched = s.consensus["left_out"].get("matched")
    if matched is None:
        return []
    better = matched["consensus"] >= matched["member"]
    text = (
        f"Against the best single clustering (“{matched['name']}”, {matched['k']} clusters): consensuses of "
        f"{matched['k']} clusters, each made from half of the clusterings, agree with the other half by NMI "
        f"{matched['consensus']:.3f}; that clustering agrees with the others by {matched['member']:.3f}, a single "
        f"clustering on average by {s.consensus['left_out']['mean']:.3f}."
    )
    return [("good" if better else "warn", text + ("" if better else " By this measure the consensus gains nothing."))]


# -- numbers behind the pictures -------------------------------------------------------------------------------


def tables(s: Summary) -> dict[str, dict[str, Any]]:
    """Every table and picture as columns and rows, for the page to show, draw and download."""
    margin, drawn = s.stability.margin[s.labels >= 0], s.partitions["partition"][:_MOST_DRAWN].tolist()
    by_name = {
        "clusterings": _table(s.partitions, _MOST_ROWS),
        "clusters": _table(s.clusters, _MOST_ROWS),
        "margins": _histogram(margin, np.linspace(-1, 1, 41)),
        "items": _table(s.items),
        "pairs": _table({"co-association": s.distribution.grid, "share of pairs": s.distribution.cdf}),
        "methods": _rows([{**row, "peak_bytes": None} for row in s.comparison]),
        "alternatives": _rows(s.alternatives),
        "k": _table(s.number["curves"]),
        **{f"flow {name}": _flow(columns) for name, columns in s.flows.items()},
        "coassociation": _matrix("block", [f"block {i}" for i in range(len(s.blocks.sizes))], s.blocks.values),
        "agreement": _matrix("clustering", drawn, s.agreement[:, :_MOST_DRAWN]),
    }
    if s.confidence is not None:
        by_name["confidence"] = _histogram(s.confidence[s.labels >= 0], np.linspace(0, 1, 21))
    if s.features_k is not None:
        by_name["k of features"] = _table({"ks": s.features_k.ks, **s.features_k.curves, "score": s.features_k.score})
    if s.classes is not None:
        names, counts = s.classes
        most = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:_MOST_CLASSES])
        by_name["classes"] = {
            "columns": ["class", *(str(c) for c in range(min(counts.shape[1], _MOST_CLASSES)))],
            "rows": [[names[i], *counts[i, :_MOST_CLASSES].tolist()] for i in most.tolist()],
        }
    if s.tree is not None:
        keys = ("node", "parent", "left", "right", "rank", "size", "density", "gain")
        by_name["tree"] = _table({key: s.tree[key] for key in keys})
        by_name["cuts"] = _table({"k": range(1, len(s.tree["density_at"]) + 1), "density": s.tree["density_at"]})
    return by_name


def _table(columns: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    rows = [list(map(_rounded, row)) for row in zip(*(values[:most] for values in columns.values()))]
    return {"columns": [name.replace("_", " ") for name in columns], "rows": rows}


def _rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns without any value are left out."""
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    return _table({name: [row[name] for row in rows] for name in names})


def _histogram(values: np.ndarray, edges: np.ndarray) -> dict[str, Any]:
    return _table({"from": edges[:-1], "to": edges[1:], "items": np.histogram(values, bins=edges)[0]})


def _matrix(name: str, names: list[str], values: np.ndarray) -> dict[str, Any]:
    return {"columns": [name, *names], "rows": [[n, *np.round(row, 3).tolist()] for n, row in zip(names, values)]}


def _flow(columns: list[tuple[str, np.ndarray]]) -> dict[str, Any]:
    """How many items go from a cluster of each partition to a cluster of the next."""
    rows = []
    for (first, a), (second, b) in pairwise(columns):
        counts = contingency(a, b)
        rows += [[first, i, second, j, int(counts[i, j])] for i, j in np.argwhere(counts).tolist()]
    return {"columns": ["from", "cluster", "to", "in cluster", "items"], "rows": rows}


def _facts(s: Summary) -> dict[str, Any]:
    """What the pictures need beyond the tables."""
    blocks = s.blocks
    return {
        "k": s.consensus["n_clusters"],
        "suggested": s.number["suggested"],
        "runners_up": s.number["runners_up"],
        "cut": None if s.tree is None else s.tree["cut"],
        "blocks": {"clusters": blocks.clusters.tolist(), "sizes": blocks.sizes.tolist(), "names": s.block_names},
    }


def _data_script(data: Any) -> str:
    # "</script>" inside a name must not end the script
    return json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _rounded(value: Any) -> Any:
    """Six significant digits; NaN is absent."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else ""
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"
