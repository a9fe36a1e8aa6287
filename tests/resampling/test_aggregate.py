"""Sample-and-aggregate from question to results: estimates near the ordinary ones, and what is refused unpaid."""

import functools
import logging
import re
import sys
import threading
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpinfer as dpi
from dpinfer.errors import (
    FormulaError,
    InferenceError,
    NotProvedError,
    OptionError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.resampling.aggregate import sample_aggregate
from dpinfer.resampling.blocks import block_size, forecast
from dpinfer.resampling.models import BlockModel, stored_options
from tests.asking import assert_damage_is_refused
from tests.linear import gram_ols

LEVELS = ["low", "mid", "high"]
SCHEMA = dpi.Schema(
    x=dpi.Real(-2, 2),
    z=dpi.Integer(1, 9),
    b=dpi.Boolean(),
    y=dpi.Boolean(),
    count=dpi.Integer(0, 60),
    level=dpi.Category(LEVELS),
    out=dpi.Real(-50, 50),
    died=dpi.Boolean(),
    years=dpi.Real(0, 20),
)
NEARLY_EXACT = dpi.ZCDP(1e8)
PRICE = dpi.ZCDP(0.1)
UNITS = [dpi.ZCDP(0.5), dpi.GDP(1.0), dpi.ApproxDP(2.0, 1e-6), dpi.PureDP(2.0)]


def people(rows=4000, seed=5):
    rng = np.random.default_rng(seed)
    x, z, b = rng.uniform(-2, 2, rows), rng.integers(1, 10, rows), rng.integers(0, 2, rows)
    eta = 0.5 * x + 0.05 * z - 0.3 * b
    latent = eta + rng.logistic(size=rows)
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "b": b,
            "y": (latent > 0).astype(int),
            "count": rng.poisson(np.exp(eta)),
            "level": np.array(LEVELS, dtype=object)[np.digitize(latent, [-0.5, 1])],
            "out": eta + rng.standard_t(4, rows),
            "died": (rng.random(rows) < 0.7).astype(int),
            "years": rng.exponential(np.exp(-eta)),
        }
    )


FRAME = people()


def public(frame=FRAME, *, neighbors="replace_one", seed=3):
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)


def private(frame=FRAME, *, neighbors="add_remove", budget=2e4):
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(budget), neighbors=neighbors))


def ordered_rows(frame):
    return frame.assign(level=pd.Categorical(frame["level"], categories=LEVELS, ordered=True))


# Estimates


def outcomes(frame):
    codes = ordered_rows(frame)["level"].cat.codes.to_numpy()
    return sm.MNLogit(codes, sm.add_constant(frame[["x"]]))


def thresholds(frame):
    return OrderedModel(ordered_rows(frame)["level"], frame[["x"]], distr="logit")


