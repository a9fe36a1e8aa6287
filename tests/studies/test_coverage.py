import dataclasses
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import DataError, OptionError
from dpinfer.procedures.procedure import Procedure
from dpinfer.studies import Rules, population
from dpinfer.studies.coverage import performance
from dpinfer.studies.simulation import BLOCK
from tests.linear import gram_ols

SCHEMA = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-2, 2))
TRUTH = {"x": 0.5, "Intercept": 0.0}


def draw(rng, n):
    x = rng.uniform(-1, 1, n)
    return {"x": x, "y": 0.5 * x + rng.uniform(-0.5, 0.5, n)}


def study(**changes):
    options = {
        "schema": SCHEMA,
        "truth": TRUTH,
        "n": [300],
        "privacy": [dpi.ZCDP(0.5)],
        "replicates": 300,
        "seed": 3,
        "progress": False,
    }
    generate = changes.pop("generate", draw)
    procedure = changes.pop("procedure", gram_ols("y ~ x"))
    return dpi.coverage_study(generate, procedure, **{**options, **changes})


def test_a_wrong_switch_of_the_bar_is_refused_before_any_work():
    with pytest.raises(OptionError, match="progress=<str> is not valid: expected True, False or None"):
        study(progress="yes", generate=None)


def test_private_regression_covers_and_is_described_in_every_cell():
    found = study(n=[300, 1000], privacy=[dpi.ZCDP(0.5), dpi.PureDP(4.0)], replicates=600)
    assert len(found.frame) == 2 * 2 * 600 * 2
    assert len(found.cells) == 8
    least = stats.binom.ppf(1e-7, 600, 0.95) / 600
    assert found.cells["coverage"].min() > least
    assert found.check(rerun=False)["held"].all()
    assert np.all(found.cells["width / oracle"] > 0.9)
    assert {"n", "privacy", "term", "estimate", "lower", "upper", "pvalue"} <= set(found.frame)


def test_contrasts_are_studied_like_coefficients():
    asked = {"at one": {"Intercept": 1.0, "x": 1.0}}
    fast = study(contrasts=asked, truth={**TRUTH, "at one": 0.5})
    assert fast.check(rerun=False)["held"].all()
    assert list(fast.cells["term"]) == ["Intercept", "x", "at one"]
    slow = study(contrasts=asked, truth={**TRUTH, "at one": 0.5}, procedure=_OneByOne(gram_ols("y ~ x")), replicates=40)
    cells = slow.cells.set_index("term")
    assert cells.loc["at one", "bias"] == pytest.approx(cells.loc[["Intercept", "x"], "bias"].sum(), abs=1e-12)
    assert cells.loc["at one", "coverage"] > 0.8


class _OneByOne:
    """A procedure that has only what a user must write."""

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"one by one {self.inner!r}"

    def bind(self, data):
        return self.inner.bind(data)

    def fit(self, privacy):
        return self.inner.fit(privacy)


@dataclasses.dataclass(frozen=True, eq=False)
class KnownMean(Procedure):
    """A user's own procedure: a normal mean with known standard error; the interval may be too short."""

    shrink: float = 1.0

    def release_kind(self, context):
        raise NotImplementedError

    def stage(self, place, context, released):
        raise NotImplementedError

    def text(self, schema):
        raise NotImplementedError

    def infer(self, release=None):
        raise NotImplementedError

    def fit(self, privacy):
        values = self.source._source.read(["y"], 0, self.source._source.rows)["y"]
        return _Fit(float(np.mean(values)), self.shrink / np.sqrt(len(values)))


class _Fit:
    def __init__(self, mean, error):
        self.params = pd.Series({"mean": mean})
        self.bse = pd.Series({"mean": error})
        self.pvalues = pd.Series({"mean": 2 * stats.norm.sf(abs(mean) / error)})
        self.flags = ()

    def conf_int(self, alpha):
        half = stats.norm.isf(alpha / 2) * self.bse["mean"]
        return pd.DataFrame([[self.params["mean"] - half, self.params["mean"] + half]], index=["mean"])


def normal(rng, n):
    return {"y": rng.normal(size=n)}


def mean_study(shrink=1.0, **changes):
    wide = dpi.Schema(y=dpi.Real(-100, 100))
    return study(generate=normal, procedure=KnownMean(shrink=shrink), schema=wide, truth={"mean": 0.0}, **changes)


