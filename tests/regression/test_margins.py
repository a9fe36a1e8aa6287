"""Sums for average marginal effects: what they are of, what they cost, and that intervals cover."""

import numpy as np
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import MissingFromReleaseError, OptionError
from dpinfer.kernel.stage import Context
from dpinfer.regression.margins import Margins
from dpinfer.regression.question import Newton
from dpinfer.studies import Rules

SCHEMA = dpi.Schema(
    x=dpi.Real(-1, 1),
    d=dpi.Boolean(),
    g=dpi.Category(["a", "b", "c"]),
    k=dpi.Integer(0, 6),
    b=dpi.Boolean(),
    y=dpi.Real(0, 60),
)
RIGHT = "x + d + C(g) + k"
LINKS = {
    "logit": sm.families.links.Logit(),
    "probit": sm.families.links.Probit(),
    "cloglog": sm.families.links.CLogLog(),
}
GAMMA = sm.families.Gamma(link=sm.families.links.Log())


def rows(n=20_000, seed=1, link="logit"):
    rng = np.random.default_rng(seed)
    frame = SCHEMA.sample(n, rng)
    frame["k"] = rng.poisson(1, n).clip(0, 6)
    predictor = -0.5 + 0.6 * frame["x"] + 0.5 * frame["d"] + 0.8 * (frame["g"] == "b") - 0.2 * frame["k"]
    frame["b"] = rng.random(n) < LINKS[link].inverse(predictor.to_numpy(dtype=float))
    mean = np.exp(predictor.to_numpy(dtype=float))
    frame["y"] = np.clip(rng.poisson(mean * rng.gamma(2.0, 0.5, n)), 0, 60).astype(float)
    return frame


def public(frame, **options):
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(5), **options)


def plain(frame):
    return frame.assign(b=frame["b"].astype(float), d=frame["d"].astype(float))


@pytest.mark.parametrize("name", ["logit", "probit"])
def test_with_little_noise_they_are_those_of_statsmodels(name):
    frame = rows(link=name)
    found = getattr(dpi, name)(f"b ~ {RIGHT}", public(frame), margins=True).fit(dpi.ZCDP(100))
    ordinary = getattr(smf, name)(f"b ~ {RIGHT}", plain(frame)).fit(disp=0)
    for options in ({}, {"dummy": True}, {"count": True}, {"dummy": True, "count": True}):
        mine, theirs = (one.get_margeff(**options).summary_frame() for one in (found, ordinary))
        np.testing.assert_allclose(mine["dy/dx"], theirs["dy/dx"][mine.index], atol=2.5e-3)
        np.testing.assert_allclose(mine["Std. Err."], theirs["Std. Err."][mine.index], rtol=0.08)


@pytest.mark.parametrize(
    "family",
    [sm.families.Poisson(), sm.families.NegativeBinomial(alpha=0.5), GAMMA],
    ids=lambda one: type(one).__name__,
)
def test_effects_of_a_logarithmic_link_are_averages_of_means(family):
    frame = rows().assign(y=lambda one: one["y"] + 1.0 * (family is GAMMA))
    found = dpi.glm(f"y ~ {RIGHT}", public(frame), family=family, margins=True).fit(dpi.ZCDP(10))
    b, g = found.params, frame["g"]
    predictor = b["Intercept"] + b["x"] * frame["x"] + b["d"] * frame["d"] + b["k"] * frame["k"]
    base = np.exp(predictor)
    mean = np.exp(predictor + b["C(g)[T.b]"] * (g == "b") + b["C(g)[T.c]"] * (g == "c"))
    expected = {
        "x": b["x"] * mean.mean(),
        "d": (mean * np.exp(-b["d"] * frame["d"])).mean() * np.expm1(b["d"]),
        "C(g)[T.b]": base.mean() * np.expm1(b["C(g)[T.b]"]),
        "k": mean.mean() * np.sinh(b["k"]),
    }
    effects = found.get_margeff(dummy=True, count=True).summary_frame()["dy/dx"]
    for name, value in expected.items():
        assert effects[name] == pytest.approx(value, rel=0.02)


def test_slopes_with_a_logarithmic_link_need_margins():
    data = public(rows().assign(y=lambda one: one["y"] + 1.0))
    for family in (sm.families.NegativeBinomial(alpha=0.5), GAMMA, sm.families.Poisson()):
        with pytest.raises(MissingFromReleaseError):
            dpi.glm("y ~ x", data, family=family).fit(dpi.ZCDP(1)).get_margeff()
    found = dpi.poisson("y ~ x", data, margins=True).fit(dpi.ZCDP(10))
    slope = found.get_margeff().margeff[0] / found.params["x"]
    assert slope == pytest.approx(data_mean(), rel=0.01)


def data_mean():
    return float(rows()["y"].mean() + 1.0)