CASES = {
    "logit": (("y ~ x + b", smf.logit, {}, {}, 50), lambda f: smf.logit("y ~ x + b", f).fit(disp=0)),
    "poisson": (("count ~ x + b", smf.poisson, {}, {}, 50), lambda f: smf.poisson("count ~ x + b", f).fit(disp=0)),
    "ols": (("out ~ x * b", sm.OLS, {}, {}, 50), lambda f: smf.ols("out ~ x * b", f).fit()),
    "median": (("out ~ x", smf.quantreg, {}, {"q": 0.5}, 16), lambda f: smf.quantreg("out ~ x", f).fit(q=0.5)),
    "outcomes": (("level ~ x", smf.mnlogit, {}, {}, 24), lambda f: outcomes(f).fit(disp=0)),
    "ordered": (
        ("level ~ x", OrderedModel, {"distr": "logit"}, {}, 16),
        lambda f: thresholds(f).fit(method="bfgs", disp=0),
    ),
    "survival": (
        ("years ~ x + b", smf.phreg, {"status": "died"}, {}, 8),
        lambda f: smf.phreg("years ~ x + b", f, status=f["died"].to_numpy()).fit(disp=0),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_with_a_generous_price_the_estimates_are_nearly_those_of_all_rows(name):
    (formula, model, options, fit_options, blocks), ordinary = CASES[name]
    frame = FRAME.head(2400) if name == "survival" else FRAME  # its fits take longer
    found = sample_aggregate(
        formula,
        public(frame),
        model=model,
        bounds=(-8, 8),
        blocks=blocks,
        model_options=options,
        fit_options=fit_options,
        n_jobs=1,
    ).fit(NEARLY_EXACT)
    expected = ordinary(frame)
    params, error = np.ravel(expected.params, order="F"), np.ravel(expected.bse, order="F")
    assert len(found.params) == len(params)
    # the seeds are fixed; over seeds the difference has a standard deviation of 0.1 to 0.7 standard errors
    np.testing.assert_allclose((found.params - params) / error, 0, atol=1.2)
    np.testing.assert_allclose(found.bse / error, 1, atol=0.5)
    assert (found.noise_share < 0.001).all()
    assert (found.conf_int()[0] < found.params).all()
    assert found.nobs == len(frame)


def test_a_function_of_ones_own():
    def slope_and_spread(rows):
        return pd.Series([np.polyfit(rows["x"], rows["out"], 1)[0], rows["out"].std()])

    found = sample_aggregate(
        ["x", "out"], public(), model=slope_and_spread, bounds={"slope": (-3, 3), "spread": (0, 9)}, blocks=40
    ).fit(NEARLY_EXACT)
    assert list(found.params.index) == ["slope", "spread"]
    assert found.params["slope"] == pytest.approx(np.polyfit(FRAME["x"], FRAME["out"], 1)[0], abs=0.01)
    assert found.params["spread"] == pytest.approx(FRAME["out"].std(), abs=0.03)
    assert (found.model_name, found.response) == ("Private slope_and_spread", "slope_and_spread")


def shifted(rows, by):
    return [rows["x"].mean() + by]


def test_a_function_with_bound_arguments_and_without_a_name():
    found = sample_aggregate(
        ["x"], public(), model=functools.partial(shifted, by=3.0), names=["m"], bounds=(0, 9), blocks=20
    ).fit(NEARLY_EXACT)
    assert found.params["m"] == pytest.approx(FRAME["x"].mean() + 3, abs=0.01)
    assert found.model_name == "Private partial"


def test_parameters_take_the_names_that_are_given():
    bounds = {("slope", "height"): dpi.Ball(4)}
    question = sample_aggregate("y ~ x", public(), model=smf.logit, names=["height", "slope"], bounds=bounds, blocks=40)
    expected = smf.logit("y ~ x", FRAME).fit(disp=0)
    np.testing.assert_allclose(question.fit(NEARLY_EXACT).params[["height", "slope"]], expected.params, atol=0.05)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_confidential_rows_give_the_same_estimates(neighbors):
    data = private(neighbors=neighbors, budget=2e8)
    question = sample_aggregate("y ~ x", data, model=smf.logit, bounds=(-4, 4), blocks=40, n_jobs=1)
    found = question.fit(NEARLY_EXACT)
    expected = smf.logit("y ~ x", FRAME).fit(disp=0)
    # secret blocks: the difference has standard deviation 0.3 (measured), so that 1.8 is about six
    np.testing.assert_allclose((found.params - expected.params) / expected.bse, 0, atol=1.8)
    assert data.ledger.spent == NEARLY_EXACT
    assert len(found.release.charge_ids) == 1
    assert not found.release.public
    assert "none" not in str(found.summary()).split("Guarantee:")[1].splitlines()[0]


def test_where_leaves_out_rows():
    question = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4), blocks=30, where="z > 4")
    found = question.fit(NEARLY_EXACT)
    expected = smf.logit("y ~ x", FRAME[FRAME["z"] > 4]).fit(disp=0)
    np.testing.assert_allclose((found.params - expected.params) / expected.bse, 0, atol=0.7)
    assert "Rows: z > 4." in found.notes
    assert set(found.release.schema) == {"x", "y", "z"}
    nobody = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4), blocks=30, where="z > 9")
    assert "gave no finite estimate" in str(nobody.fit(NEARLY_EXACT).flags)


@pytest.mark.slow
def test_half_blocks_take_off_the_bias_of_small_blocks():
    bias = {"half_blocks": [], "none": []}
    for seed in range(4):
        rows = people(12_000, seed)
        expected = smf.logit("y ~ x", rows).fit(disp=0).params["x"]
        for correction, found in bias.items():
            question = sample_aggregate(
                "y ~ x", public(rows), model=smf.logit, bounds=(-8, 8), blocks=100, bias_correction=correction
            )
            results = question.fit(NEARLY_EXACT)
            found.append(results.params["x"] - expected)
            assert ("bias-corrected" in str(results.notes)) == (correction == "half_blocks")
    # about 0.013 without, 0 with; standard deviations 0.002 and 0.005 over seeds, which are fixed
    assert np.mean(bias["none"]) > 0.008
    assert abs(np.mean(bias["half_blocks"])) < 0.5 * np.mean(bias["none"])


@pytest.mark.parametrize(
    ("model", "formula"), [(smf.logit, "y ~ x"), (smf.poisson, "count ~ x"), (smf.probit, "y ~ x")]
)
def test_blocks_of_a_logit_are_firths_where_bias_is_corrected(model, formula):
    for correction in ("half_blocks", "none"):
        data = public()
        question = sample_aggregate(formula, data, model=model, bounds=(-5, 5), blocks=20, bias_correction=correction)
        units = question.units(question.measurement(dpi.ZCDP(1.0)).context)
        known, corrected = model is not smf.probit, correction == "half_blocks"
        assert units.trusted == known
        assert getattr(units.estimator, "reduced", False) == (known and corrected)
        assert getattr(units.half_estimator, "half", False) == known


@pytest.mark.slow
def test_a_wide_region_costs_little_where_blocks_are_located():
    def errors(aggregator, radius):
        """Standard errors, averaged over the noise of eight releases."""
        found = [
            sample_aggregate("y ~ x", public(seed=s), model=smf.logit, bounds=dpi.Ball(radius), blocks=60,
                             aggregator=aggregator).fit(dpi.ZCDP(1.0)).bse
            for s in range(8)
        ]  # fmt: skip
        return np.mean(found, axis=0)

    assert (errors("winsorized", 50) < 0.1 * errors("mean", 50)).all()
    assert (errors("winsorized", 50) < 1.5 * errors("winsorized", 5)).all()