def test_a_users_own_procedure_with_a_known_answer():
    found = mean_study(n=[5], replicates=2000)
    cell = found.cells.iloc[0]
    assert abs(cell["coverage"] - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 2000)
    assert abs(cell["rejection"] - 0.05) < 5 * np.sqrt(0.95 * 0.05 / 2000)
    assert abs(cell["relative error of model SE (%)"]) < 5 * cell["MCSE of relative error of model SE (%)"]
    assert found.check(rerun=False)["held"].all()


def test_an_interval_that_covers_93_percent_is_caught():
    """At 5,000 replicates the rule catches true coverage .93 with probability at least .95, exactly computed."""
    rules = Rules()
    least = rules.least_coverage(5000, 0.95)
    assert stats.binom.cdf(np.ceil(least * 5000) - 1, 5000, 0.93) >= 0.95
    assert stats.binom.cdf(np.ceil(least * 5000) - 1, 5000, 0.95) <= 1e-4


@pytest.mark.slow
def test_a_test_that_rejects_too_often_is_caught_whatever_the_grid():
    """Size is judged where the truth is zero, at a level shared by all such cells."""
    rules = Rules(alarm=1e-12)
    anti = mean_study(shrink=0.85, n=[4, 6], replicates=1500)
    judged = anti.check(rules, rerun=False)
    assert judged["verdict"].str.contains("size above").all()
    assert mean_study(n=[4, 6], replicates=1500).check(rules, rerun=False)["held"].all()
    assert rules.largest_size(1500, 0.95, 100) > rules.largest_size(1500, 0.95, 1) > 0.05


def test_a_failed_cell_is_run_again_at_ten_times_the_replicates():
    short = mean_study(shrink=0.8, n=[4], replicates=300)
    judged = short.check(Rules(rerun_factor=3))
    assert judged["run"].tolist() == ["first", "rerun"]
    assert not judged["held"].any()
    assert judged["replicates"].tolist() == [300, 900]
    assert "coverage below" in judged["verdict"][0]


def test_monte_carlo_errors_are_right():
    """Spread of the measures over repeated studies against stated errors: within 10% at 1,500 repeats (5 sigma)."""
    rng = np.random.default_rng(1)
    measures = []
    for _ in range(1500):
        estimate = rng.normal(0.1, 1.0, 300)
        error = np.sqrt(rng.chisquare(20, 300) / 20)
        nothing = np.zeros(300, dtype=bool)
        named = {"estimate": estimate, "error": error, "pvalue": rng.uniform(size=300)}
        ends = {"lower": estimate - 1.8 * error, "upper": estimate + 1.8 * error}
        measures.append(performance({**named, **ends, "flagged": nothing, "failed": nothing}, 0.0, level=0.95))
    table = pd.DataFrame(measures)
    for name in (
        "bias",
        "empirical SE",
        "mean squared error",
        "model SE",
        "relative error of model SE (%)",
        "coverage",
    ):
        ratio = table[name].std() / np.sqrt((table[f"MCSE of {name}"] ** 2).mean())
        assert abs(ratio - 1) < 0.10, name


def test_numbers_do_not_depend_on_workers(tmp_path):
    alone, both = study(replicates=600), study(replicates=600, n_jobs=2)
    alone.to_parquet(tmp_path / "one.parquet")
    both.to_parquet(tmp_path / "both.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "both.parquet").read_bytes()
    pd.testing.assert_frame_equal(alone.cells, both.cells)


SCRIPT = """
    import sys
    import dpinfer as dpi
    sys.path.insert(0, {tests!r})
    from test_coverage import study
    study(replicates=3000, checkpoint={folder!r}).to_parquet({out!r})
"""


def test_a_killed_study_goes_on_to_the_same_bytes(tmp_path):
    folder, out = tmp_path / "blocks", tmp_path / "resumed.parquet"
    code = textwrap.dedent(SCRIPT).format(tests=os.path.dirname(__file__), folder=str(folder), out=str(out))
    process = subprocess.Popen([sys.executable, "-c", code])
    for _ in range(6000):  # two minutes: a busy machine is slow to start
        if len(list(folder.glob("*.parquet"))) >= 2 or process.poll() is not None:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(list(folder.glob("*.parquet")))
    assert done >= 2
    resumed = study(replicates=3000, checkpoint=folder)
    resumed.to_parquet(out)
    study(replicates=3000).to_parquet(tmp_path / "never.parquet")
    assert out.read_bytes() == (tmp_path / "never.parquet").read_bytes()


def test_a_checkpoint_of_another_design_is_refused_and_kept(tmp_path):
    study(checkpoint=tmp_path / "blocks")
    before = {path.name: path.read_bytes() for path in (tmp_path / "blocks").iterdir()}
    with pytest.raises(OptionError, match="another design"):
        study(checkpoint=tmp_path / "blocks", seed=4)
    with pytest.raises(OptionError, match="another design"):
        study(checkpoint=tmp_path / "blocks", generate=lambda rng, n: draw(rng, n))
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "blocks").iterdir()}
    assert "y ~ x" in json.loads(before["design.json"])["procedure"]


