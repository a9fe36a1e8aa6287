"""Coverage and width of multinomial and ordered regressions: rare levels, wrong models, real rows, against blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpinfer as dpi
from dpinfer.choice.question import Choice, estimated_choice
from dpinfer.kernel.stage import Context
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study
from validation.regression.newton_draws import Drawer, covers, encoded

SIZES = (1000, 5000, 50_000)
PRICES = (dpi.ZCDP(0.5), dpi.ZCDP(0.05), dpi.PureDP(1))
MADE = 100_000
"""Rows of a made-up population, from which data sets are drawn with replacement: the truth is the fit to all of it."""

LONG = 10.0
"""Widths over those without privacy are by medians; an interval that is longer, or has no end, tells little."""


@dataclass(frozen=True, eq=False)
class Population:
    """Rows, how they are declared and asked of, and the truth by name in the order of the slopes."""

    frame: pd.DataFrame
    schema: dpi.Schema
    question: Choice
    truth: np.ndarray
    names: tuple[str, ...]
    spread: np.ndarray
    """Standard error of each coefficient without privacy times the root of n: robust."""


def made(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Regressors: normal, 0 or 1, and skewed; and all as an array (N, 3)."""
    frame = pd.DataFrame({
        "x": np.clip(rng.normal(size=MADE), -5, 5),
        "g": (rng.random(MADE) < 0.4).astype(float),
        "s": np.minimum(rng.exponential(1.0, MADE), 20.0),
    })  # fmt: skip
    return frame, frame.to_numpy(dtype=float)


REGRESSORS = {"x": dpi.Real(-5, 5), "g": dpi.Integer(0, 1), "s": dpi.Real(0, 20)}