# Prices, units and neighbours


@pytest.mark.parametrize(("unit", "neighbors"), list(zip(UNITS, NEIGHBORS * 2, strict=True)), ids=str)
def test_every_unit_and_relation(unit, neighbors):
    data = public(neighbors=neighbors)
    question = sample_aggregate("y ~ x", data, model=smf.logit, bounds=dpi.Ball(4), blocks=60)
    found = question.fit(unit)
    assert found.release.law.family == ("laplace" if isinstance(unit, dpi.PureDP) else "gaussian")
    assert str(found.release.cost.price) == str(unit)
    assert np.isfinite(found.conf_int()).all(axis=None)
    assert found.release.nobs == (len(FRAME) if neighbors == "replace_one" else None)
    assert hasattr(found, "nobs") == (neighbors == "replace_one")
    both = [question.measurement(unit, schema=SCHEMA, neighbors=relation).law for relation in NEIGHBORS]
    assert both[0] == both[1]


def test_a_better_price_means_less_noise():
    question = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4), blocks=60, aggregator="mean")
    for prices in ([dpi.ZCDP(0.01), dpi.ZCDP(0.1), dpi.ZCDP(1)], [dpi.PureDP(0.1), dpi.PureDP(1), dpi.PureDP(10)]):
        found = [question.measurement(price) for price in prices]
        noise = [one.law.variances * np.asarray(one.steps) ** 2 for one in found]
        assert (noise[0] > 4 * noise[1]).all()
        assert (noise[1] > 4 * noise[2]).all()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: type(unit).__name__)
@pytest.mark.parametrize("blocks", [8, 60, 2000])
def test_the_price_is_divided_whole(unit, blocks):
    question = sample_aggregate("y ~ x", model=smf.logit, bounds=dpi.Ball(4), blocks=blocks)
    context = Context(SCHEMA, "add_remove", unit)
    plan = question.plan(context)
    assert question.plan(context) is plan
    shares = plan.shares
    sums, counts = plan.moments().measure.shares
    assert sums + counts == pytest.approx(1, abs=1e-12)
    assert min(shares.octaves, shares.places) >= 0
    assert (shares.octaves > 0) == (shares.places > 0) == plan.located
    assert shares.octaves + shares.places <= Fraction(4, 10) + Fraction(1, 10**6)
    assert shares.moments * Fraction(sums) > Fraction(1, 2)
    assert blocks != 2000 or shares.places >= Fraction(1, 100)
    assert blocks != 8 or shares.places == 0
    slots = question.resolve(context).slots(context)
    assert sum(slot.share for slot in slots) == 1
    assert len(slots) == (3 if shares.places > 0 else 1)


def test_a_small_price_falls_back_to_the_region_and_says_so():
    question = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=(-4, 4), blocks=40)
    small, large = dpi.ZCDP(1e-4), dpi.ZCDP(5)
    assert "is too small to locate" in question.explain(small)
    assert "is too small" not in question.explain(large)
    assert "bounded by the declared region" in question.fit(small).notes[0]
    assert "winsorized around" in question.fit(large).notes[0]
    asked = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=(-4, 4), blocks=40, aggregator="mean")
    assert "is too small" not in asked.explain(small)
    assert asked.measurement(small).law == question.measurement(small).law


def test_the_noise_that_explain_tells_is_that_of_the_results():
    bounds = {"x": (-1, 2), "Intercept": (-9, 9)}
    question = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=bounds, blocks=40)
    told = question.explain(dpi.ZCDP(1e-3)).splitlines()[-1]
    expected = {name: float(value) for name, value in re.findall(r"(\w+) ([\d.e+-]+)(?:,|$)", told)}
    assert expected == pytest.approx(question.fit(dpi.ZCDP(1e-3)).bse_noise.to_dict(), rel=1e-3)
    assert set(expected) == {"Intercept", "x"}


@pytest.mark.slow
def test_the_ratio_that_explain_tells_is_nearly_that_of_the_results():
    def asked(seed):
        return sample_aggregate("y ~ x", public(seed=seed), model=smf.logit, bounds=dpi.Ball(4), blocks=60)

    told = re.search(r"estimate: ([\d.]+) to ([\d.]+) times its sampling", asked(3).explain(dpi.ZCDP(20)))
    least, most = map(float, told.groups())
    found = [asked(seed).fit(dpi.ZCDP(20)) for seed in range(3, 9)]
    # noise in the products lets one release know the spread of 60 blocks to a quarter, the mean of six to a tenth
    noise, sampling = sum(one.bse_noise for one in found), sum(one.bse_sampling for one in found)
    assert (noise / sampling).between(0.8 * least, 1.3 * most).all()