class _Interrupted:
    """Draws until told to stop, then raises KeyboardInterrupt."""

    def __init__(self, after):
        self.after, self.count = after, 0

    def __call__(self, rng, n):
        self.count += 1
        if self.count > self.after:
            raise KeyboardInterrupt
        return draw(rng, n)


def test_an_interrupt_keeps_what_is_done():
    found = study(generate=_Interrupted(2 * BLOCK + 50), replicates=4 * BLOCK)
    assert not found.complete
    assert "interrupted" in repr(found)
    assert found.cells["replicates"].iloc[0] == 2 * BLOCK


def failing(rng, n):
    if rng.uniform() < 0.1:
        raise ValueError("bad luck")
    drawn = draw(rng, n)
    return {"x": drawn["x"]} if rng.uniform() < 0.05 else drawn


def test_failures_are_counted_and_cover_nothing():
    found = study(generate=failing, replicates=600, seed=5)
    cells = found.cells.set_index("term")
    listed = found.failures()
    assert 40 < cells.loc["x", "failures"] < 150
    assert listed["replicates"].sum() == cells.loc["x", "failures"]
    assert set(listed["failure"].str.split(":").str[0]) == {"ValueError", "DataError"}
    assert cells.loc["x", "coverage"] <= 1 - cells.loc["x", "failures"] / 600


def ordinary(frame):
    return smf.ols("y ~ x", frame).fit()


def test_paired_baseline_on_the_same_data():
    found = study(baseline=ordinary, replicates=60)
    cells = found.cells.set_index("term")
    assert cells.loc["x", "width / baseline"] > 1
    assert cells.loc["x", "baseline coverage"] > 0.8
    assert np.corrcoef(found.frame["estimate"], found.frame["baseline estimate"])[0, 1] > 0.9


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"replicates": 0}, OptionError, "replicates"),
        ({"truth": {"z": 1.0}}, OptionError, "truth"),
        ({"n": []}, OptionError, "n="),
        ({"privacy": [0.1]}, OptionError, "privacy"),
        ({"level": 95}, OptionError, "level"),
        ({"generate": lambda rng, n: {"x": np.zeros(n)}}, DataError, "did not return the columns y"),
        ({"generate": lambda rng, n: {"x": np.zeros(n), "y": np.zeros(n - 1)}}, DataError, "expected n"),
        ({"generate": lambda rng, n: 1 / 0}, DataError, "ZeroDivisionError"),
        ({"generate": lambda rng, n: [1, 2]}, DataError, "list"),
        ({"procedure": "y ~ x"}, OptionError, "procedure"),
        ({"neighbors": "swap"}, OptionError, "neighbors"),
    ],
)
def test_bad_designs_are_refused_before_anything_runs(changes, error, match):
    with pytest.raises(error, match=match):
        study(**changes)


def test_frames_and_dicts_give_the_same_numbers():
    as_dict, as_frame = study(), study(generate=lambda rng, n: pd.DataFrame(draw(rng, n)))
    pd.testing.assert_frame_equal(as_dict.frame, as_frame.frame)


def test_figures_and_exports():
    found = study(n=[300, 600], privacy=[dpi.ZCDP(0.5), dpi.ZCDP(1.0)])
    for axes in (
        found.plot_coverage(),
        found.plot_nested_loop("width"),
        found.plot_zip("x"),
        found.plot_pvalues("Intercept"),
    ):
        axes.figure.canvas.draw()
        assert axes.get_xlabel() or axes.get_ylabel()
    assert "coverage" in found.to_html()
    assert "tabular" in found.to_latex()
    with pytest.raises(OptionError, match="term"):
        found.plot_zip("z")
    with pytest.raises(OptionError, match="measure"):
        found.plot_nested_loop("beauty")


