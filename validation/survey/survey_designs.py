"""Populations of primary sampling units within strata: made up, and real rows; and samples of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.statistics.inference import Released
from validation.common.real import rows_of

PRICES = (dpi.ZCDP(0.5), dpi.ZCDP(0.05), dpi.PureDP(1.0))
SIZES = (1_000, 5_000, 50_000)

MADE = {"2 a stratum": (30, 2), "5 a stratum": (10, 5), "30 a stratum": (2, 30)}
"""Strata, and units that are drawn in each."""

OUTCOMES = ("even", "skewed")
REAL = {"wages by PUMA": (9, 6), "schools by district": (4, 12)}
"""Weekly wages of the US census of 2000 by PUMA, cut at 4,000 dollars (`census2000`); scores of schools (`meap01`)."""

_UNITS, _ROWS = 200, 40
"""Units of a stratum of a made-up population, and rows of each."""

SPREAD = 5.0
"""Largest weight of a made-up row over the smallest."""


@dataclass(frozen=True)
class Population:
    """Rows, the unit and stratum of each, what is declared, and how many units a sample has of a stratum.

    Attributes
    ----------
    frame : DataFrame
        Columns y, x, w and g; rows of a unit together.
    unit : ndarray of int (N,)
    stratum : ndarray of int (units,)
    schema : Schema
        With columns h and u, the stratum and the place of a unit in the sample.
    drawn : int
        Units of a sample in each stratum.
    """

    frame: pd.DataFrame
    unit: np.ndarray
    stratum: np.ndarray
    schema: dpi.Schema
    drawn: int

    @property
    def strata(self) -> int:
        """Number of strata."""
        return int(self.stratum.max()) + 1

    def sample(self, rng: np.random.Generator, n: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows of ``size`` samples: places of rows (size, n), and the sample's unit that each belongs to.

        Units are drawn with replacement within strata, then rows with replacement within units, as many in each.
        """
        units = self.strata * self.drawn
        starts = np.searchsorted(self.unit, np.arange(len(self.stratum)))
        sizes = np.bincount(self.unit)
        of = [np.flatnonzero(self.stratum == one) for one in range(self.strata)]
        chosen = np.concatenate([rng.choice(one, (size, self.drawn)) for one in of], axis=1)
        slot = np.arange(n) * units // n
        at = chosen[:, slot]
        return starts[at] + (rng.random(at.shape) * sizes[at]).astype(int), slot

    def expected(self, values: np.ndarray) -> np.ndarray:
        """Expected mean of values (N, ...) over a sample's rows: each stratum and each of its units counts the same."""
        share = 1 / np.bincount(self.stratum)[self.stratum] / np.bincount(self.unit) / self.strata
        return np.tensordot(share[self.unit], values, axes=1)


def declared(strata: int, drawn: int, **columns: Any) -> dpi.Schema:
    """Declare the columns of a population."""
    return dpi.Schema(**columns, g=dpi.Category(["a", "b"]), h=dpi.Integer(0, strata - 1), u=dpi.Integer(1, drawn))


@cache
def population(design: str, outcome: str) -> Population:
    """Return a population; weights of made-up rows differ, and are related to y."""
    if design in REAL:
        return real(design)
    strata, drawn = MADE[design]
    rng = np.random.default_rng([strata, drawn, OUTCOMES.index(outcome)])
    count = strata * _UNITS
    stratum, unit = np.repeat(np.arange(strata), _UNITS), np.repeat(np.arange(count), _ROWS)
    level = rng.normal(0, 1, strata)[stratum] + rng.normal(0, 0.7, count)
    x = np.clip(0.5 + 0.1 * level[unit] + 0.15 * rng.normal(size=unit.size), 0, 1)
    raw = 3 * x + 0.5 * level[unit] + rng.normal(size=unit.size)
    y = 45 + 8 * raw if outcome == "even" else 2 * np.exp(0.75 * raw)
    w = 1 + (SPREAD - 1) * rng.beta(1, 3, unit.size) * np.clip(0.4 + 0.2 * raw, 0, 1)
    g = np.where(rng.random(unit.size) < 0.15, "b", "a")
    frame = pd.DataFrame({"y": np.clip(y, 0, 100), "x": x, "w": w, "g": g})
    schema = declared(strata, drawn, y=dpi.Real(0, 100), x=dpi.Real(0, 1), w=dpi.Real(1, SPREAD))
    return Population(frame, unit, stratum, schema, drawn)


def real(design: str) -> Population:
    """Return real rows: strata are groups of states, or quarters of districts by the share of poor children."""
    strata, drawn = REAL[design]
    if design == "wages by PUMA":
        rows = rows_of("census2000")
        state = pd.factorize(rows["state"], sort=True)[0]
        wage, domain = np.clip(np.exp(rows["lweekinc"]), 0, 4000), np.where(rows["exper"] < 10, "b", "a")
        key = state * 10_000 + rows["puma"]
        rows = rows.assign(y=wage, x=rows["educ"], key=key, g=domain, w=1 + state % 4, h=state % strata)
        columns = {"y": dpi.Real(0, 4000), "x": dpi.Integer(0, 16), "w": dpi.Integer(1, 4)}
    else:
        rows = rows_of("meap01")
        poor = rows.groupby("dcode")["lunch"].transform("mean")
        quarter, domain = pd.qcut(poor, strata, labels=False), np.where(rows["exppp"] > 6000, "b", "a")
        renamed = rows.rename(columns={"math4": "y", "lunch": "x", "dcode": "key"})
        rows = renamed.assign(w=rows["enroll"] / 100, g=domain, h=quarter)
        columns = {"y": dpi.Real(0, 100), "x": dpi.Real(0, 100), "w": dpi.Real(0, 15)}
    rows = rows.sort_values(["h", "key"]).reset_index(drop=True)
    unit = rows.groupby(["h", "key"], sort=True).ngroup().to_numpy()
    stratum = rows["h"].groupby(unit).first().to_numpy(dtype=int)
    frame = rows[["y", "x", "w", "g"]]
    return Population(frame, unit, stratum, declared(strata, drawn, **columns), drawn)


def sums_of(of: Population, measured: Any, places: np.ndarray, slot: np.ndarray) -> np.ndarray:
    """Sums (R, m) of samples, without noise, in units of the scaled features."""
    raw = {name: of.frame[name].to_numpy() for name in of.frame}
    raw |= {"h": np.zeros(len(of.frame), dtype=int), "u": np.ones(len(of.frame), dtype=int)}
    cells, numbers = measured.rows.encode({name: raw[name] for name in measured.rows.columns}, len(of.frame))
    units = of.strata * of.drawn
    domains, size = measured.rows.size // units, len(places)
    at = (np.arange(size)[:, None] * units + slot) * domains + cells[places]
    each = [np.bincount(at.ravel(), one[places].ravel(), size * units * domains) for one in numbers]
    return np.stack(each, axis=-1).reshape(size, -1) / 2**19


def released(measured: Any, exact: np.ndarray, rng: np.random.Generator) -> Released:
    """Add the noise of a price."""
    return Released.of_study(measured, exact + measured.law.rvs(len(exact), rng) * np.asarray(measured.steps))
