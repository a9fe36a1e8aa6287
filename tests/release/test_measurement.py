"""A measurement says all that will be done before it is done."""

import pytest

import dpinfer as dpi
from dpinfer.privacy.units import NEIGHBORS
from tests.linear import gram_ols

SCHEMA = dpi.Schema(x=dpi.Real(0, 1, missing=0, impossible=0), y=dpi.Real(0, 1, missing=0, impossible=0))


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("price", [dpi.ZCDP(0.1), dpi.PureDP(0.5), dpi.GDP(0.5), dpi.ApproxDP(1, 1e-6)], ids=str)
def test_every_sum_has_a_name_a_step_and_a_scale(neighbors, price):
    measurement = gram_ols("y ~ x", clamped_share=0.1).measurement(price, schema=SCHEMA, neighbors=neighbors)
    assert measurement.names == ("1 * 1", "1 * x", "1 * y", "x * x", "x * y", "y * y", "clamped rows")
    assert len(measurement.steps) == len(measurement.law.scales) == 7
    assert measurement.law.family == ("laplace" if isinstance(price, dpi.PureDP) else "gaussian")
    assert measurement.cost.price == price
    assert measurement.exact == (("1 * 1",) if neighbors == "replace_one" else ())


def test_the_description_names_everything_that_is_public():
    measurement = gram_ols("y ~ x").measurement(dpi.ZCDP(0.125), schema=SCHEMA, neighbors="replace_one")
    text = measurement.describe()
    for words in (
        "6 sums of products of 3 bounded features: 1, x, y",
        "reads        x, y",
        "neighbours   replace_one",
        "Euclidean",
        "discrete gaussian",
        "exact        1 * 1",
        "0.125-zCDP",
    ):
        assert words in text
    free = gram_ols("y ~ x").measurement(dpi.ZCDP(0.125), schema=SCHEMA, neighbors="add_remove")
    assert "exact        nothing" in free.describe()


def test_off_diagonal_sums_get_half_the_variance():
    measurement = dpi.gram(["x", "y"]).measurement(dpi.ZCDP(0.125), schema=SCHEMA, neighbors="add_remove")
    variances = measurement.law.variances
    assert variances[1] == pytest.approx(variances[0] / 2, rel=1e-12)
    assert variances[3] == variances[0]


def test_a_measurement_is_a_function_of_public_things_alone():
    one, two = (gram_ols("y ~ x").measurement(dpi.GDP(0.3), schema=SCHEMA, neighbors="replace_one") for _ in range(2))
    assert (one.law, one.cost, one.names, one.question) == (two.law, two.cost, two.names, two.question)