def test_names_of_another_number_than_the_parameters_are_refused():
    data = private(FRAME)
    for names, formula in ((["a", "b", "c"], "y ~ x"), (["a"], "y ~ x"), (["a", "b", "c"], "y ~ x + undeclared")):
        with pytest.raises((OptionError, FormulaError), match=r"names|undeclared"):
            sample_aggregate(formula, data, model=smf.logit, bounds=dpi.Ball(4), blocks=20, names=names)
    assert data.ledger.charges().empty


def test_a_release_of_another_question_is_refused():
    release = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4), blocks=20).measure(PRICE)
    logit = functools.partial(sample_aggregate, "y ~ x", model=smf.logit, bounds=dpi.Ball(4))
    for question in (
        sample_aggregate("count ~ z", release, model=smf.poisson, bounds=dpi.Ball(4), blocks=20),
        logit(data=release, where="z > 4"),
        logit(data=release, fit_options={"maxiter": 9}),
        logit(data=dpi.mean("x", public()).measure(PRICE)),
    ):
        with pytest.raises(InferenceError, match="another question"):
            question.infer()
    assert release.infer().params.index.tolist() == ["Intercept", "x"]


def test_the_number_of_rows_is_read_from_a_gram():
    gram = dpi.gram(["x", "out"], public()).measure(dpi.ZCDP(10))
    question = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4), nobs=gram)
    assert question.measurement(PRICE).question["nobs"] == pytest.approx(len(FRAME), abs=20)


def test_a_question_that_is_resolved_is_resolved_anew_for_another_price():
    question = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4), blocks=40)
    large, small = (Context(SCHEMA, "replace_one", price, 4000, public=True) for price in (dpi.ZCDP(5), dpi.ZCDP(1e-4)))
    assert question.resolve(large).aggregator == "winsorized"
    assert question.resolve(large) is question.resolve(large)
    release = question.resolve(large).measure(small.privacy)
    assert release.question["aggregator"] == "mean"
    assert release.infer().notes == question.fit(small.privacy).notes


def test_options_are_stored_by_name_and_compared():
    def asked(q, data):
        options = {"model": smf.quantreg, "fit_options": {"q": q}, "bounds": (-8, 8), "blocks": 16}
        return sample_aggregate("out ~ x", data, **options)

    release = asked(0.5, public()).measure(PRICE)
    assert release.question["fit_options"] == {"q": "0.5"}
    assert asked(np.float64(0.5), release).infer().params.equals(release.infer().params)
    for other in (0.25, "0.5"):
        with pytest.raises(InferenceError, match="another question"):
            asked(other, release).infer()
    family = sample_aggregate("y ~ x", model=smf.glm, bounds=(-8, 8), model_options={"family": sm.families.Binomial()})
    assert family.to_dict()["model_options"] == {"family": "Binomial"}
    assert family.to_dict()["model"] == "GLM"


def test_options_that_are_texts_are_told_from_numbers():
    texts = ["1", "1.0", "1e3", "nan", "-inf", "None", "True", "'1'", '"1"', "logit", "", "b c", "1_0"]
    others = [1, 1.0, 1000.0, float("nan"), float("-inf"), None, True, 10]
    stored = [stored_options({"one": value})["one"] for value in (*texts, *others)]
    assert len(set(stored)) == len(stored)
    assert stored_options({"a": "logit", "b": "", "c": "b c", "d": 1, "e": None, "f": True, "g": np.float64(0.5)}) == {
        **{"a": "logit", "b": "", "c": "b c", "d": "1", "e": "None", "f": "True", "g": "0.5"}
    }


def test_options_are_read_when_they_are_given():
    options = {"q": 0.5}
    question = sample_aggregate(
        "out ~ x", public(), model=smf.quantreg, bounds=(-8, 8), blocks=16, fit_options=options
    ).bind(None)
    options["q"] = 0.9
    found = question.bind(public()).fit(NEARLY_EXACT)
    # fixed seeds; errors of a Student t with 4 degrees of freedom have their upper decile at 1.5
    assert found.params["Intercept"] == pytest.approx(smf.quantreg("out ~ x", FRAME).fit(q=0.5).params.iloc[0], abs=0.3)


def test_a_model_is_prepared_and_a_price_divided_once(monkeypatch):
    made = []
    module = sys.modules[BlockModel.__module__]
    probe = module.probe_names
    monkeypatch.setattr(module, "probe_names", lambda *args: made.append(args) or probe(*args))
    question = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4), blocks=40)
    question.explain(dpi.ZCDP(1.0))
    question.measure(dpi.ZCDP(1.0))
    question.bind(public(neighbors="add_remove")).measure(dpi.ZCDP(2.0))
    assert len(made) == 1


class _Explodes:
    """Can be sent to another process, and not be loaded there."""

    def __call__(self, rows):
        return [0.0]

    def __reduce__(self):
        return _explode, ()


def _explode():
    raise RuntimeError("not here")


def test_a_model_that_cannot_be_loaded_again_is_refused_before_it_is_paid():
    data = private(FRAME)
    question = sample_aggregate(["x"], data, model=_Explodes(), bounds={"mean": (0, 1)}, blocks=20)
    with pytest.raises(OptionError, match=r"model=.*load"):
        question.fit(PRICE)
    assert data.ledger.charges().empty


