"""What a bootstrap costs: published and directly computed values, the table, the plot, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import optimize, stats

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.studies import PrivacyCost, privacy_cost

COLUMNS = ["mu", "replicates", "claimed epsilon", "asymptotic epsilon", "exact epsilon", "ledger mu"]


def gaussian(mu, delta):
    """Epsilon of a Gaussian at a delta (Balle & Wang 2018)."""

    def excess(epsilon):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - delta

    return optimize.brentq(excess, 0, 60)


@pytest.fixture(scope="module")
def unit():
    return privacy_cost((10, 50, 200), 1.0)


def test_the_table_has_a_row_for_every_mu_and_number_of_replicates():
    frame = privacy_cost([4, 6], [0.2, 0.4], weights="public").summary_frame()
    assert list(frame.columns) == COLUMNS
    assert frame[["mu", "replicates"]].to_numpy().tolist() == [[0.2, 4], [0.2, 6], [0.4, 4], [0.4, 6]]
    assert frame["replicates"].dtype.kind == "i"
    assert all(frame[name].dtype.kind == "f" for name in COLUMNS if name != "replicates")


def test_known_costs_are_found(unit):
    frame = unit.summary_frame().set_index("replicates")
    np.testing.assert_allclose(frame["claimed epsilon"], 4.887, atol=5e-4)
    for replicates, known, digit in ((10, 6.16, 0.006), (50, 5.157, 0.0006), (200, 4.954, 0.0006)):
        assert frame.loc[replicates, "exact epsilon"] == pytest.approx(known, abs=digit)
    assert 1.054 <= frame.loc[50, "ledger mu"] <= 1.06
    assert 1.013 <= frame.loc[200, "ledger mu"] <= 1.015


def test_standard_errors_are_nearly_free_and_never_free(unit):
    frame = unit.summary_frame()
    assert frame["exact epsilon"].is_monotonic_decreasing
    assert frame["ledger mu"].is_monotonic_decreasing
    assert (frame["exact epsilon"] > frame["claimed epsilon"]).all()
    # What enters a ledger is at least as revealing as the exact cost.
    for _, row in frame.iterrows():
        assert gaussian(row["ledger mu"], 1e-6) >= row["exact epsilon"] - 1e-4


def test_claim_and_limit_are_gaussians():
    for delta in (1e-3, 1e-6, 1e-9):
        (row,) = privacy_cost(20, 0.7, weights="public", delta=delta).frame.to_dict("records")
        assert row["claimed epsilon"] == pytest.approx(gaussian(0.7, delta), rel=1e-6)
        assert row["asymptotic epsilon"] == pytest.approx(gaussian(0.7 * np.sqrt(2 - 2 / np.e), delta), rel=1e-6)
        # Every row counts twice in half of the sums: squares of weights add up to 2 for each of the B.
        assert row["exact epsilon"] == pytest.approx(gaussian(0.7 * np.sqrt(2), delta), rel=1e-6)
        assert row["ledger mu"] == pytest.approx(0.7 * np.sqrt(2), rel=1e-6)
        assert row["ledger mu"] >= 0.7 * np.sqrt(2)


def test_few_poisson_weights_cost_more_than_coins():
    coins, poisson = (privacy_cost(2, 0.2, weights=law).frame.iloc[0] for law in ("double_or_nothing", "poisson"))
    assert poisson["exact epsilon"] > coins["exact epsilon"] > coins["claimed epsilon"]
    assert poisson["ledger mu"] > coins["ledger mu"] > 0.2


def test_numbers_and_lists_ask_the_same():
    one, several = privacy_cost(8, 0.3, weights="public"), privacy_cost([8], (0.3,), weights="public")
    pd.testing.assert_frame_equal(one.frame, several.frame)
    pd.testing.assert_frame_equal(
        privacy_cost(8, 1, weights="public").frame, privacy_cost(8, 1.0, weights="public").frame
    )


def test_the_table_is_a_copy_and_can_be_read(unit):
    assert isinstance(unit, PrivacyCost)
    changed = unit.summary_frame()
    changed.iloc[:] = 0
    assert (unit.frame["mu"] == 1).all()
    text = repr(unit)
    for words in ("'double_or_nothing'", "delta = 1e-06", "exact epsilon", "5.157", "ledger mu"):
        assert words in text
    assert dpi.privacy_cost is privacy_cost


def test_the_plot_shows_the_table(unit):
    drawn = unit.plot()
    assert isinstance(drawn, Axes)
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("replicates", "epsilon at delta = 1e-06")
    assert (drawn.get_xscale(), drawn.get_yscale()) == ("log", "log")
    lines = {line.get_label(): line for line in drawn.get_lines()}
    assert list(lines) == ["mu = 1, exact", "claimed", "asymptotic"]
    assert [text.get_text() for text in drawn.get_legend().get_texts()] == list(lines)
    for line, column in zip(lines.values(), ("exact epsilon", "claimed epsilon", "asymptotic epsilon"), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), unit.frame["replicates"])
        np.testing.assert_array_equal(line.get_ydata(), unit.frame[column])


def test_the_plot_goes_where_it_is_told():
    own = Figure().subplots()
    several = privacy_cost([4, 8], [0.2, 0.4], weights="public")
    assert several.plot(own) is own
    assert several.plot(ax=own) is own
    labels = [line.get_label() for line in own.get_lines()]
    assert labels[:6] == ["mu = 0.2, exact", "claimed", "asymptotic", "mu = 0.4, exact", "claimed", "asymptotic"]
    colors = [line.get_color() for line in own.get_lines()]
    assert colors[0] == colors[1] != colors[3]


@pytest.mark.parametrize(
    ("option", "message", "values"),
    [
        ("replicates", "from 2 to 10,000", [1, 10_001]),
        ("replicates", "whole numbers", [10.0, True, [10, 1], "10", None, []]),
        ("mu", "above 0 and up to 5", [0.0, -1, 5.01]),
        ("mu", "above 0", [np.nan, np.inf, [1.0, "2"], "1", None, dpi.GDP(1.0), [], True]),
        ("weights", "'double_or_nothing', 'poisson', 'public'", ["multinomial", None, ["public"]]),
        ("delta", "probability", [0.0, 1.0, -1e-6, np.nan, "1e-6", None]),
        ("delta", "1e-12", [1e-13]),
    ],
)
def test_bad_arguments_are_refused_by_name(option, message, values):
    for value in values:
        with pytest.raises(OptionError, match=f"^{option}=.*{message}") as caught:
            privacy_cost(**{"replicates": 10, "mu": 0.5, "weights": "public", option: value})
        assert caught.value.option == option