@pytest.mark.parametrize("name", ["age", "income", "uniform", "skewed", "collinear", "one uniform"])
def test_populations_stay_within_their_bounds_and_keep_their_truth(name):
    one = population(name)
    drawn = one.generate(np.random.default_rng(2), 50_000)
    for column, values in drawn.items():
        assert values.min() >= one.schema[column].lower
        assert values.max() <= one.schema[column].upper
    fitted = smf.ols(one.formula, pd.DataFrame(drawn)).fit()
    away = (fitted.params - pd.Series(dict(one.truth))) / fitted.bse
    assert np.abs(away).max() < 5
    if name == "age":
        assert drawn["age"].std() == pytest.approx(17.58, rel=0.02)


def test_joblib_is_not_needed_for_one_worker():
    assert multiprocessing.parent_process() is None
    assert study(replicates=10).complete


GROUPED = dpi.Schema(x=dpi.Real(-1, 1), g=dpi.Category(["a", "b"]), b=dpi.Boolean())


def groups(rng, n):
    return {
        "x": rng.uniform(-1, 1, n),
        "g": np.array(["a", "b"], dtype=object)[rng.integers(0, 2, n)],
        "b": rng.random(n) < 0.3,
    }


DESCRIPTIONS = {
    "mean": (dpi.mean("x", by="g"), {"x[g=a]": 0.0, "x[g=b]": 0.0}),
    "variance": (dpi.variance("x", by="g"), {"x[g=a]": 1 / 3, "x[g=b]": 1 / 3}),
    "table": (dpi.table(["g", "b"], target="population"), {"count[g=a, b=False]": 140.0, "count[g=b, b=True]": 60.0}),
    "proportion": (dpi.proportion("b", by="g"), {"b[g=a]": 0.3, "b[g=b]": 0.3}),
}


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_descriptions_are_studied_in_groups(kind):
    """Vectorised, and with the same names and table as one fit after the other."""
    procedure, truth = DESCRIPTIONS[kind]
    options = {"schema": GROUPED, "generate": groups, "n": [400], "truth": truth}
    fast = study(procedure=procedure, privacy=[dpi.ZCDP(0.5), dpi.PureDP(2.0)], replicates=400, **options)
    least = stats.binom.ppf(1e-7, 400, 0.95) / 400
    judged = fast.cells[fast.cells["term"].isin(truth)]
    assert len(judged) == 4
    assert judged["coverage"].min() > least
    assert (judged["failures"] == 0).all()
    assert judged["width / oracle"].between(0.9, 1.4).all()
    slow = study(procedure=_OneByOne(procedure), privacy=[dpi.ZCDP(0.5)], replicates=20, **options)
    assert list(slow.frame.columns) == list(fast.frame.columns)
    assert set(slow.cells["term"]) == set(fast.cells["term"])
    assert slow.cells.set_index("term").loc[list(truth), "coverage"].min() > 0.5


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_studied_descriptions_equal_fits_of_the_same_sums(kind, neighbors):
    """With hardly any noise the vectorised numbers are those of the ordinary path on the same data."""
    procedure, truth = DESCRIPTIONS[kind]
    seen = []

    def watched(rng, n):
        seen.append(groups(rng, n))
        return seen[-1]

    found = study(
        schema=GROUPED,
        generate=watched,
        procedure=procedure,
        truth=truth,
        n=[50],
        privacy=[dpi.ZCDP(1e9)],
        replicates=3,
        neighbors=neighbors,
    )
    rng = np.random.default_rng(0)
    for replicate, columns in enumerate(seen[-3:]):
        data = dpi.PublicData(pd.DataFrame(columns), GROUPED, rng=rng, neighbors=neighbors)
        alone = procedure.bind(data).fit(dpi.ZCDP(1e9))
        mine = found.frame[found.frame["replicate"] == replicate].set_index("term")
        ends = alone.conf_int()
        np.testing.assert_allclose(mine["estimate"], alone.params[mine.index], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(mine["error"], alone.bse[mine.index], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(mine["lower"], ends.loc[mine.index, 0], rtol=1e-3, atol=2e-3)
        np.testing.assert_allclose(mine["upper"], ends.loc[mine.index, 1], rtol=1e-3, atol=2e-3)