def test_a_level_that_a_block_lacks_makes_no_estimate_of_zero():
    rng = np.random.default_rng(8)
    x, rare = rng.normal(size=4000), rng.random(4000) < 0.03
    rows = pd.DataFrame({"x": x, "g": np.where(rare, "w", "v"), "out": 0.5 * x + 2 * rare + rng.normal(size=4000)})
    schema = dpi.Schema(x=dpi.Real(-6, 6), g=dpi.Category(["v", "w"]), out=dpi.Real(-20, 20))
    data = dpi.PublicData(rows, schema, rng=rng)
    found = sample_aggregate("out ~ x + g", data, model=smf.ols, blocks=60, bounds=(-8, 8)).fit(NEARLY_EXACT)
    assert found.params["g[T.w]"] == pytest.approx(2.0, abs=4 * found.bse["g[T.w]"])
    assert any("no finite estimate" in flag for flag in found.flags)


# The number of blocks


@pytest.mark.parametrize("correction", ["half_blocks", "none"])
@pytest.mark.parametrize("rows", [2_000, 50_000, 3_000_000])
def test_auto_takes_blocks_of_the_advised_size(rows, correction):
    question = sample_aggregate("y ~ x", model=smf.logit, bounds=dpi.Ball(4), nobs=rows, bias_correction=correction)
    measured = question.measurement(PRICE, schema=SCHEMA, neighbors="add_remove")
    assert measured.question["blocks"] == int(rows / block_size(rows, 2, halves=correction == "half_blocks"))
    assert measured.question["nobs"] == rows


def test_the_number_of_rows_is_public_under_replace_one_alone():
    for neighbors in NEIGHBORS:
        question = sample_aggregate("y ~ x", model=smf.logit, bounds=dpi.Ball(4)).bind
        if neighbors == "replace_one":
            blocks = question(public(neighbors=neighbors)).measurement(PRICE).question["blocks"]
            assert blocks == int(4000 / block_size(4000, 2, halves=True))
        else:
            measured = question(public(neighbors=neighbors)).measurement(PRICE)
            assert measured.question["blocks"] == "auto"
            assert measured.blocks.count is None


def counted(data, **options):
    """Blocks whose number is read from a noisy count."""
    return sample_aggregate("y ~ x", data, model=smf.logit, bounds=dpi.Ball(4), n_jobs=1, **options)


@pytest.mark.parametrize("aggregator", ["winsorized", "mean"])
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: type(unit).__name__)
def test_a_confidential_number_of_rows_is_counted_for_the_same_charge(unit, aggregator):
    data = dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(unit))
    question = counted(data, aggregator=aggregator)
    found = question.fit(unit)
    assert data.ledger.charges()["price"].tolist() == [unit]
    assert len(data.ledger.charges()) == len(found.release.charge_ids) == 1
    stages = found.release.stages
    assert len(stages) == (4 if aggregator == "winsorized" else 2)
    (rows,) = stages[0].array
    blocks = stages[-1].settings["blocks"]
    assert blocks == int(rows / block_size(rows, 2, halves=True))
    # a fiftieth of the smallest price: standard deviation at most 71 rows; 12 of them
    assert rows == pytest.approx(4000, abs=850)
    assert found.nobs == rows
    assert "(noisy)" in str(found.summary())
    assert f"the mean of the estimates of {blocks} secret blocks" in found.notes[0]
    again = dpi.Release.from_json(found.release.to_json()).infer()
    pd.testing.assert_frame_equal(again.summary_frame(), found.summary_frame())


def test_what_a_count_of_rows_takes_of_the_price_does_not_depend_on_it():
    question, people_schema = counted(None), SCHEMA.with_people("id", 3)
    with pytest.raises(OptionError, match="public under replace_one"):
        question.measurement(PRICE, schema=SCHEMA, neighbors="replace_one")
    for schema, neighbors in ((SCHEMA, "add_remove"), *((people_schema, relation) for relation in NEIGHBORS)):
        measured = question.measurement(PRICE, schema=schema, neighbors=neighbors)
        assert [slot.adaptive for slot in measured.slots] == [False, False, True, True]
        assert sum(slot.share for slot in measured.slots) == 1
        assert measured.slots[0].share == Fraction(1, 50)
        assert measured.costs[0].rho <= Fraction(1, 500)
    first = [question.measurement(PRICE, schema=schema).stages[0] for schema in (SCHEMA, people_schema)]
    one, many = (stage.law.scales[0] * stage.steps[0] for stage in first)
    assert many == pytest.approx(3 * one, rel=1e-6)


@pytest.mark.parametrize(("rows", "drops", "blocks"), [(4000, 0, 66), (4000, 3000, 16), (3, 0, 8), (0, 0, 8)])
def test_rows_in_no_block_are_not_counted_and_few_rows_make_the_fewest_blocks(rows, drops, blocks):
    frame = FRAME.head(rows).copy()
    frame.loc[: drops - 1, "x"] = np.nan
    found = counted(public(frame, neighbors="add_remove")).fit(dpi.ZCDP(1e4))
    assert found.release.stages[0].array[0] == pytest.approx(rows - drops, abs=1)
    assert found.release.stages[-1].settings["blocks"] == blocks
    assert any("rows are recommended" in flag for flag in found.flags) == (rows < 4000)
    where = counted(public(frame, neighbors="add_remove"), where="z > 4").measure(dpi.ZCDP(1e4))
    kept = frame.dropna()["z"].gt(4).sum()
    assert where.stages[0].array[0] == pytest.approx(kept, abs=1)


