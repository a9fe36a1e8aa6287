"""A regression from noisy cross-products, read naively and with the noise counted: coverage at every price.

Rows are drawn with replacement from statsmodels' fair data, so that the regression on all its rows is the truth. The
naive reading puts the noisy cross-products into the usual formulas, as if they were those of the rows. The errors of
this regression spread equally (robust standard errors differ by 1%), as both readings assume: only noise tells them
apart.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.statistics.inference import Released
from validation.common.outputs import Options, new_figure
from validation.common.rules import SEED, Claim, Rule
from validation.common.study import Drawn, Study

ROWS = 1000
PRICES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
SHOWN, SHOWN_AT = 40, 0.03
BOUNDS = {"educ": (9.0, 20.0), "religious": (1.0, 4.0), "rate_marriage": (1.0, 5.0)}
NAMES = ("Intercept", "educ", "religious")
SCHEMA = dpi.Schema({name: dpi.Real(*ends) for name, ends in BOUNDS.items()})
QUESTION: Any = dpi.ols("rate_marriage ~ educ + religious", method="gram")


@cache
def population() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sums that each distinct row adds (k, 10), its share (k,), and the true coefficients (3,)."""
    frame = sm.datasets.fair.load_pandas().data[[*BOUNDS]]
    counted = frame.value_counts(normalize=True).reset_index(name="share")
    rows = [np.ones(len(counted))]
    rows += [2 * (counted[name] - low) / (high - low) - 1 for name, (low, high) in BOUNDS.items()]
    scaled = np.stack(rows, axis=1)
    first, second = np.triu_indices(4)
    order = {"1": 0, **{name: place for place, name in enumerate(BOUNDS, start=1)}}
    pairs = [sorted(order[part] for part in name.split(" * ")) for name in measurement(PRICES[0]).names]
    place = {(i, j): k for k, (i, j) in enumerate(zip(first, second, strict=True))}
    products = (scaled[:, first] * scaled[:, second])[:, [place[i, j] for i, j in pairs]]
    truth = sm.OLS(frame["rate_marriage"], sm.add_constant(frame[[*NAMES[1:]]])).fit().params.to_numpy()
    return products, counted["share"].to_numpy(), truth


@cache
def measurement(rho: float) -> Any:
    """Return what is measured at a price, with the law of its noise."""
    return QUESTION.measurement(dpi.ZCDP(rho), schema=SCHEMA)


def naive(values: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Return ends of 95% intervals (R, 2, 2) of the slopes by the usual formulas; nan where these have no answer."""
    order = ["1", *BOUNDS]
    matrix = np.empty((len(values), 4, 4))
    for value, name in zip(values.T, names, strict=True):
        i, j = (order.index(part) for part in name.split(" * "))
        matrix[:, i, j] = matrix[:, j, i] = value
    xx, xy, yy = matrix[:, :3, :3], matrix[:, :3, 3], matrix[:, 3, 3]
    inverse = np.linalg.inv(xx)
    beta = np.einsum("rij,rj->ri", inverse, xy)
    df = matrix[:, 0, 0] - 3
    scale = (yy - np.einsum("ri,ri->r", beta, xy)) / df
    with np.errstate(invalid="ignore"):
        half = stats.t.ppf(0.975, df)[:, None] * np.sqrt(scale[:, None] * np.einsum("rii->ri", inverse))
    *units, response = (high - low for low, high in BOUNDS.values())
    ends = np.stack([beta - half, beta + half], axis=-1)[:, 1:]
    return ends * (response / np.array(units))[:, None]


def draw(rho: float, rng: np.random.Generator, replicates: int) -> Drawn:
    """Return both kinds of intervals of the slopes from the same releases, (R, 2, 2) each."""
    products, share, _ = population()
    sums = rng.multinomial(ROWS, share, replicates) @ products
    measured = measurement(rho)
    values = sums + measured.law.rvs(replicates, rng) * np.asarray(measured.steps)
    counted = QUESTION.estimate(Released.of_study(measured, values)).intervals[:, 1:]
    return {"naive": naive(values, measured.names), "dpinfer": counted}


def summary(_: float, drawn: Drawn) -> list[dict[str, Any]]:
    """Return coverage and median width of both readings of each slope; no interval, no coverage."""
    truth = population()[2]
    return [
        {"term": term, "reading": reading,
         "coverage": float(((ends[:, place, 0] <= truth[place + 1]) & (truth[place + 1] <= ends[:, place, 1])).mean()),
         "median width": float(np.nanmedian(np.diff(ends[:, place]))),
         "no interval": float(np.isnan(ends[:, place, 0]).mean())}
        for reading, ends in drawn.items() for place, term in enumerate(NAMES[1:])
    ]  # fmt: skip


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State the worst that the usual formulas do."""
    others = table[table["reading"] == "naive"]
    worst = others.loc[others["coverage"].idxmin()]
    error = np.sqrt(worst["coverage"] * (1 - worst["coverage"]) / worst["replicates"])
    return [Claim("coverage of 95% intervals of a slope by the usual formulas on the same noisy cross-products",
                  f"fair, n = {ROWS:,}, {worst['price']}, {worst['term']}", f"{worst['coverage']:.3f}",
                  worst["coverage"] < 0.8, error=f"{error:.3f}")]  # fmt: skip


def picture(table: pd.DataFrame) -> Figure:
    """Draw intervals from the same releases, and coverage at every price."""
    figure, (left, right, last) = new_figure(8.4, 3.5, 1, 3, width_ratios=[1, 1, 1.35])
    truth = population()[2][1]
    colours = {"naive": "#c44e52", "dpinfer": "#2f6690"}
    drawn = draw(SHOWN_AT, np.random.default_rng(SEED), SHOWN)
    for axes, reading, ends in zip((left, right), colours, drawn.values(), strict=True):
        low, high = ends[:, 0].T
        missed = ~((low <= truth) & (truth <= high))
        for colour, which in ((colours[reading], ~missed), ("black", missed)):
            places = np.flatnonzero(which)
            axes.hlines(places, low[places], high[places], color=colour, lw=1.6)
        axes.axvline(truth, color="grey", lw=0.8)
        axes.set(title=f"{reading}: {missed.sum()} of {SHOWN} miss", yticks=[], xlim=(-0.25, 0.3), xlabel="slope")
    for reading, colour in colours.items():
        one = table[(table["reading"] == reading) & (table["term"] == "educ")]
        last.plot(one["price"].str[5:-1].astype(float), one["coverage"], "o-", color=colour, label=reading)
    last.axhline(0.95, color="grey", lw=0.8, ls="--")
    last.set(xscale="log", ylim=(0, 1.02), xlabel="rho of zCDP", title="coverage of 95% intervals")
    last.legend(frameon=False, loc="lower right")
    return figure


STUDY = Study(
    "naive_regression", PRICES, draw, summary,
    (Rule("least coverage of 95% intervals of a slope from noisy cross-products of real rows", "coverage",
          where=lambda table: table["reading"] == "dpinfer", design=f"fair, n = {ROWS:,}, rho .01 to 3"),),
    axes=lambda rho: {"price": f"ZCDP({rho:g})"}, by=("term", "reading"), figure=picture, also=claims,
    notes=(f"{ROWS:,} rows drawn with replacement from statsmodels' fair data, add_remove; rate_marriage on educ and "
           "religious. Both readings have the same noisy cross-products. A reading that gives no interval does not "
           "cover.",),
)  # fmt: skip
