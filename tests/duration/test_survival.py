"""Survival from end to end: equality with statsmodels where noise is off, conventions, flags and refusals."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import dpinfer as dpi
from dpinfer.errors import FormulaError, InferenceError, NotProvedError, OptionError, SchemaError, UnknownColumnError
from tests.asking import assert_refused, each

mpl.use("Agg")

NO_NOISE = dpi.ZCDP(1e12)
SCHEMA = dpi.Schema(
    t=dpi.Real(0, 60),
    months=dpi.Integer(0, 60),
    died=dpi.Boolean(),
    status=dpi.Integer(0, 1),
    arm=dpi.Category(["a", "b"]),
    old=dpi.Boolean(),
)


def rows(n=3000, seed=1):
    rng = np.random.default_rng(seed)
    arm = rng.choice(["a", "b"], n)
    life, followed = rng.exponential(np.where(arm == "a", 25, 45)), rng.uniform(0, 70, n)
    t, died = np.minimum(np.minimum(life, followed), 60), (life <= followed) & (life <= 60)
    months = np.ceil(t).astype(int)
    return pd.DataFrame({"t": t, "months": months, "died": died, "status": died.astype(int), "arm": arm,
                         "old": rng.random(n) < 0.5, "id": np.arange(n)})  # fmt: skip


def data(neighbors="add_remove", frame=None, **options):
    frame = rows() if frame is None else frame
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors, **options)


def heart():
    found = sm.datasets.heart.load_pandas().data
    frame = pd.DataFrame(
        {"days": found["survival"].astype(int), "died": found["censors"] == 1, "old": found["age"] > 48}
    )
    schema = dpi.Schema(days=dpi.Integer(0, 1800), died=dpi.Boolean(), old=dpi.Boolean())
    return frame, dpi.PublicData(frame, schema, rng=np.random.default_rng(1))


def test_without_noise_it_is_statsmodels():
    frame, public = heart()
    grid = sorted(set(frame["days"]))[1:]
    frame["days"] = frame["days"].clip(lower=grid[0])
    public = dpi.PublicData(frame, public.schema, rng=np.random.default_rng(1))
    results = dpi.survival("days", "died", public, times=grid, inference="log-log").fit(NO_NOISE)
    theirs = SurvfuncRight(frame["days"], frame["died"].astype(int))
    ours = results.frame().loc[theirs.surv_times]
    np.testing.assert_allclose(ours["survival"], theirs.surv_prob, atol=1e-6)
    np.testing.assert_allclose(ours["std err"], theirs.surv_prob_se, atol=1e-6)
    np.testing.assert_allclose(ours["at risk"], theirs.n_risk, atol=0.01)
    np.testing.assert_allclose(ours["events"], theirs.n_events, atol=0.01)
    for q in (0.1, 0.25, 0.5, 0.75):
        found = results.quantile(q).iloc[0]
        assert found["quantile"] == theirs.quantile(q)
        assert tuple(found[["[0.025", "0.975]"]]) == theirs.quantile_ci(q)


def test_without_noise_the_log_rank_test_is_statsmodels():
    frame, public = heart()
    grid = sorted(set(frame["days"]) - {0})
    frame["days"] = frame["days"].clip(lower=grid[0])
    results = dpi.survival("days", "died", public, times=grid, by="old").fit(NO_NOISE)
    for power in (0.0, 1.0):
        test = results.logrank(rho=power, draws=999)
        options = {"weight_type": "fh", "fh_p": power} if power else {}
        chisq, pvalue = survdiff(frame["days"], frame["died"].astype(int), frame["old"].astype(int), **options)
        assert test.statistic == pytest.approx(chisq, abs=1e-5)
        assert abs(test.pvalue - pvalue) < 0.06  # four Monte Carlo errors, and the limit in a sample of 69


def test_several_groups_without_noise():
    frame = rows().assign(group=lambda d: (d["id"] % 3).map({0: "a", 1: "b", 2: "c"}))
    schema = dpi.Schema(months=dpi.Integer(0, 60), died=dpi.Boolean(), group=dpi.Category(["a", "b", "c"]))
    public = dpi.PublicData(frame[["months", "died", "group"]], schema, rng=np.random.default_rng(1))
    test = dpi.survival("months", "died", public, times=60, by="group").fit(NO_NOISE).logrank(draws=999)
    chisq, pvalue = survdiff(frame["months"].clip(lower=1), frame["died"].astype(int), frame["group"])
    assert test.statistic == pytest.approx(chisq, abs=1e-5)
    assert test.dof == 2
    assert abs(test.pvalue - pvalue) < 0.07
    assert list(test.frame().columns) == ["observed", "expected", "std err"]
    assert test.frame()["observed"].sum() == pytest.approx(test.frame()["expected"].sum())


def test_without_noise_the_band_is_near_hall_and_wellners():
    frame = rows()
    results = dpi.survival("months", "died", data(frame=frame), times=60).fit(NO_NOISE)
    theirs = SurvfuncRight(frame["months"].clip(lower=1), frame["died"].astype(int))
    lower, upper = theirs.simultaneous_cb()
    middle = (theirs.surv_times > 5) & (theirs.surv_times < 50)
    ours = results.frame(simultaneous=True).loc[theirs.surv_times[middle]]
    width = ours["0.975]"] - ours["[0.025"]
    np.testing.assert_allclose(width, (upper - lower)[middle], rtol=0.35)  # equal precision has another shape
    single = results.frame().loc[ours.index]
    assert (width > single["0.975]"] - single["[0.025"]).all()


def test_cumulative_hazard_and_restricted_mean_without_noise():
    frame = rows()
    results = dpi.survival("months", "died", data(frame=frame), times=60).fit(NO_NOISE)
    theirs = SurvfuncRight(frame["months"].clip(lower=1), frame["died"].astype(int))
    ours = results.cumulative_hazard().loc[theirs.surv_times]
    rates = theirs.n_events / theirs.n_risk
    np.testing.assert_allclose(ours["cumulative hazard"], np.cumsum(rates), atol=1e-6)
    np.testing.assert_allclose(ours["std err"] ** 2, np.cumsum(rates * (1 - rates) / theirs.n_risk), rtol=1e-4)
    step = results.frame()["survival"].to_numpy()
    mean = results.restricted_mean(36).iloc[0]
    assert mean["restricted mean"] == pytest.approx(1 + step[:35].sum(), abs=1e-6)
    areas = step[:35][::-1].cumsum()[::-1]  # Klein & Moeschberger: the area that is left, times Greenwood's terms
    hazard, at_risk = np.zeros(60), np.ones(60)
    places = theirs.surv_times.astype(int) - 1
    hazard[places], at_risk[places] = rates, theirs.n_risk
    greenwood = (hazard / (at_risk * (1 - hazard)))[:35]
    assert mean["std err"] == pytest.approx(np.sqrt((areas**2 * greenwood).sum()), rel=1e-4)


def test_an_interval_holds_its_end_and_events_come_first():
    schema = dpi.Schema(t=dpi.Real(0, 10), died=dpi.Boolean())
    frame = pd.DataFrame({"t": [2.0, 2.0, 2.0000001, 4.0, 5.0, 9.0], "died": [True, False, True, True, True, False]})
    public = dpi.PublicData(frame, schema, rng=np.random.default_rng(1))
    found = dpi.survival("t", "died", public, times=[2, 4]).fit(NO_NOISE).frame()
    np.testing.assert_allclose(found["at risk"], [6, 4], atol=0.01)
    np.testing.assert_allclose(found["events"], [1, 2], atol=0.01)
    np.testing.assert_allclose(found["censored"], [1, 0], atol=0.01)
    np.testing.assert_allclose(found["survival"], [5 / 6, 5 / 12], atol=1e-3)
    middle = dpi.survival("t", "died", public, times=[2, 4], censoring="middle").fit(NO_NOISE).frame()
    np.testing.assert_allclose(middle["survival"], [1 - 1 / 5.5, (1 - 1 / 5.5) / 2], atol=1e-3)


def test_events_may_be_conditions_and_numbers_and_times_a_number():
    asked = [
        dpi.survival("months", event, data(), times=6, by="arm").fit(NO_NOISE).frame()["survival"].to_numpy()
        for event in ("died", "status", "status == 1")
    ]
    np.testing.assert_allclose(asked[0], asked[1], atol=1e-5)
    np.testing.assert_allclose(asked[0], asked[2], atol=1e-5)
    assert dpi.survival("months", "died", data(), times=7).fit(NO_NOISE).times.tolist() == [9, 17, 26, 34, 43, 51, 60]
    every = dpi.survival("months", "died", data(), times=1000).fit(dpi.ZCDP(1))
    assert every.times.tolist() == list(range(1, 61))
    assert every.release.infer().times.tolist() == every.times.tolist()
    assert dpi.survival("t", "died", data(), times=4).fit(NO_NOISE).times.tolist() == [15, 30, 45, 60]


@pytest.mark.parametrize("price", [dpi.PureDP(1), dpi.ZCDP(0.1), dpi.GDP(0.5), dpi.ApproxDP(1, 1e-6)], ids=str)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_price_is_that_of_a_table(price, neighbors):
    asked = dpi.survival("status", "died", data(neighbors), times=[1], by="arm").measurement(price)
    table = dpi.table(["arm", "died"], data(neighbors)).measurement(price)
    assert asked.cost == table.cost
    assert asked.law == table.law
    fine = dpi.survival("t", "died", data(neighbors), times=50, by="arm").measurement(price)
    assert fine.law.scales[0] == pytest.approx(table.law.scales[0])


def test_a_noisy_fit_is_a_survival_function_and_knows_its_noise():
    results = dpi.survival("t", "died", data(), times=12, by=["arm", "old"]).fit(dpi.ZCDP(0.05))
    frame = results.frame()
    survival = frame["survival"].to_numpy().reshape(4, 12)
    known = ~np.isnan(survival)
    assert (np.diff(np.where(known, survival, 0.0), axis=1) <= 0).all()
    assert ((survival[known] >= 0) & (survival[known] <= 1)).all()
    shown = frame[frame["determined"]]
    assert (shown["std err"] > shown["std err (noise)"]).all()
    assert (shown["std err (noise)"] > 0).all()
    assert ((shown["[0.025"] <= shown["survival"]) & (shown["survival"] <= shown["0.975]"])).all()
    assert list(frame.index.names) == ["arm", "old", "time"]
    assert results.release.infer().frame().equals(frame)
    assert results.release.infer(inference="log-log").method == "log-log"
    assert "Kaplan" not in str(results.summary())
    assert str(results.summary()) == str(dpi.Release.from_json(results.release.to_json()).infer().summary())


def test_where_noise_hides_it_nothing_is_told_but_by_name():
    results = dpi.survival("t", "died", data(frame=rows(40)), times=12, by="arm").fit(dpi.ZCDP(0.005))
    frame = results.frame()
    assert not frame["determined"].any()
    assert frame["survival"].isna().all()
    assert (frame["[0.025"] == 0).all()
    assert (frame["0.975]"] == 1).all()
    assert all("not determined" in flag and "arm=" in flag for flag in results.flags[:2])
    assert "not determined" in str(results.summary())
    hazard = results.cumulative_hazard()
    assert (hazard["0.975]"] == np.inf).all()
    assert not hazard["determined"].any()
    median = results.median()
    assert median["quantile"].isna().all()
    assert not median["determined"].any()
    assert (median["[0.025"] == 5).all()
    assert (median["0.975]"] == np.inf).all()
    mean = results.restricted_mean(30)
    assert mean["restricted mean"].isna().all()
    assert (mean["[0.025"] == 5).all()  # the first interval ends there
    assert (mean["0.975]"] == 30).all()
    test = results.logrank(draws=199)
    assert test.pvalue == 1
    assert "not determined" in test.flags[0]


def test_late_times_that_noise_hides_keep_the_last_upper_end():
    results = dpi.survival("t", "died", data(frame=rows(150)), times=20).fit(dpi.ZCDP(0.05))
    frame = results.frame()
    clear = frame["survival"].notna().to_numpy()
    assert 0 < clear.sum() < 20
    late = frame[~clear]
    assert (late["[0.025"] == 0).all()
    assert (late["0.975]"] == frame["0.975]"].to_numpy()[clear][-1]).all()
    mean = results.restricted_mean().iloc[0]
    assert not mean["determined"]
    last = frame.index[clear][-1]
    assert mean["0.975]"] - mean["[0.025"] > late["0.975]"].iloc[0] * (57 - last)


def test_wide_intervals_are_flagged_for_their_censoring():
    wide = dpi.survival("t", "died", data(), times=3).fit(dpi.ZCDP(1))
    assert any('censoring="middle"' in flag for flag in wide.flags)
    assert not dpi.survival("t", "died", data(), times=3, censoring="middle").fit(dpi.ZCDP(1)).flags
    truth = (np.exp(-20 / 25) + np.exp(-20 / 45)) / 2
    middle = wide.release.infer(censoring="middle").frame().iloc[0]
    assert abs(middle["survival"] - truth) < abs(wide.frame().iloc[0]["survival"] - truth)


def test_explain_tells_the_noise_in_numbers_at_risk():
    told = dpi.survival("t", "died", times=12).explain(dpi.ZCDP(0.5), schema=SCHEMA)
    assert "at risk      noise of standard deviation 4.9 rows at the start, falling to 1.41" in told


def test_people_widen_intervals_and_have_no_log_rank_test():
    one = dpi.survival("t", "died", data(id="id", max_rows=1), times=6, by="arm").fit(NO_NOISE)
    two = dpi.survival("t", "died", data(id="id", max_rows=2), times=6, by="arm").fit(NO_NOISE)
    ratio = two.frame()["std err"] / one.frame()["std err"]
    np.testing.assert_allclose(ratio, np.sqrt(2), rtol=1e-3)
    assert any("a person may have 2 rows" in flag for flag in two.flags)
    assert one.logrank(draws=199).pvalue < 0.01
    with pytest.raises(NotProvedError, match="log-rank"):
        two.logrank()


def test_estimate_is_infer_for_many():
    asked = dpi.survival("t", "died", data(), times=6, by="arm")
    study = dpi.coverage_study(
        lambda rng, n: rows(n, int(rng.integers(2**31))).drop(columns="id"),
        dpi.survival("t", "died", times=6, by="arm"),
        schema=SCHEMA,
        truth={f"S({k})[arm={a}]": float(np.exp(-k / m)) for a, m in (("a", 25), ("b", 45)) for k in range(10, 70, 10)},
        n=[300], privacy=[dpi.ZCDP(1)], replicates=20, seed=1, progress=False,
    )  # fmt: skip
    assert study.cells["coverage"].min() > 0.4
    frame = asked.fit(dpi.ZCDP(1)).frame()
    assert frame["determined"].all()


def test_plots_draw_numbers_at_risk():
    results = dpi.survival("t", "died", data(), times=12, by="arm").fit(dpi.ZCDP(0.1))
    ax = results.plot(simultaneous=True)
    texts = [one.get_text() for one in ax.texts]
    assert "at risk (noisy)" in texts
    assert f"{results.frame()['at risk'].iloc[0]:,.0f}" in texts
    assert results.plot(ax) is ax
    results.logrank(draws=199).plot().figure.clear()
    ax.figure.clear()


def private():
    return dpi.PrivateData(rows(50), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1)))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"times": [[], [5, 5], [5, 3], [np.nan], "ten", 0, 1001, [True, "x"], None, 2.5]}, OptionError, "times"),
        ({"event": ["", "arm", "months", 3]}, (OptionError, SchemaError), "event|levels"),
        ({"censoring": ["start", None]}, OptionError, "censoring"),
        ({"inference": ["wald", 1]}, OptionError, "inference"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)  # fmt: skip
def test_what_is_wrong_by_itself_is_refused(options, error, match):
    given = {"time": "t", "event": "died", "times": [5.0, 10.0]} | options
    ((name, values),) = options.items()
    for value in values:
        with pytest.raises(error, match=match):
            dpi.survival(data=private(), **given | {name: value})


def test_what_the_schema_cannot_serve_is_refused_before_the_charge():
    ask = dpi.survival
    times = each(ask, "t", "died", times=[[0, 5], [-1.0, 5.0], [5.0, 60.1]])
    assert_refused(times, OptionError, "increasing times above 0 and at most 60", private(), dpi.ZCDP(0.1))
    assert_refused(
        each(ask, "months", "died", times=[[1.5, 3]]), OptionError, "whole numbers", private(), dpi.ZCDP(0.1)
    )
    for given in (["3", "4"], pd.Series(["3"]), [True, 2], [[3.0], [4.0]]):
        texts = each(ask, "t", "died", times=[given])
        assert_refused(texts, OptionError, "a list with non-numeric elements", private(), dpi.ZCDP(0.1))
    falling = each(ask, "t", "died", times=[(4, 3)])
    assert_refused(falling, OptionError, "2 numbers that do not increase", private(), dpi.ZCDP(0.1))
    levels = each(ask, "arm", "died", times=[[1.0, 2.0]])
    assert_refused(levels, SchemaError, "not numeric", private(), dpi.ZCDP(0.1))
    assert_refused(each(ask, "when", "died", times=[5]), UnknownColumnError, "when", private(), dpi.ZCDP(0.1))
    assert_refused(each(ask, "t", "arm", times=[5]), OptionError, "event", private(), dpi.ZCDP(0.1))


def test_conditions_that_no_row_can_meet_are_refused_before_the_charge():
    never = ["t > 100", "not (t <= 60)", "t > 100 and died", "t < 0 or status == 2", "status + died >= 3"]
    asked = each(dpi.survival, "t", "died", times=5, where=never)
    assert_refused(asked, FormulaError, "no row within the declared bounds", private(), dpi.ZCDP(0.1))
    asked = [lambda data: dpi.survival("t", "status == 2", data, times=5)]
    assert_refused(asked, FormulaError, "no row within the declared bounds", private(), dpi.ZCDP(0.1))
    for where in ("t <= 0", "arm == 'a' and t > 59", "not died", "t != 3"):
        dpi.survival("t", "died", private(), times=5, where=where).fit(dpi.ZCDP(0.1))


@pytest.mark.parametrize("kind", [pd.Series, pd.Index, np.array, tuple])
def test_times_may_be_any_list_of_numbers(kind):
    question = dpi.survival("t", "died", times=kind([10, 20.5, 60]))
    assert question.times == (10.0, 20.5, 60.0)


def test_results_refuse_what_they_cannot_answer():
    results = dpi.survival("t", "died", data(), times=[10, 20]).fit(dpi.ZCDP(0.1))
    for q in (0, 1, "half", [], [0.5, 2]):
        with pytest.raises(OptionError, match="q="):
            results.quantile(q)
    for horizon in (0, 21, "end", np.inf):
        with pytest.raises(OptionError, match="horizon"):
            results.restricted_mean(horizon)
    with pytest.raises(OptionError, match="groups"):
        results.logrank()
    with pytest.raises(OptionError, match="alpha"):
        results.frame(2)
    with pytest.raises(OptionError, match="simultaneous"):
        results.frame(simultaneous="yes")
    with pytest.raises(OptionError, match="rho"):
        dpi.survival("t", "died", data(), times=[10], by="arm").fit(dpi.ZCDP(0.1)).logrank(rho=-1)
    other = dpi.survival("t", "died", times=[10, 30])
    with pytest.raises(InferenceError, match="another question"):
        other.infer(results.release)