def test_a_damaged_number_of_blocks_is_refused():
    release = counted(public(neighbors="add_remove")).measure(PRICE)
    assert_damage_is_refused(release, {"/stages.-1.settings.blocks": [3, True, 2.0**20, None]}, "blocks")


def test_explain_tells_of_several_numbers_of_rows_where_none_is_public():
    told = counted(private()).explain(dpi.ZCDP(0.5))
    assert "chosen from a noisy count of rows (0.02 of the privacy budget)" in told
    assert "n = 1,000: 16 blocks" in told
    assert "(Intercept, x) within 4 of 0" in told
    assert "secret blocks" in told
    assert "n = 100,000: " in told


# What explain forecasts


FAMILIES, LINKS = sm.families, sm.families.links
PREDICTORS = [
    (smf.logit, "y ~ x", {}, "logit", "logit"),
    (sm.Logit, "y ~ x", {}, "logit", "logit"),
    (smf.probit, "y ~ x", {}, "probit", "probit"),
    (smf.poisson, "count ~ x", {"exposure": "years"}, "poisson", "log"),
    (smf.ols, "out ~ x", {}, "ols", "identity"),
    (smf.quantreg, "out ~ x", {}, "quantreg", "identity"),
    (smf.rlm, "out ~ x", {}, "rlm", "identity"),
    (smf.rlm, "out ~ x", {"M": sm.robust.norms.TukeyBiweight()}, None, "identity"),
    (smf.glm, "out ~ x", {}, "glm", "identity"),
    (smf.glm, "y ~ x", {"family": FAMILIES.Binomial()}, "glm", "logit"),
    (smf.glm, "y ~ x", {"family": FAMILIES.Binomial(LINKS.Probit())}, "glm", "probit"),
    (smf.glm, "count ~ x", {"family": FAMILIES.Poisson()}, "glm", "log"),
    (smf.glm, "count ~ x", {"family": FAMILIES.Poisson(LINKS.Sqrt())}, None, None),
    (smf.wls, "out ~ x", {"weights": "years"}, None, "identity"),
    (smf.negativebinomial, "count ~ x", {}, None, None),
    (smf.mnlogit, "level ~ x", {}, None, None),
    (OrderedModel, "level ~ x", {}, None, None),
]


@pytest.mark.parametrize(("model", "formula", "options", "own", "link"), PREDICTORS)
def test_the_librarys_own_regression_is_named_and_the_link_of_one_predictor_known(model, formula, options, own, link):
    question = sample_aggregate(formula, model=model, model_options=options, bounds=(-9, 9), blocks=8)
    told = re.findall(r"dpi\.\w+ fits this model", question.explain(PRICE, schema=SCHEMA))
    assert told == ([f"dpi.{own} fits this model"] if own else [])
    assert question.measurement(PRICE, schema=SCHEMA).question["link"] == link


def test_a_summary_names_the_librarys_own_regression():
    found = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4), blocks=40).fit(PRICE)
    assert any("dpi.logit fits this model" in note for note in found.notes)
    assert found.notes == found.release.infer().notes
    mean = sample_aggregate(["x"], public(), model=middle, names=["m"], bounds=(-2, 2), blocks=40).fit(PRICE)
    assert "fits this model" not in str(mean.notes)


def test_the_probability_of_not_locating_falls_with_the_price_and_the_error_with_it():
    question = sample_aggregate("y ~ x + z + b", model=smf.logit, bounds=(-9, 9), blocks=60)
    told = []
    for rho in (0.9, 2.0, 20.0):
        context = Context(SCHEMA, "add_remove", dpi.ZCDP(rho))
        found = forecast(question.plan(context), draws=100)
        each, anywhere = found.missed.mean(), found.missed.any(axis=1).mean()
        told.append((each, anywhere, found.expected_error(16.0)))
        assert found.expected_error(64.0) >= found.expected_error(16.0) >= found.expected_error(4.0) >= 0.9
        assert each <= anywhere <= 4 * each
    assert told == sorted(told, reverse=True)
    assert told[0][1] > 0.05
    assert told[-1][0] == 0


def test_a_number_of_rows_comes_from_a_release_or_results():
    data = public(neighbors="add_remove")
    counted, regression = dpi.count(data).fit(dpi.ZCDP(1e6)), gram_ols("out ~ x", data).fit(dpi.ZCDP(1e6))
    known = dpi.mean("x", public()).measure(dpi.ZCDP(1.0))
    for given in (counted, counted.release, regression, regression.release, known, np.float64(4000), 4000):
        question = sample_aggregate("y ~ x", data, model=smf.logit, bounds=dpi.Ball(4), nobs=given)
        assert question.measurement(PRICE).question["nobs"] == pytest.approx(4000, abs=0.5)
    noisy = dpi.count(data).fit(dpi.ZCDP(1e-3))
    question = sample_aggregate("y ~ x", data, model=smf.logit, bounds=dpi.Ball(4), nobs=noisy)
    assert question.measurement(PRICE).question["nobs"] == noisy.nobs != 4000


