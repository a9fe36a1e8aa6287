"""The coefficient plot and the table behind it."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpinfer.errors import OptionError, UnknownColumnError


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_frame_holds_the_interval_and_its_sampling_part(case):
    results = case.noisy()
    frame = results.coefficient_frame(alpha=0.1)
    np.testing.assert_array_equal(frame[["lower", "upper"]], results.conf_int(0.1))
    sampling = case.results().conf_int(0.1).set_axis(["sampling_lower", "sampling_upper"], axis=1)
    pd.testing.assert_frame_equal(frame[["sampling_lower", "sampling_upper"]], sampling)


def test_without_noise_the_sampling_part_is_all(case):
    frame = case.results().coefficient_frame()
    np.testing.assert_allclose(frame["sampling_lower"], frame["lower"])
    np.testing.assert_allclose(frame["sampling_upper"], frame["upper"])


def test_infinite_arms_have_a_finite_sampling_part(case):
    results = case.noisy().with_inference("score")
    frame = results.coefficient_frame()
    assert not frame.isna().any(axis=None)
    half = stats.norm.isf(0.025) * results.bse_sampling["age"]
    assert frame.loc["age", "sampling_upper"] == pytest.approx(results.params["age"] + half)


def test_census_has_no_sampling_part(case):
    sampling = case.inference.cov_sampling
    results = case.results(cov_sampling=0 * sampling, cov_noise=sampling, target="data")
    for shown in (results, results.with_inference("score")):
        frame = shown.coefficient_frame()
        np.testing.assert_allclose(frame["sampling_lower"], frame["estimate"])
        assert not frame.isna().any(axis=None)


def _segments(collection):
    return np.array([path.vertices for path in collection.get_paths()])


def test_plot_draws_the_frame_without_the_constant(case):
    results = case.noisy()
    ax = results.plot_coefficients()
    frame = results.coefficient_frame().drop(index="Intercept")
    assert [label.get_text() for label in ax.get_yticklabels()] == list(frame.index)
    _, interval, sampling = ax.collections
    np.testing.assert_allclose(_segments(interval)[:, :, 0], frame[["lower", "upper"]])
    np.testing.assert_allclose(_segments(sampling)[:, :, 0], frame[["sampling_lower", "sampling_upper"]])
    assert len(ax.get_legend().get_texts()) == 3


def test_plot_into_given_axes_with_given_terms(case):
    figure, ax = plt.subplots()
    returned = case.noisy().plot_coefficients(ax, terms=["educ", "Intercept"], color="C3", legend=False)
    assert returned is ax
    assert plt.get_fignums() == [figure.number]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["educ", "Intercept"]
    assert ax.get_legend() is None
    with pytest.raises(OptionError, match=r"^ax=<str> is not valid: expected matplotlib Axes"):
        case.noisy().plot_coefficients("here")
    with pytest.raises(UnknownColumnError, match="'wage'"):
        case.noisy().plot_coefficients(ax, terms=["wage"])


def test_infinite_ends_become_arrows_at_the_edge(case):
    ax = case.noisy().with_inference("score").plot_coefficients()
    low, high = ax.get_xlim()
    assert np.isfinite([low, high]).all()
    arrows = {line.get_marker(): line for line in ax.lines if line.get_marker() in "<>"}
    np.testing.assert_allclose(arrows["<"].get_data(), [[low], [0]])
    np.testing.assert_allclose(arrows[">"].get_data(), [[high, high], [0, 1]])
    assert np.isfinite(_segments(ax.collections[1])).all()
    ax.figure.canvas.draw()


def test_the_legend_covers_no_interval(case):
    for count in (1, 3):
        ax = case.noisy().plot_coefficients(terms=list(case.inference.names[:count]))
        ax.figure.canvas.draw()
        top = ax.get_legend().get_window_extent().y1
        assert top < ax.transData.transform((0, count - 1))[1] - 4
