"""The report page: the numbers of `summary` in one self-contained HTML file, drawn there by Apache ECharts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..consensus.auto.verdict import STABLE, SURE, UNSTABLE
from ..engines.config import version_of
from ..ensemble.io.writing import check_writable, replacing
from ..metrics.labels import contingency
from . import plain_text
from .summary import Summary, summarize

_MOST_ROWS = 2000  # of tables other than that of the items
_MOST_DRAWN = 200  # clusterings in the agreement picture
_MOST_CLASSES = 100  # rows and columns of the table of classes
_TOLD = 5  # features that the profile of a cluster names
_MOST_FEATURES = 25  # columns of the picture of the profile


def write_report(
    X: Any, n_clusters: int | None = None, *, path: Any = None, force: bool = False, **settings: Any
) -> str | Path:
    """Write one self-contained HTML page about an ensemble and its consensus.

    Parameters
    ----------
    X : Ensemble, label table of shape (n_samples, n_partitions), or path of a label file
        The clusterings.
    n_clusters : int or None, default=None
        Clusters of the consensus; None lets the method choose.
    path : str, path or None, default=None
        Where to write; None returns the page as text.
    force : bool, default=False
        Overwrite an existing file.
    **settings
        Those of :func:`coassoc.summarize`: ``labels``, ``method``, ``features``, ``title``, ``random_state``,
        ``engine`` and others.

    Returns
    -------
    str or Path
        The page, or where it was written.

    Notes
    -----
    The page needs no network and stays under 5 MB whatever the number of items: the co-association is shown as block
    means, and the table of items holds the least certain ones. Time is linear in the number of items.

    Examples
    --------
    >>> import coassoc as ca
    >>> page = ca.report.write_report([[0, 1], [0, 1], [1, 0], [1, 0]], 2, title="Four items", random_state=0)
    >>> "<title>Four items</title>" in page, len(page) < 5_000_000
    (True, True)
    """
    if path is None:
        return render(summarize(X, n_clusters, **settings))
    check_writable(path, force=force)
    page = render(summarize(X, n_clusters, **settings))
    with replacing(path, force=force) as partial:
        partial.write_text(page, encoding="utf-8")
    return Path(path)


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
    data = json.dumps({"tables": tables(summary), "facts": _facts(summary)}, ensure_ascii=False, allow_nan=False)
    return environment.get_template("page.html").render(
        s=summary,
        version=version_of("coassoc"),
        library=files("coassoc.report").joinpath("assets/echarts.min.js").read_text(encoding="utf-8"),
        data=data.replace("<", "\\u003c"),  # "</script>" inside a name must not end the script
        cards=list(cards(summary)),
        findings=list(findings(summary)),
        sure=SURE,
    )


def cards(s: Summary) -> Iterator[tuple[str, str, str, str, str]]:
    """At most four numbers: name, value, kind (good, fair, warn or none), what it is, and what is good and bad."""
    c, suggested, others = s.consensus, s.number["suggested"], s.number["runners_up"]
    kind, what = "", "Nothing confirms the number."
    if c["supported"] is False:
        kind, what = "warn", "The clusterings support no number: they agree no more than chance."
    elif suggested is not None:
        what = f"The clusterings suggest {suggested}" + (f"; nearly as good: {_or(others)}." if others else ".")
        kind = "warn" if c["n_clusters"] not in (suggested, *others) else "fair" if others else "good"
    if s.camps:
        kind, what = "warn", f"The camps have {_or([camp['clusters'] for camp in s.camps])}; all together, this many."
    scale = "Good: no other number is nearly as good. Bad: another one is suggested."
    yield "clusters", f"{c['n_clusters']:,}", kind, what, scale
    if c["supported"] is False:
        return
    if c["stability"] is not None and math.isfinite(c["stability"]):
        what = "Answers from random halves of the clusterings, compared by the adjusted Rand index: 1 if equal."
        scale = f"Good: {STABLE} or more. Bad: below {UNSTABLE}."
        yield "stability", plain_text.number(c["stability"], 2), _kind(c["stability"]), what, scale
        what = f"Items with a confidence of at least {SURE}; the others lie between clusters."
        scale = f"Good: {_percent(STABLE, 0)} or more. Bad: below {_percent(UNSTABLE, 0)}."
        yield "items surely placed", _percent(c["sure_share"]), _kind(c["sure_share"]), what, scale
    matched = c["left_out"]
    if matched is not None:
        # as shown; a consensus of half of the clusterings may lose to a single one where all together do not
        value, member = round(matched["consensus"], 2), round(matched["member"], 2)
        what = (
            "NMI with the other half of the clusterings, of consensuses made from one half, with as many clusters "
            f"({matched['k']}) as the best single clustering."
        )
        scale = (
            f"Good: at least {member:.2f}, that of the best single clustering (“{matched['name']}”) with the others. "
            "Bad: less; that clustering then agrees better."
        )
        kind = "good" if value >= member else "fair"
        yield "agreement with clusterings left out", plain_text.number(value, 2), kind, what, scale


def _kind(value: float) -> str:
    return "good" if value >= STABLE else "warn" if value < UNSTABLE else "fair"


def _or(numbers: Sequence[Any]) -> str:
    return " or ".join(map(str, numbers))


def findings(s: Summary) -> Iterator[tuple[str, str]]:
    """What else there is to know, as (kind, sentence); kind is good, note or warn."""
    facts, supported = s.consensus, s.consensus["supported"]
    if s.confidence is None:
        yield "note", (
            f"The verdict is that of Consensus on these clusterings. The labels below are others ({facts['method']}); "
            f"their adjusted Rand index with its answer is {1 - s.alternatives[0]['distance']:.3f}."
        )
    if supported and s.hidden:
        small = "; ".join(f"{one.size:,} items of cluster {one.inside} ({one.name})" for one in s.hidden)
        yield "warn", f"Small clusters that most finer clusterings share, and this consensus does not have: {small}."
    elsewhere = float((s.item_consensus.margin <= 0)[s.labels >= 0].mean())
    if supported and facts["n_clusters"] > 1 and elsewhere > 0:
        text = f"{_percent(elsewhere)} of the items are together with another cluster at least as often as with theirs."
        yield "warn" if elsewhere > 0.1 else "note", text
    outliers = s.partitions["partition"][s.partitions["outlier"]].tolist()
    if outliers:
        more = f" and {len(outliers) - 5} more" if len(outliers) > 5 else ""
        yield "warn", f"Clusterings that agree far less with the others: {', '.join(outliers[:5])}{more}."
    if s.input["missing_share"] > 0:
        share = _percent(s.input["missing_share"])
        yield "note", f"{share} of the labels are missing; a pair counts where both items are labelled."
    if facts["unlabelled"]:
        yield "note", f"Items without a label, which take no part: {facts['unlabelled']:,}."


# -- numbers behind the pictures -------------------------------------------------------------------------------


def tables(s: Summary) -> dict[str, dict[str, Any]]:
    """Every table and picture as columns and rows, for the page to show, draw and download."""
    drawn = s.partitions["partition"][:_MOST_DRAWN].tolist()
    by_name = {
        "clusterings": _table({n.replace("partition", "clustering"): of for n, of in s.partitions.items()}, _MOST_ROWS),
        "clusters": _table(s.clusters, _MOST_ROWS),
        "items": _table(s.items),
        **({"camps": _rows([{**one, "members": ", ".join(one["members"])} for one in s.camps])} if s.camps else {}),
        "alternatives": _rows(s.alternatives),
        "k": _table(s.number["curves"]),
        **{f"flow {name}": _flow(columns) for name, columns in s.flows.items() if len(columns) > 1},
        "coassociation": _matrix("block", [f"block {i}" for i in range(len(s.blocks.sizes))], s.blocks.values),
        "agreement": _matrix("clustering", drawn, s.agreement[:, :_MOST_DRAWN]),
    }
    if s.confidence is not None:
        items, edges = np.histogram(s.confidence[s.labels >= 0], np.linspace(0, 1, 21))
        by_name["confidence"] = _table({"from": edges[:-1], "to": edges[1:], "items": items})
    if s.profile is not None:
        by_name["profile"], by_name["effects"] = _profile(s.profile)
    if s.classes is not None:
        names, counts = s.classes
        most = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:_MOST_CLASSES])
        counts = counts[most, :_MOST_CLASSES]
        by_name["classes"] = _matrix("class", [names[i] for i in most], counts, map(str, range(counts.shape[1])))
    return by_name


def _table(columns: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    rows = [list(map(_rounded, row)) for row in zip(*(values[:most] for values in columns.values()))]
    return {"columns": [name.replace("_", " ") for name in columns], "rows": rows}


def _rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns without any value are left out."""
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    return _table({name: [row[name] for row in rows] for name in names})


