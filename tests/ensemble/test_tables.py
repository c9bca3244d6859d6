"""Frames: ids stay with the items; soft memberships: labels drawn have the probabilities asked for."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca

pd = pytest.importorskip("pandas")
TABLE = np.array([[0, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 2], [1, 0, 2], [1, 0, 2]])
FRAME = pd.DataFrame(TABLE, columns=list("abc"), index=[f"item {i}" for i in range(6)])
LABELS = ca.KMeansConsensus(2, random_state=0).fit(TABLE).labels_


def test_labels_of_frames_are_arrays_in_the_order_of_their_rows():
    model = ca.KMeansConsensus(2, random_state=0).set_output(transform="pandas").fit(FRAME)
    assert isinstance(model.labels_, np.ndarray) and (model.labels_ == LABELS).all()
    assert model.transform(FRAME).index.tolist() == FRAME.index.tolist()


def test_polars_gets_polars():
    pl = pytest.importorskip("polars")
    assert ca.KMeansConsensus(2, random_state=0).fit_predict(pl.DataFrame(TABLE)).tolist() == LABELS.tolist()
    items = ca.report.item_table(ca.Ensemble(FRAME), LABELS).to_frame("polars")
    assert items["item"].to_list() == FRAME.index.tolist()


def test_tables_carry_the_ids():
    ensemble = ca.Ensemble(FRAME)
    items = ca.report.item_table(ensemble, LABELS).to_frame()
    assert items.index.tolist() == FRAME.index.tolist() and items["cluster"].tolist() == LABELS.tolist()
    for unnamed in (FRAME.reset_index(drop=True), FRAME.set_axis([0] * 6)):
        assert ca.Ensemble(unnamed).item_ids is None
    with pytest.raises(ValueError, match="kind must be one of"):
        ca.report.item_table(ensemble, LABELS).to_frame("arrow")


def test_a_comparison_is_a_frame_and_a_plot_and_takes_own_estimators():
    from sklearn.cluster import AgglomerativeClustering

    own = {"mine": AgglomerativeClustering(5, linkage="complete"), "class": ca.SEC, "km": "kmeans"}
    result = ca.compare(FRAME, 2, own)
    frame = result.to_frame()
    assert frame.index.tolist() == ["mine", "class", "km"] and frame["clusters"].tolist() == [2, 2, 2]
    assert frame.sort_values("density").shape == (3, frame.shape[1])
    assert own["mine"].n_clusters == 5  # copied
    assert list(ca.compare(FRAME, 2, [ca.SEC, own["mine"]]).labels) == ["SEC", "AgglomerativeClustering"]
    with pytest.raises(TypeError, match="neither an estimator"):
        ca.compare(FRAME, 2, [3])
    pytest.importorskip("matplotlib").use("agg")
    assert [text.get_text() for text in result.plot().get_legend().get_texts()] == ["density", "ensemble nmi"]


# -- soft memberships ------------------------------------------------------------------------------------------


@pytest.fixture
def matrices():
    rng = np.random.default_rng(0)
    return [rng.dirichlet([1, 1, 1], 20), rng.dirichlet([0.3] * 5, 20)]


def test_expected_coassociation_is_the_product_of_memberships(matrices):
    ens = ca.Ensemble.from_memberships(matrices, n_draws=2000, random_state=0)
    assert ens.n_partitions == 4000
    expected = np.mean([P @ P.T for P in matrices], axis=0)
    found = ens.coassociation("all")
    apart = ~np.eye(20, dtype=bool)
    assert np.abs(found - expected)[apart].max() < 5 * 0.5 / np.sqrt(4000)  # five standard errors
    assert (found[~apart] == 1).all()
    a, b, c = (ca.Ensemble.from_memberships(matrices, n_draws=2, random_state=s) for s in (3, 3, 4))
    assert (a.codes == b.codes).all() and not np.array_equal(a.codes, c.codes)


def test_what_a_row_lacks_to_one_is_noise():
    P = [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]]
    share = ca.Ensemble.from_memberships([P], n_draws=1000, random_state=0).noise_share()
    assert share[0] == 1 and share[2] == 0 and abs(share[1] - 0.5) < 0.08


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([[0.5, 0.5]], r"must have shape \(n_samples, n_clusters\), got \(2,\)"),
        ([[[0.7, 0.7]]], "largest sum 1.4"),
        ([[[-0.1, 0.7]]], "smallest entry is -0.1"),
        ([[[np.nan, 0.7]]], "must hold probabilities"),
        ([np.eye(2), np.eye(3)], r"memberships\[1\] has 3 rows but memberships\[0\] has 2"),
        ([], "at least one"),
    ],
)
def test_bad_memberships_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        ca.Ensemble.from_memberships(given)


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, np.ndarray.tolist, np.float32])
def test_a_label_table_of_memberships_names_the_way(matrices, form):
    for make, table in ((ca.Ensemble, form(matrices[0])), (ca.Ensemble.from_partitions, matrices)):
        with pytest.raises(ValueError, match=r"from_memberships"):
            make(table)


def test_noise_share_counts_missing_labels():
    ens = ca.Ensemble([[0, -1, None], [0, 1, 1], [None, None, -1], [0, 0, -5]])
    assert ens.noise_share().tolist() == [2 / 3, 0, 1, 1 / 3]
    assert ca.Ensemble([[0], [1]]).noise_share().tolist() == [0, 0]
