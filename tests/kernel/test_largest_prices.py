"""Prices that leave no noise: refused before the charge, by the largest price that is served; which is then served."""

import re

import numpy as np
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError
from dpinfer.kernel.sampling import LEAST_SCALES, check_scales
from dpinfer.release.laws import FAMILIES, NoiseLaw
from tests.linear import gram_ols

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), b=dpi.Boolean(), g=dpi.Category(["a", "b", "c"]), y=dpi.Real(0, 50))
FRAME = SCHEMA.sample(240, np.random.default_rng(8))
BOUNDS = {"Intercept": (0, 50), "x": (-5, 5)}

ASKED = {
    "count": lambda data: dpi.count(data),
    "count by": lambda data: dpi.count(data, by="g"),
    "table": lambda data: dpi.table(["g", "b"], data),
    "averaged counts": lambda data: dpi.histogram("x", data=data, bins=3, draws=4),
    "total": lambda data: dpi.total("x", data),
    "exact proportion": lambda data: dpi.proportion("b", data, inference="exact"),
    "ols": lambda data: gram_ols("y ~ x", data),
    "quantile": lambda data: dpi.quantile("x", q=0.5, data=data, method="exponential"),
    "tree": lambda data: dpi.quantile("x", q=0.5, data=data, method="tree"),
    "above": lambda data: dpi.above_threshold(["b", "x > 3"], data, threshold=50),
    "density": lambda data: dpi.density("x", data),
    "choice": lambda data: dpi.most_frequent("g", data),
    "scores": lambda data: dpi.exponential_mechanism({"low": "10 - x", "high": "x"}, data=data),
    "queries": lambda data: dpi.linear_queries("g", data, queries=[[1, 0, 0], [0, 1, 1]]),
    "binomtest": lambda data: dpi.binomtest("b", p=0.4, data=data),
    "blocks": lambda data: dpi.sample_aggregate("y ~ x", data, model=sm.OLS, blocks=20, bounds=BOUNDS),
    "replicates": lambda data: dpi.bootstrap("x", data, statistic="mean", replicates=5),
}
HUGE = {
    "PureDP": (dpi.PureDP(1e30), dpi.PureDP(1e200)),
    "ZCDP": (dpi.ZCDP(1e140),),
    "GDP": (dpi.GDP(1e100),),
    "ApproxDP": (dpi.ApproxDP(1e10, 1e-6),),
}
CHOICES = ("choice", "scores")  # have no variance: as good as exact
UNNAMED = ("ApproxDP", "GDP")  # where noise is not in proportion to a parameter
WHOLE = {"PureDP": dpi.PureDP(1e300), "ZCDP": dpi.ZCDP(1e300), "GDP": dpi.GDP(1e150)}


def guarded(price):
    budget = WHOLE.get(type(price).__name__, price)
    return dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(budget))


def largest(message):
    """Return the price that a refusal says is served, or None."""
    found = re.search(r"largest supported is (PureDP|ZCDP|GDP)\(\w+=([^)]*)\)", message)
    return None if found is None else getattr(dpi, found[1])(float(found[2]))


def refusal(name, price):
    """Ask at a price: the refusal, which comes before the charge; None if the price is served and charged."""
    data = guarded(price)
    try:
        results = ASKED[name](data).fit(price)
    except (PrivacyUnitError, NotProvedError, OptionError) as error:
        found = error
    else:
        assert str(results.summary())
        found = None
    assert len(data.ledger.charges()) == (found is None)
    return found


@pytest.mark.parametrize("unit", HUGE)
@pytest.mark.parametrize("name", ASKED)
def test_a_huge_price_is_refused_before_the_charge_and_the_largest_is_served(name, unit):
    for price in HUGE[unit]:
        refused = refusal(name, price)
        if refused is None:
            assert name in CHOICES
            continue
        named = largest(str(refused))
        assert named is not None or unit in UNNAMED or not isinstance(refused, PrivacyUnitError)
        if named is not None:
            second = refusal(name, named)
            assert second is None or isinstance(second, NotProvedError)  # the grid is too coarse for this ledger


@pytest.mark.parametrize("name", ["count", "count by", "total", "averaged counts"])
def test_slightly_more_than_the_largest_price_is_refused(name):
    data = guarded(dpi.PureDP(1))
    with pytest.raises(PrivacyUnitError) as caught:
        ASKED[name](data).fit(dpi.PureDP(1e30))
    more = largest(str(caught.value)) * 1.01
    with pytest.raises(PrivacyUnitError, match="largest supported"):
        ASKED[name](data).fit(more)
    assert data.ledger.charges().empty


@pytest.mark.parametrize("price", [dpi.PureDP(800), dpi.PureDP(1e4)], ids=str)
def test_counts_at_a_price_that_leaves_no_noise(price):
    for name in ("count", "count by", "table"):
        data = guarded(price)
        with pytest.raises(PrivacyUnitError, match=r"needs less noise.*largest supported is PureDP\(epsilon=255.9\)"):
            ASKED[name](data).fit(price)
        assert data.ledger.charges().empty
    found = ASKED["count by"](guarded(price)).fit(dpi.PureDP(255))
    assert (found.bse > 0).all()
    public = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(1))
    with pytest.raises(PrivacyUnitError):
        ASKED["count by"](public).fit(price)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_least_scale_of_every_law_has_a_variance_that_counts(family):
    least = LEAST_SCALES[family]
    law = NoiseLaw(family, (0.0, least))
    check_scales(law)
    with pytest.raises(PrivacyUnitError, match="use a smaller one"):
        check_scales(NoiseLaw(family, (1.0 * least, least * 0.999)))
    if family not in ("gumbel", "exponential", "above"):  # of which no noise is released
        assert law.variances[1] ** 2 > np.finfo(float).tiny
