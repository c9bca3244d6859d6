"""Frames in, frames out: ids stay with the labels, the tables and the comparison."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca

pd = pytest.importorskip("pandas")
TABLE = np.array([[0, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 2], [1, 0, 2], [1, 0, 2]])
FRAME = pd.DataFrame(TABLE, columns=list("abc"), index=[f"item {i}" for i in range(6)])
LABELS = ca.KMeansConsensus(2, random_state=0).fit(TABLE).labels_


def test_labels_are_a_series_under_the_index_of_the_frame():
    model = ca.KMeansConsensus(2, random_state=0).set_output(transform="pandas").fit(FRAME)
    expected = pd.Series(LABELS, index=FRAME.index, name="labels")
    pd.testing.assert_series_equal(model.labels_, expected)
    pd.testing.assert_series_equal(model.predict(FRAME[3:]), expected[3:])
    assert model.transform(FRAME).index.tolist() == FRAME.index.tolist()
    pd.testing.assert_series_equal(model.fit(ca.Ensemble(FRAME)).labels_, expected)
    answer = ca.Consensus(random_state=0).set_output(transform="pandas").fit(FRAME)
    assert answer.confidence_.index.tolist() == FRAME.index.tolist()
    FRAME.assign(consensus=model.labels_)  # aligned by index
    assert isinstance(ca.KMeansConsensus(2).fit(FRAME).labels_, np.ndarray)


def test_a_model_with_series_is_saved(tmp_path):
    model = ca.KMeansConsensus(2, random_state=0).set_output(transform="pandas").fit(FRAME)
    model.save(tmp_path / "m.skops")
    assert (ca.load(tmp_path / "m.skops").labels_ == LABELS).all()


def test_polars_gets_polars():
    pl = pytest.importorskip("polars")
    model = ca.KMeansConsensus(2, random_state=0).set_output(transform="polars").fit(pl.DataFrame(TABLE))
    assert isinstance(model.labels_, pl.Series) and model.labels_.to_list() == LABELS.tolist()
    items = ca.report.item_table(ca.Ensemble(FRAME), LABELS).to_frame("polars")
    assert items["item"].to_list() == FRAME.index.tolist()


def test_tables_carry_the_ids():
    ensemble = ca.Ensemble(FRAME)
    items = ca.report.item_table(ensemble, LABELS).to_frame()
    assert items.index.tolist() == FRAME.index.tolist() and items["cluster"].tolist() == LABELS.tolist()
    assert ca.report.partition_table(ensemble, LABELS).to_frame().index.tolist() == list("abc")
    assert ca.report.cluster_table(ensemble, LABELS).to_frame()["size"].tolist() == [3, 3]
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