# What is refused, and costs nothing


class NoFormula:
    """A class without a formula."""


def with_lock():
    lock = threading.Lock()

    def locked(rows):
        return [float(lock.locked())]

    return locked


def middle(rows):
    return [rows["x"].mean()]


def refused(changes, error, option, message):
    """Refused before anything is spent, with the name of the argument."""
    data = private()
    arguments = {"formula": "y ~ x", "model": smf.logit, "bounds": dpi.Ball(4), "blocks": 40, "n_jobs": 1, **changes}
    formula = arguments.pop("formula")
    with pytest.raises(error, match=message) as caught:
        sample_aggregate(formula, data, **arguments).fit(PRICE)
    if error is OptionError:
        assert caught.value.option == option
    assert option in str(caught.value)
    assert data.ledger.spent == dpi.ZCDP(0)
    assert len(data.ledger.charges()) == 0


FUNCTION = {"formula": ["x"], "model": middle, "bounds": (-2, 2)}
NAMED = {**FUNCTION, "names": ["m"]}
TWO = {"Intercept": (-1, 1), "x": (-1, 1)}
BAD = [
    ("bounds", "region declared in advance", [None]),
    ("bounds", "lower end below the upper", [(1, -1), (1, 1), TWO | {"x": (2, 1)}]),
    ("bounds", "finite", [(-np.inf, 1), (0, np.nan)]),
    ("bounds", "none for Intercept", [{"x": (-1, 1)}]),
    ("bounds", "none for Intercept, x", [{}]),
    ("bounds", "names of parameters; they are Intercept, x", [TWO | {"w": (0, 1)}]),
    ("bounds", "several for x", [{("Intercept", "x"): (-1, 1), "x": (-1, 1)}]),
    ("bounds", "each a number or 2 of them", [([-1, -1, -1], [1, 1, 1])]),
    ("bounds", "Ball", ["wide", 4, (1, 2, 3)]),
    ("blocks", "at most 333: blocks of at least 12 rows for 2 parameters", [400]),
    ("blocks", "from 8 to", [7, 2**20 + 1]),
    ("blocks", "whole number", [20.0, True]),
    ("blocks", "auto", ["many", None]),
    ("model", "statsmodels model class", [NoFormula, dict, "logit", None, 3]),
    ("aggregator", "'winsorized', 'mean'", ["median", ["mean"]]),
    ("bias_correction", "'half_blocks', 'none'", ["jackknife", None]),
    ("inference", "'auto', 'wald'", ["score"]),
    ("n_jobs", "processes", [0, 1.5]),
    ("nobs", "number of rows", ["4000", True]),
    ("nobs", "at least 1", [0, np.nan, np.inf]),
    ("nobs", "release that holds one", [object()]),
    ("model_options", "mapping", [[1]]),
    ("fit_options", "mapping", ["bfgs"]),
    ("formula", "a formula such as", [["y", "x"], "x"]),
    ("formula", "list of distinct texts", [None, []]),
    ("where", "a condition", [3]),
]


@pytest.mark.parametrize(("option", "message", "values"), BAD)
def test_options_that_do_not_suit_are_refused_before_they_cost(option, message, values):
    for value in values:
        refused({"nobs": 4000, option: value}, OptionError, option, re.escape(message))


@pytest.mark.parametrize(
    ("changes", "error", "option", "message"),
    [
        ({"bounds": dpi.Ball(4, [0, 0, 0])}, OptionError, "center", "one number, or 2: Intercept, x"),
        ({"formula": "secret ~ other"}, FormulaError, "secret ~ other", "names no declared column; these are x, z"),
        ({"formula": "y ~ x + secret"}, FormulaError, "y ~ x + secret", "rows drawn from the schema"),
        ({"formula": "level ~ x"}, FormulaError, "level ~ x", "rows drawn from the schema"),
        ({"fit_options": {"method": "mine"}}, FormulaError, "y ~ x", "method must be one of"),
        ({"model": smf.glm, "model_options": {"family": "gamma"}}, FormulaError, "y ~ x", "GLM cannot be fitted"),
        ({"model": smf.mnlogit, "formula": "out ~ x"}, SchemaError, "out", "as Category"),
        ({"model": smf.mixedlm, "model_options": {"groups": "z"}}, NotProvedError, "MixedLM", "rows individually"),
        ({"model": smf.gee, "model_options": {"groups": "z"}}, NotProvedError, "GEE", "rows individually"),
        ({"model_options": {"offset": "secret"}}, UnknownColumnError, "secret", "not in the schema"),
        ({"where": "secret > 1"}, UnknownColumnError, "secret", "not in the schema"),
        ({"where": "x >"}, FormulaError, "x >", "not a valid expression"),
        *(({**FUNCTION, "names": one}, OptionError, "names", "distinct") for one in ("m", [], ["m", "m"], [1])),
        ({"blocks": "auto", "nobs": 100}, OptionError, "blocks", "100 are too few for 2 parameters"),
        ({"blocks": 700, "bias_correction": "none", "nobs": 4000}, OptionError, "blocks", "at most 666: blocks of at"),
        ({**FUNCTION}, OptionError, "names", "its length must be known"),
        ({**FUNCTION, "names": ["m", "s"], "bounds": {"m": (0, 1)}}, OptionError, "bounds", "none for s"),
        ({**NAMED, "bounds": {"s": (0, 1)}}, OptionError, "bounds", "they are m"),
        ({**NAMED, "model_options": {"q": 1}}, OptionError, "model_options", "partial"),
        ({**NAMED, "fit_options": {"q": 1}}, OptionError, "model_options", "partial"),
        ({**NAMED, "formula": ["x", "secret"]}, UnknownColumnError, "secret", "it has: x, z"),
        ({**NAMED, "model": with_lock()}, OptionError, "model", "cannot be pickled: TypeError"),
        ({**NAMED, "model": with_lock()}, OptionError, "model", "open files within the function"),
    ],
)
def test_what_does_not_suit_is_refused_before_it_costs(changes, error, option, message):
    refused(changes, error, option, re.escape(message))