def choices(predictors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw choices (N,) with log odds (N, J) against the first."""
    odds = np.exp(np.column_stack([np.zeros(len(predictors)), predictors]))
    below = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    return (rng.random((len(odds), 1)) > below).sum(axis=1)


def simulated(design: str) -> tuple[pd.DataFrame, dict[str, Any], str, str, int]:
    """Return rows, declarations, model, formula and the number of levels of a made-up population."""
    rng = np.random.default_rng(7)
    frame, x = made(rng)
    if design in ("three choices", "a rare choice", "choices, wrong model"):
        rare = {"a rare choice": -3.2}.get(design, -0.6)
        bent = 0.5 * x[:, :1] ** 2 if design == "choices, wrong model" else 0.0
        predictors = np.array([-0.2, rare]) + x @ np.array([[0.8, -0.5], [0.5, 0.4], [0.2, -0.3]]) + bent
        return frame.assign(y=choices(predictors, rng)), REGRESSORS, "mnlogit", "y ~ x + g + s", 3
    spread = 1 + 0.6 * x[:, 1] if design == "in order, wrong model" else 1.0
    latent = x @ np.array([0.8, -0.5, 0.4]) + rng.logistic(size=MADE) * spread
    frame = frame.assign(y=np.digitize(latent, [-1.5, -0.2, 1.0, 4.2]))
    return frame, REGRESSORS, "ordered-logit", "y ~ x + g + s", 5


def real(design: str) -> tuple[pd.DataFrame, dict[str, Any], str, str, int]:
    """Return the same of anes96: party in three groups, or in seven levels in order."""
    rows = sm.datasets.anes96.load_pandas().data
    frame = rows[["educ", "income", "age", "selfLR"]].astype(float)
    declared = {"educ": dpi.Integer(1, 7), "income": dpi.Integer(1, 24), "age": dpi.Integer(18, 95),
                "selfLR": dpi.Integer(1, 7)}  # fmt: skip
    party = rows["PID"].to_numpy(dtype=int)
    formula = "y ~ educ + income + age + selfLR"
    if design == "anes96, party":
        return frame.assign(y=np.digitize(party, [2, 5])), declared, "mnlogit", formula, 3
    return frame.assign(y=party), declared, "ordered-logit", formula, 7


DESIGNS = ("three choices", "a rare choice", "choices, wrong model", "five in order", "in order, wrong model",
           "anes96, party", "anes96, seven in order")  # fmt: skip


@cache
def population(design: str) -> Population:
    """A population with the fit of statsmodels to all of its rows."""
    frame, declared, model, formula, levels = (real if design.startswith("anes96") else simulated)(design)
    texts = [f"l{one}" for one in range(levels)]
    names = [one.strip() for one in formula.split("~")[1].split("+")]
    x, y = frame[names].to_numpy(dtype=float), frame["y"].to_numpy()
    if model == "mnlogit":
        fit = sm.MNLogit(y, sm.add_constant(x)).fit(disp=0, cov_type="HC0")
        params, errors = (np.asarray(one).T.ravel() for one in (fit.params, fit.bse))
        labels = [f"{text}: {name}" for text in texts[1:] for name in ["Intercept", *names]]
        slopes = np.array([not one.endswith("Intercept") for one in labels])
    else:
        fit = OrderedModel(y, x, distr="logit").fit(disp=0, method="bfgs", maxiter=500, cov_type="HC0")
        params, errors, labels = np.asarray(fit.params)[: len(names)], np.asarray(fit.bse)[: len(names)], names
        slopes = np.ones(len(names), dtype=bool)
    frame["y"] = np.array(texts)[y]
    schema = dpi.Schema(**declared, y=dpi.Category(texts))
    return Population(
        frame, schema, Choice(formula=formula, model=model), params[slopes],
        tuple(np.array(labels)[slopes].tolist()), errors[slopes] * np.sqrt(len(frame)),
    )  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A population, its number of rows and a price."""

    design: str
    n: int
    price: Any


class Choices(Drawer):
    """Draws releases of regressions of several levels."""

    def fitted(self, cells: Any, rng: np.random.Generator) -> Any:
        """Return the estimates of one data set."""
        return estimated_choice(self.plan, tuple(self.stages(cells, rng).values()))  # type: ignore[arg-type]


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Ends of intervals (R, p, 2) of slopes, errors, whether noise dominates, and whether thresholds were turned."""
    of = population(cell.design)
    drawer, known = Choices(of.question, Context(of.schema, "add_remove", cell.price)), {}
    cells = {name: of.frame[name].to_numpy() for name in of.schema}
    found = []
    for _ in range(replicates):
        chosen = rng.integers(0, len(of.frame), cell.n)

        def features(asked: Any) -> np.ndarray:
            if id(asked) not in known:
                known[id(asked)] = asked, encoded(asked, cells)
            return np.ascontiguousarray(known[id(asked)][1][:, chosen])  # noqa: B023  (called in this turn)

        fit = drawer.fitted(features, rng)
        which = np.eye(len(fit.names))[[fit.names.index(one) for one in of.names]]
        variances, biases, _ = fit._spread(which)
        long = variances + biases**2 > 9 * np.einsum("kp,pq,kq->k", which, fit.cov_sampling, which)
        found.append({"ends": fit.intervals(which, 0.05), "error": which @ fit.params - of.truth, "noisy": long,
                      "turned": bool(fit.notes)})  # fmt: skip
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def summary(cell: Cell, drawn: Drawn) -> dict[str, Any]:
    """Coverage, worst and mean; widths over those without privacy; shares that are flagged and that have no end."""
    of = population(cell.design)
    covered, width = covers(drawn["ends"], of.truth).mean(axis=0), np.ptp(drawn["ends"], axis=-1)
    plain = 2 * 1.959964 * of.spread / np.sqrt(cell.n)
    ratio = np.median(width / plain, axis=0)
    return {
        "coverage": covered.min(), "mean coverage": covered.mean(), "width ratio": float(np.median(ratio)),
        "widest ratio": float(ratio.max()),
        "RMSE ratio": float(np.median(np.sqrt((drawn["error"] ** 2).mean(axis=0)) * np.sqrt(cell.n) / of.spread)),
        "flagged": drawn["noisy"].mean(), "unbounded": float(1 - np.isfinite(width).mean()),
        "turned": drawn["turned"].mean(), "terms": len(of.truth),
    }  # fmt: skip


STUDY = Study(
    "choice_coverage", [Cell(*one) for one in product(DESIGNS, SIZES, PRICES)], draw, summary,
    (
        Rule("least coverage of 95% intervals of slopes: multinomial and ordered logit", "coverage", quantities="terms",
             design="7 populations: a rare level, wrong models, anes96; n 1,000 to 50,000, three budgets"),
    ),
    axes=lambda cell: {"design": cell.design, "n": cell.n, "price": str(cell.price)},
    figure=scatter(lambda table: table["n"], {"coverage": 0.95, "width ratio": 1.0}, ["price"], label="rows"),
    notes=("Coverage: of the worst slope, and the mean over slopes. Ratios: medians over data sets and slopes of "
           "widths over those of robust intervals without privacy, and of errors over their standard errors. Flagged: "
           "noise makes an interval more than three times as long. Turned: noise turned thresholds round.",),
)  # fmt: skip
