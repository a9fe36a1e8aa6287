"""Sums for average marginal effects: one more stage, at the estimate, of slopes and of changes of the mean.

A row contributes the slope of the mean at its linear predictor, and for each 0/1 term, each level of a factor and each
integer, the change of the mean when the term changes. All of these are functions of one number, the linear predictor
without the term, and lie between 0 and a largest value. Divided by it they are at most 1, so that shares that add up to
1 omit no row. Rows with outlying regressors are not downweighted.

The mean under a logarithmic link is unbounded. Linear predictors are clipped at 4 standard deviations above their
centre, according to released moments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.kernel.rows.iterations import Interpolant, RoundSum, Term
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.regression.inference import AverageChange, AverageSlope
from dpinfer.regression.iterations import split_terms
from dpinfer.regression.models import LOG, constant, tabled
from dpinfer.regression.results import lone_changes
from dpinfer.schema.formula import FormulaDesign

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpinfer.regression.inference import RegressionInference
    from dpinfer.regression.iterations import Plan
    from dpinfer.regression.models import Response
    from dpinfer.regression.results import Change
    from dpinfer.release.laws import StageRelease
    from dpinfer.statistics.arrays import Array

__all__ = ["MARGINS", "Margins"]

MARGINS = Fraction(5, 100)
"""Share of the budget."""

_ROWS, _SLOPE = 0.1, 0.3
"""Prices of the number of rows and of the slope; changes share what is left."""

_FARTHEST = 4.0
_LARGEST = 2.0**30
_STEP = 0.05
_LEAST = 1e-12
_SPAN, _BESIDE = 25.0, 8.0
"""Range of tables: down from the end of a logarithmic link, and beside where other mean functions end."""


@dataclass(frozen=True, eq=False)
class Margins:
    """The stage of one regression."""

    plan: Plan

    @cached_property
    def changes(self) -> list[Change]:
        """The summed changes."""
        columns = self.plan.columns
        return lone_changes(FormulaDesign(columns.schema, columns.compiled.design))

    @property
    def response(self) -> Response:
        """The mean function."""
        assert self.plan.model.response is not None
        return self.plan.model.response

    def slots(self) -> tuple[Slot, ...]:
        """Return each stage's share of the budget, ending with this stage."""
        before = [replace(one, share=one.share * (1 - MARGINS)) for one in self.plan.slots()]
        return (*before, Slot(MARGINS, len(self.changes) + 2, adaptive=True))

    def stage(self, found: RegressionInference, start: StageRelease) -> Stage:
        """Ask for the sums at the estimate ``found``."""
        columns, offset = self.plan.columns, float(start.settings["offset"])
        params = found.params * min(1.0, _LARGEST / max(float(np.abs(found.params @ columns.maps[:-1]).sum()), 1.0))
        ends = [
            float(params @ mean) + offset + _FARTHEST * float(np.sqrt(max(float(params @ cov @ params), 0.0)))
            for mean, cov in self._laws(params, *_moments(found))
        ]
        settings = {"point": params.tolist(), "ends": np.clip(ends, -1e3, 1e3).tolist(), "offset": offset}
        predictors = np.stack([self._without(params, one) for one in self.changes]) if self.changes else None
        frame = columns.frame(
            np.zeros((1, len(params))),
            params,
            (0.0, 1.0),
            constant(0.0),
            predictors=predictors,
            norm=self.plan.norm,
        )
        rows = RoundSum(frame, tuple(term for term, _ in self._terms(settings)))
        weights = rows.usual_weights(self.plan.context.neighbors, self.plan.norm)
        return Stage(Sum(rows, weights=tuple(weights.tolist())), settings=settings)

    def read(self, stage: StageRelease, found: RegressionInference) -> tuple[AverageSlope, tuple[AverageChange, ...]]:
        """Return the averages with their derivatives for normal regressors with the released moments."""
        asked = self._terms(stage.settings)
        sums = split_terms(stage, [term for term, _ in asked], 1)
        params, offset = np.array(stage.settings["point"]), float(stage.settings["offset"])
        rows = max(float(sums["rows"][0][0]), sums["rows"][1], 1.0)
        averages = []
        for term, unit in asked[1:]:
            summed, noise = sums[term.name]
            value = float(summed[0]) * unit / rows
            averages.append((value, (noise * unit / rows) ** 2 + (value * sums["rows"][1] / rows) ** 2))
        laws, total = self._laws(params, *_moments(found)), found.cov_sampling + found.cov_noise
        gradient = self._mean_product(params, *laws[0], offset, 1)
        value, variance = averages[0]
        slope = AverageSlope(max(value, 0.0), variance + float(gradient @ total @ gradient), total @ gradient)
        changes = []
        for one, (size, noise), (mean, cov) in zip(self.changes, averages[1:], laws[1:], strict=True):
            before, after = (
                self._mean_product(params, mean + added, cov, offset, 0) for added in (one.lower, one.upper)
            )
            sign = -1.0 if float((one.upper - one.lower) @ params) < 0 else 1.0
            change = (sign * size, noise, (after - before) / one.divisor)
            changes.append(AverageChange(one.name, one.term, one.kind, *change))
        return slope, tuple(changes)

    def _terms(self, settings: Mapping[str, Any]) -> list[tuple[Term, float]]:
        """Return the summed terms, with the number that 1 represents; the number of rows first."""
        point, ends = (np.array(settings[name]) for name in ("point", "ends"))
        price = _SLOPE if self.changes else 1 - _ROWS
        found = [(Term("rows", "mass", _ROWS, constant(1.0)), 1.0)]
        table, unit = self._table(self.response.slope, ends[0])
        found.append((Term("slope", "mass", price, table, of="linear"), unit))
        each = (1 - _ROWS - _SLOPE) / max(len(self.changes), 1)
        for place, one in enumerate(self.changes):
            low, high = float(one.lower @ point), float(one.upper @ point)
            table, unit = self._table(self._change(low, high, one.divisor), ends[place + 1])
            found.append((Term(f"change {place + 1}", "mass", each, table, of="label", place=place), unit))
        return found

    def _change(self, low: float, high: float, divisor: float) -> Callable[[Array], Array]:
        mean = self.response.mean
        return lambda predictor: np.abs(mean(predictor + high) - mean(predictor + low)) / divisor

    def _table(self, function: Callable[[Array], Array], end: float) -> tuple[Interpolant, float]:
        """Return a function over its largest value as a table, and that value."""
        far = self.response.farthest + _BESIDE
        low, high = (end - _SPAN, end) if self.response is LOG else (-far, far)
        found = tabled(function, low, high)
        unit = max(float(found.values.max()), _LEAST)
        values = found.values / unit
        return Interpolant(low, high, values, float(values[0]), float(values[-1])), unit

    def _laws(self, params: Array, mean: Array, cov: Array) -> list[tuple[Array, Array]]:
        """Mean (p,) and covariance (p, p) of all regressors, then without the term of each change."""
        found = [(mean, cov)]
        for one in self.changes:
            kept = np.ones(len(params))
            kept[list(one.places)] = 0.0
            found.append((mean * kept, cov * np.outer(kept, kept)))
        return found

    @staticmethod
    def _without(params: Array, change: Change) -> Array:
        found = params.copy()
        found[list(change.places)] = 0.0
        return found

    def _mean_product(self, params: Array, mean: Array, cov: Array, offset: float, order: int) -> Array:
        """Mean of the regressors (p,) times the slope of the mean response, or its derivative for an order of 1."""
        centre, variance = float(params @ mean) + offset, max(float(params @ cov @ params), 0.0)
        low, middle, high = self.response.average_slope(
            centre + _STEP * np.array([-1.0, 0.0, 1.0]), np.full(3, variance)
        )
        derivatives = (middle, (high - low) / (2 * _STEP), (high - 2 * middle + low) / _STEP**2)
        return np.asarray(derivatives[order] * mean + derivatives[order + 1] * (cov @ params))


def _moments(found: RegressionInference) -> tuple[Array, Array]:
    """Released mean (p,) and covariance (p, p) of the regressors."""
    assert found.moments is not None
    return found.moments