def test_no_row_pays_more_than_1_and_the_dearest_pays_it():
    columns = Newton(formula=f"b ~ {RIGHT}", model="logit", margins=True)
    plan = columns.plan(Context(SCHEMA, "add_remove", dpi.ZCDP(0.1)))
    settings = {"point": [0.1, 0.5, -0.3, 0.7, 1.5, -0.2], "ends": [3.0] * 5, "offset": 0.0}
    asked = Margins(plan)._terms(settings)
    far = np.linspace(-60, 60, 24_001)
    dearest = [term.price * float(np.max(term.curve(far.copy())) ** 2) for term, _ in asked]
    assert sum(dearest) == pytest.approx(1.0, abs=1e-4)
    assert all(term.curve(far.copy()).min() >= 0 for term, _ in asked)


def test_a_twentieth_of_the_price_pays_for_them_and_tables_say_so():
    question = dpi.logit(f"b ~ {RIGHT}", public(rows(4000)), margins=True)
    context = Context(SCHEMA, "add_remove", dpi.ZCDP(0.1))
    slots = question.slots(context)
    assert sum(one.share for one in slots) == 1
    assert float(slots[-1].share) == 0.05
    assert "used 5% of the privacy budget" in " ".join(str(question.fit(dpi.ZCDP(0.1)).summary()).split())


def test_what_cannot_be_had_is_refused_by_name():
    for ask in (lambda: dpi.glm("y ~ x", margins=True), lambda: Newton(formula="y ~ x", model="huber", margins=True)):
        with pytest.raises(OptionError, match="identity link"):
            ask()
    found = dpi.logit("b ~ x + I(x**2) + d", public(rows(4000)), margins=True).fit(dpi.ZCDP(0.5))
    assert found.get_margeff(dummy=True, terms=["d"]).names == ("d",)
    with pytest.raises(
        MissingFromReleaseError, match=r"x \(in several columns of the design\).*vary with other columns"
    ):
        found.get_margeff()
    with pytest.raises(MissingFromReleaseError, match=r"d\(lny\)"):
        found.get_margeff(method="eyex", terms=["d"])
    with pytest.raises(dpi.errors.InferenceError):  # a question without them
        dpi.logit("b ~ x + I(x**2) + d", found.release).infer()


def test_survey_weights_weigh_the_average():
    frame = rows()
    schema = dpi.Schema(**{name: SCHEMA[name] for name in SCHEMA}, w=dpi.Real(0, 4))
    frame["w"] = np.where(frame["d"], 3.0, 0.5)
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(5))
    found = dpi.logit("b ~ x + d", data, weights="w", margins=True).fit(dpi.ZCDP(100))
    plainly = plain(frame)
    slopes = LINKS["logit"].inverse_deriv(sm.add_constant(plainly[["x", "d"]]).to_numpy() @ np.asarray(found.params))
    assert found.get_margeff(terms=["x"]).margeff[0] == pytest.approx(
        found.params["x"] * np.average(slopes, weights=frame["w"]), rel=0.01
    )


def test_people_pay_for_all_their_rows():
    frame = rows(4000).assign(id=np.arange(4000) // 2)
    found = dpi.logit("b ~ x + d", public(frame, id="id", max_rows=2), margins=True).fit(dpi.ZCDP(0.5))
    alone = dpi.logit("b ~ x + d", public(rows(4000)), margins=True).fit(dpi.ZCDP(0.5))
    ratio = found.release.stages[-1].noise_variances / alone.release.stages[-1].noise_variances
    np.testing.assert_allclose(ratio, 4.0, rtol=0.01)
    assert np.isfinite(found.get_margeff(dummy=True).summary_frame().to_numpy()).all()


@pytest.mark.slow
@pytest.mark.sweep(2)
def test_intervals_cover_the_average_over_the_rows():
    """The truth is the average over each data set's own rows; false alarms as `Rules` says.

    Other models are in `validation/regression/real_data.py`.
    """
    question = Newton(formula="b ~ x + d + C(g)", model="logit", margins=True)
    mean, rng, replicates, covered = LINKS["logit"].inverse, np.random.default_rng(11), 300, []
    for seed in range(replicates):
        frame = SCHEMA.sample(3000, rng)
        x, d, g = frame["x"].to_numpy(), frame["d"].to_numpy(), frame["g"].to_numpy()

        def at(d, g, x=x):
            return mean(-1.2 + x + 0.7 * d + 0.8 * (g == "b") - 0.3 * (g == "c"))

        frame["b"] = rng.random(3000) < at(d, g)
        truth = {
            "x": ((at(d, g, x + 1e-5) - at(d, g, x - 1e-5)) / 2e-5).mean(),
            "d": (at(1, g) - at(0, g)).mean(),
            "C(g)[T.b]": (at(d, "b") - at(d, "a")).mean(),
            "C(g)[T.c]": (at(d, "c") - at(d, "a")).mean(),
        }
        data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed))
        shown = question.bind(data).fit(dpi.ZCDP(0.1)).get_margeff(dummy=True).summary_frame().loc[list(truth)]
        value = np.array(list(truth.values()))
        covered.append((shown["Conf. Int. Low"] <= value) & (value <= shown["Cont. Int. Hi."]))
    assert (np.mean(covered, axis=0) >= Rules().least_coverage(replicates, 0.95)).all()
