"""One hypothesis has one p-value: a joint test of one restriction is the test of that combination, in every law."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from tests.linear import gram_ols

SCHEMA = dpi.Schema(
    x=dpi.Real(-1, 1), z=dpi.Real(-1, 1), y=dpi.Real(-3, 3), t=dpi.Real(0.1, 20), g=dpi.Category(["a", "b", "c"])
)
PRICES = (dpi.PureDP(1.0), dpi.ZCDP(0.05))
ASKED = {
    "regression": lambda data: gram_ols("y ~ x + z", data),
    "means": lambda data: dpi.mean("y", data, by="g"),
    "shares": lambda data: dpi.proportion("g", data),
    "family": lambda data: dpi.expfam("t", data, family="gamma"),
    "quantiles": lambda data: dpi.quantile("y", data, by="g"),
    "rare level": lambda data: gram_ols("y ~ x + C(g)", data),
}


def data(rare=1 / 3, seed=1):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (2, 3000))
    frame = pd.DataFrame({"x": x, "z": z, "y": 0.1 * x + 0.3 * rng.normal(size=3000), "t": rng.gamma(3, 1, 3000)})
    frame["g"] = rng.choice(["a", "b", "c"], 3000, p=[0.5, 0.5 - rare / 2, rare / 2])
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize("name", ASKED)
def test_a_joint_test_of_one_restriction_has_the_p_value_of_its_t_test(name, price):
    results = ASKED[name](data(0.002 if name == "rare level" else 0.3)).fit(price)
    size = len(results.params)
    rows = [*np.eye(size), np.eye(size)[0] - np.eye(size)[1]]
    methods = results.inference.methods
    for method in (one for one in methods if one not in ("auto", "exact")):
        own = results.with_inference(method)
        for row in rows:
            value = float(row @ np.asarray(own.params)) + 0.7 * float(np.sqrt(row @ np.asarray(own.cov_params()) @ row))
            single, joint = own.t_test((row[None], [value])), own.wald_test((row[None], [value]))
            assert float(joint.pvalue) == pytest.approx(float(single.pvalue), rel=1e-9)


def test_a_joint_test_of_a_regression_counts_laplace_noise():
    found = ASKED["regression"](data()).fit(dpi.PureDP(0.3))
    inference, rows = found.inference, np.eye(3)[1:]
    statistic, count, pvalue = inference.wald(rows, np.asarray(found.params)[1:] + 2.5 * np.asarray(found.bse)[1:])
    assert count == 2
    limiting = float(dpi.statistics.tails.joint_pvalue(statistic, count))
    assert pvalue > 1.1 * limiting  # the tails of Laplace noise are heavier
