"""The evaluation as one HTML page: tables, dot plots, paired differences, block pictures, times."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path

from .claims import claims_markdown
from .figures import block_pictures, dot_plots, paired_plot, time_plot
from .methods import find_method
from .protocol import Protocol, base_ensemble, method_seed
from .runner import DataSource
from .store import Row
from .tables import SCORES, Table, gaps_markdown, to_markdown

BLOCK_LIMIT = 1500  # block pictures come from the smallest data set, when it has no more items than this

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --soft: #f3f4f6; --line: #d5d9de; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #16191d; --ink: #e6e8eb; --soft: #20252b; --line: #3a4149; }
}
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; font-size: 1.25rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid var(--line); }
th { background: var(--soft); position: sticky; top: 0; }
figure { margin: 0 0 1rem; }
img { max-width: 100%; background: #fff; }
"""


def write_page(
    rows: Sequence[Row],
    tables: Sequence[Table],
    protocol: Protocol,
    sources: Sequence[DataSource],
    methods: Sequence[str],
    cache: Path | None,
) -> str:
    """The page as text; it needs no other file."""
    sets = sorted({row["dataset"] for row in rows})
    body = [
        "<h1>The published evaluation, beside the printed tables</h1>",
        f"<p>{len(rows)} runs on {len(sets)} data sets, {protocol.n_repeats} repeats, {protocol.n_partitions} base "
        f"partitions, k = {protocol.n_clusters}, scaling “{html.escape(protocol.scaling)}”, seed {protocol.seed}. "
        "Cells: ours ± standard error (paper, difference), in percent; "
        "on sets where the paper gave up, † is exact linkage over different rows, ‡ linkage of micro-clusters.</p>",
        _as_html(claims_markdown(rows)),
        _as_html(gaps_markdown(rows)),
        "<h2>Tables</h2>",
        *(_as_html(to_markdown(table)) for table in tables),
        "<h2>Every method, per data set</h2>",
        "<p>Dots: our mean with its standard error. Diamonds: the printed figure.</p>",
    ]
    for score, label in SCORES.items():
        body.append(f"<h3>{label}</h3><figure>{dot_plots(rows, score)}</figure>")
    body.append("<h2>Differences on the same ensembles</h2>")
    for score, label in SCORES.items():
        body.append(f"<h3>{label}</h3><figure>{paired_plot(rows, score)}</figure>")
    body += [_blocks(rows, protocol, sources, methods, cache), "<h2>Time</h2>", f"<figure>{time_plot(rows)}</figure>"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>coassoc: the published evaluation</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _as_html(markdown: str) -> str:
    """A heading and a table, as `tables.py` and `claims.py` write them in Markdown, as HTML."""
    if not markdown:
        return ""
    title, _, head, _, *lines = markdown.strip().splitlines()
    rows = [[html.escape(cell.strip()) for cell in line.strip("|").split(" | ")] for line in (head, *lines)]
    names = "".join(f'<th scope="col">{name}</th>' for name in rows[0])
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in rows[1:]
    )
    body = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", body)
    return (
        f'<h3>{html.escape(title.strip("# "))}</h3><div class="wide"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _blocks(
    rows: Sequence[Row], protocol: Protocol, sources: Sequence[DataSource], methods: Sequence[str], cache: Path | None
) -> str:
    """One ensemble ordered by each consensus: the consensus of its first repeat is computed again from its seed."""
    sizes = {row["dataset"]: row["n_samples"] for row in rows}
    small = [s for s in sources if sizes.get(s.name, BLOCK_LIMIT + 1) <= BLOCK_LIMIT]
    if not small:
        return ""
    source = min(small, key=lambda s: sizes[s.name])
    ensemble = base_ensemble(source.load(protocol.scaling), protocol, 0, cache)
    labels_of = {}
    for text in methods:
        method = find_method(text)
        seed = method_seed(protocol.seed, source.name, 0, method.name)
        try:
            labels_of[method.name] = method.run(ensemble, protocol.n_clusters, seed)[0]
        except Exception:  # its row in the table has the error
            continue
    return (
        f"<h2>One ensemble of {html.escape(source.name)}, ordered by each consensus</h2>"
        "<p>Each picture is the same co-association matrix: the darker a cell, the more base partitions put the two "
        "items together. A consensus that found the structure gathers the dark cells into blocks.</p>"
        f"<figure>{block_pictures(ensemble, labels_of)}</figure>"
    )
