"""Make the saved models of this folder: `PYTHONPATH=<checkout>/src python tests/data/models/make.py FOLDER`.

The files were written by the code of commit ee5a629, whose format (version 1) named classes by module path and had no
digest. They stay as they are: every later version must load them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import coassoc as ca

RNG = np.random.default_rng(4)
TRUTH = np.arange(24) % 3
TABLE = np.column_stack([np.where(RNG.random(24) < 0.1, RNG.integers(0, 3, 24), TRUTH) for _ in range(4)])
TABLE[::9, 1] = -1
X = np.eye(3)[TRUTH] + RNG.normal(scale=0.1, size=(24, 3))
METHODS = (
    "AgreementConsensus", "BisectingConsensus", "CSPA", "DensityConsensus", "EAC", "ECC", "ECPCS", "HBGF",
    "KMeansConsensus", "LWGP", "MCLA", "SEC",
)  # fmt: skip


def answers(model, rows) -> dict[str, list]:
    """What a loaded model must still say."""
    found = {"labels": model.labels_.tolist()}
    if hasattr(model, "predict"):
        found["predict"] = model.predict(rows).tolist()
    if hasattr(model, "transform"):
        found["transform"] = model.transform(rows).tolist()
    if hasattr(model, "cut"):
        found["cut"] = [model.cut(k).tolist() for k in (1, 2, 3)]
    return found


def main(folder: Path) -> None:
    said = {}
    for name in METHODS:
        model = getattr(ca, name)(n_clusters=3, random_state=0, engine="numpy").fit(TABLE)
        model.save(folder / f"{name}.npz")
        said[name] = answers(model, TABLE)
    words = np.array(["x", "y", "z"], dtype=object)[TABLE]
    model = ca.KMeansConsensus(3, random_state=0, engine="numpy").fit(words)
    model.save(folder / "words.npz")
    said["words"] = answers(model, words)
    model = ca.ConsensusClustering(3, n_partitions=3, feature_fraction=0.7, random_state=0, engine="numpy").fit(X)
    model.save(folder / "ConsensusClustering.npz")
    said["ConsensusClustering"] = answers(model, X)
    (folder / "answers.json").write_text(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
