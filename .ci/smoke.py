"""Does an installed coassoc work? Fit, score, threads, command line; prints what is in use."""

import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import coassoc as ca

rng = np.random.default_rng(0)
truth = rng.integers(4, size=2000)
table = np.stack([np.where(rng.random(2000) < 0.9, truth, rng.integers(4, size=2000)) for _ in range(9)], axis=1)
model = ca.KMeansConsensus(4, random_state=0).fit(table)
assert ca.nmi(model.labels_, truth) > 0.95
assert (model.predict(table) == model.labels_).all()
tree = ca.BisectingConsensus(4, random_state=0).fit(table)
assert len(set(tree.cut(3).tolist())) == 3
same = ca.KMeansConsensus(4, random_state=0, engine="numpy").fit(table)
assert (same.labels_ == model.labels_).all()
with ThreadPoolExecutor(8) as pool:
    for labels in pool.map(lambda _: ca.KMeansConsensus(4, random_state=0).fit_predict(table), range(64)):
        assert (labels == model.labels_).all()
subprocess.run([sys.executable, "-m", "coassoc", "--help"], check=True, stdout=subprocess.DEVNULL)
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    assert not sys._is_gil_enabled(), "a compiled module has turned the GIL on"
ca.show_config()
print("smoke test: ok")