def test_what_can_be_seen_without_a_schema_is_refused_without_one():
    for changes in ({"bounds": None}, {"aggregator": "median"}, {"blocks": 3}, {"model": NoFormula}, {"nobs": -1}):
        with pytest.raises(OptionError, match=next(iter(changes))):
            sample_aggregate("y ~ x", **{"model": smf.logit, "bounds": dpi.Ball(4), **changes})


def test_a_release_is_inferred_from_without_rows():
    question = sample_aggregate("y ~ x", public(), model=smf.logit, bounds=dpi.Ball(4))
    release = question.measure(dpi.ZCDP(1.0))
    pd.testing.assert_frame_equal(question.bind(release).infer().summary_frame(), release.infer().summary_frame())
    pd.testing.assert_frame_equal(question.infer(release).summary_frame(), release.infer().summary_frame())
    with pytest.raises(OptionError, match="release only infers"):
        question.bind(release).fit(PRICE)


# Functions that misbehave


class Odd:
    """Well-behaved, or not where the mean of a block says so."""

    def __init__(self, how):
        self.how = how

    def __call__(self, rows):
        value = float(rows["x"].mean())
        if value > 0:
            with_rows = f"confidential: {rows['x'].iloc[0]}"
            if self.how == "raises":
                raise RuntimeError(with_rows)
            if self.how == "prints":
                print(with_rows)  # noqa: T201
                print(with_rows, file=sys.stderr)  # noqa: T201
            if self.how == "warns":
                warnings.warn(with_rows, stacklevel=1)
                np.log(np.zeros(1))
            if self.how == "exits":
                sys.exit(with_rows)
            return {"nan": [np.nan], "long": [0.0, 1.0], "text": [with_rows], "nothing": None}.get(self.how, [value])
        return [value]


@pytest.mark.parametrize("how", ["raises", "prints", "warns", "exits", "nan", "long", "text", "nothing"])
def test_a_function_that_misbehaves_looks_like_one_that_works(how, capfd, recwarn):
    def asked(function):
        return sample_aggregate(["x"], public(seed=9), model=function, names=["m"], bounds=(-2, 2), blocks=30)

    odd, good = asked(Odd(how)).measure(dpi.ZCDP(5.0)), asked(Odd("works")).measure(dpi.ZCDP(5.0))
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    assert "confidential" not in odd.to_json()
    assert (odd.question, odd.cost) == (good.question, good.cost)
    assert len(odd.stages) == len(good.stages) == 3
    for one, other in zip(odd.stages[::2], good.stages[::2], strict=True):
        assert (one.names, one.steps, one.law) == (other.names, other.steps, other.law)
        assert one.settings.keys() == other.settings.keys()
    # Noisy scales choose how many bins tell the place; their noise is the same.
    assert {*odd.stages[1].law.scales} == {*good.stages[1].law.scales}
    if how in ("prints", "warns"):
        assert odd.array.tolist() == good.array.tolist()
    assert len(odd.infer().params) == 1


@pytest.mark.slow
def test_a_function_that_misbehaves_on_confidential_rows_shows_nothing(capfd, caplog, recwarn):
    def wild(rows):
        import os  # in another process, which need not know this module

        os.write(2, b"confidential")
        logging.getLogger().critical("confidential")
        if rows["x"].mean() > 0:
            os._exit(3)
        return [0.0, 1.0] if len(rows) % 2 else [rows["x"].mean()]

    data = private(FRAME[:400])
    question = sample_aggregate(["x"], data, model=wild, names=["m"], bounds=(-2, 2), blocks=8, n_jobs=1)
    found = question.fit(dpi.ZCDP(1e4))
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    assert not caplog.records
    assert data.ledger.spent == dpi.ZCDP(1e4)
    assert "confidential" not in found.release.to_json()
    # a block fails with probability 3/4 and a single one is told: false alarms below 1e-4
    assert "gave no finite estimate" in str(found.flags)