def _matrix(name: str, names: list[str], values: np.ndarray, columns: Iterable[str] | None = None) -> dict[str, Any]:
    rows = [[n, *np.round(row, 3).tolist()] for n, row in zip(names, values)]
    return {"columns": [name, *(names if columns is None else columns)], "rows": rows}


def _profile(profile: dict[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The features that tell each cluster apart, and a picture: effects of the features that tell any apart most."""
    clusters, row = np.unique(profile["cluster"], return_inverse=True)
    features, column = np.unique(np.asarray(profile["feature"], dtype=str), return_inverse=True)
    effects = np.zeros((len(clusters), len(features)))
    effects[row, column] = np.nan_to_num(profile["effect"], posinf=99.0, neginf=-99.0)
    order = np.lexsort((-np.abs(effects[row, column]), row))
    told = order[np.arange(len(order)) - np.searchsorted(row[order], row[order]) < _TOLD]
    most = np.argsort(-np.abs(effects).max(axis=0), kind="stable")[:_MOST_FEATURES]
    names = list(map(str, clusters[:_MOST_CLASSES]))
    picture = _matrix("cluster", names, effects[:_MOST_CLASSES, most], features[most].tolist())
    return _table({name: np.asarray(values)[told] for name, values in profile.items()}), picture


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
        "nearest": s.consensus["nearest"].position,
        "sure": SURE,
        "blocks": {"clusters": blocks.clusters.tolist(), "sizes": blocks.sizes.tolist(), "names": s.block_names},
    }


def _rounded(value: Any) -> Any:
    """Six significant digits; NaN is absent."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else ""
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"
