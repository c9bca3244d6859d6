"""Communities of LFR graphs with a known truth: stable_leiden beside single runs, best modularity and others.

``python -m benchmarks.communities`` appends one row per graph to a file of JSON lines, skips those that are there, and
prints the table; ``--table`` only prints it. Needs networkx and igraph.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, triu
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
from coassoc.consensus.leiden import Edges, seeded
from coassoc.core.checks import stream

from . import json_lines, markdown
from .truth import interval

ROWS = Path(__file__).parent.parent / "docs" / "results" / "communities.jsonl"
MIXING = (0.3, 0.4, 0.5, 0.6)
N_RUNS = 20
THRESHOLD, MOST_ROUNDS, COMPARED = 0.5, 5, 5  # of Lancichinetti and Fortunato; graphs on which it runs
ANSWERS = {
    "single": "a single run",
    "best_modularity": "best modularity of 20",
    "lancichinetti_fortunato": "Lancichinetti–Fortunato",
    "single_at_resolution": "a single run at the resolution chosen",
    "stable_leiden": "`stable_leiden`",
}


def lfr_graph(n: int, mixing: float, seed: int) -> tuple[csr_matrix, np.ndarray]:
    """A graph of the LFR benchmark, mean degree 20, largest 50, communities of 20 to 100 nodes, and its communities."""
    from networkx import LFR_benchmark_graph, to_scipy_sparse_array

    graph = LFR_benchmark_graph(
        n,
        3,
        1.5,
        mixing,
        average_degree=20,
        max_degree=50,
        min_community=20,
        max_community=100,
        seed=seed,
        max_iters=2000,
    )
    communities = {frozenset(graph.nodes[v]["community"]) for v in graph}
    truth = ca.Ensemble.from_communities([communities], nodes=range(n)).partition(0)
    return csr_matrix(to_scipy_sparse_array(graph, nodelist=range(n))), truth


def lancichinetti_fortunato(edges: Edges, runs: list) -> np.ndarray:
    """Runs on the thresholded co-association graph, again and again, until they all agree."""
    for _ in range(MOST_ROUNDS):
        ensemble = ca.Ensemble.from_partitions(runs)
        one_hot = ensemble.one_hot(np.float32)
        shares = csr_matrix(triu(one_hot @ one_hot.T, 1)) / ensemble.n_partitions
        shares.data[shares.data < THRESHOLD] = 0
        shares.eliminate_zeros()
        lone = np.flatnonzero(np.diff(shares.indptr) + np.bincount(shares.indices, minlength=len(ensemble)) == 0)
        # a node that the threshold leaves alone keeps its strongest neighbour in the graph
        whole = one_hot[lone] @ one_hot.T / ensemble.n_partitions
        whole = whole.multiply(edges.matrix[lone] + edges.matrix.T[lone]).tocsr()
        best = np.asarray(whole.argmax(axis=1)).ravel()
        ends = csr_matrix((np.full(len(lone), 1 / N_RUNS), (lone, best)), shape=shares.shape)
        runs = Edges.of(shares + shares.T + ends + ends.T).runs([1.0] * N_RUNS)
        if all(adjusted_rand_score(runs[0], run) == 1 for run in runs):
            break
    return np.array(runs[0])


def measure(n: int, mixing: float, seed: int) -> dict:
    """Scores of one graph; the method of Lancichinetti and Fortunato, the slowest, on the first few alone."""
    graph, truth = lfr_graph(n, mixing, seed)
    edges = Edges.of(graph)
    row = {"n": n, "mixing": mixing, "seed": seed, "communities": int(truth.max()) + 1}

    def to_truth(runs) -> float:
        return float(np.mean([adjusted_rand_score(truth, run) for run in runs]))

    def between(runs) -> float:
        return float(np.mean([adjusted_rand_score(a, b) for a, b in itertools.combinations(runs, 2)]))

    answers, best, chosen = [], [], []
    for repeat in range(2):
        with seeded(stream(seed, repeat)):
            runs = edges.runs([1.0] * N_RUNS)
        modularity = [edges.igraph().modularity(run) for run in runs]
        best.append(runs[int(np.argmax(modularity))])
        start = time.process_time()
        answers.append(ca.stable_leiden(graph, N_RUNS, random_state=2 * seed + repeat))
        row["seconds"] = time.process_time() - start
        chosen += [answers[-1].ensemble_.partition(j) for j in range(5)]
    if seed < COMPARED:
        with seeded(stream(seed, 2)):
            row["lancichinetti_fortunato"] = to_truth([lancichinetti_fortunato(edges, runs)])
    row |= {
        "single": to_truth(runs),
        "best_modularity": to_truth(best),
        "single_at_resolution": to_truth(chosen),
        "stable_leiden": to_truth(answer.labels_ for answer in answers),
        "single_between": between(runs[:10]),
        "best_modularity_between": between(best),
        "stable_leiden_between": between([answer.labels_ for answer in answers]),
        "resolution": [answer.resolution_ for answer in answers],
        "n_clusters": [answer.n_clusters_ for answer in answers],
    }
    return row


def table(rows: list[dict]) -> str:
    """Mean ARI with the truth, 95 % intervals of the gain of `stable_leiden`, and ARI between runs, by mixing."""
    lines = []
    for mixing in sorted({row["mixing"] for row in rows}):
        for name, words in ANSWERS.items():
            here = [row for row in rows if row["mixing"] == mixing and name in row]
            ours, scores = (np.array([row[key] for row in here]) for key in ("stable_leiden", name))
            low, high = interval(ours - scores)
            gain = "" if name == "stable_leiden" else f"{np.mean(ours - scores):+.3f} [{low:+.3f}, {high:+.3f}]"
            repeated = [row[f"{name}_between"] for row in here if f"{name}_between" in row]
            again = f"{np.mean(repeated):.2f}" if repeated else "–"
            lines.append([mixing, len(here), words, f"{scores.mean():.3f}", gain, again])
    return markdown.table(
        ["mixing", "graphs", "answer", "ARI with truth", "gain of `stable_leiden` [95 %]", "ARI of two repeats"], lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3000)
    parser.add_argument("--graphs", type=int, default=10, help="graphs of each mixing (default: 10)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first graph (default: 0)")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--table", action="store_true", help="print the table of the rows there are")
    given = parser.parse_args()
    done = {(row["n"], row["mixing"], row["seed"]) for row in json_lines.read(given.rows)}
    for seed, mixing in itertools.product(range(given.first, given.graphs), MIXING):
        if not given.table and (given.nodes, mixing, seed) not in done:
            json_lines.append(given.rows, measure(given.nodes, mixing, seed))
    print(table([row for row in json_lines.read(given.rows) if row["n"] == given.nodes]))


if __name__ == "__main__":
    main()
