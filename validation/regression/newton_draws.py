"""Regressions by Newton rounds on many data sets: the library's own stages and row sums, with seeded noise.

What the kernel does for one release (price, charge, draw discrete noise, store) is left out, and its noise scales are
stated here once more: `tests/regression/test_draws.py` compares both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from dpinfer.kernel.price import amounts
from dpinfer.kernel.rows.iterations import RoundCounts, RoundSum
from dpinfer.kernel.stage import Context
from dpinfer.privacy.accounting import gaussian_amount
from dpinfer.privacy.units import PureDP
from dpinfer.regression.iterations import Plan
from dpinfer.regression.question import Newton, estimated_from
from dpinfer.schema.formula import FormulaDesign


@dataclass
class Drawn:
    """What a stage released, as `StageRelease` shows it."""

    array: np.ndarray
    noise_variances: np.ndarray
    settings: dict[str, Any] = field(default_factory=dict)


class Drawer:
    """One question at one price, asked of many data sets given as arrays."""

    def __init__(self, question: Newton, context: Context) -> None:
        self.question, self.context = question, context
        self.plan: Plan = question.plan(context)
        self.slots = question.slots(context)
        self.amounts = amounts(context.privacy, self.slots)
        self.design = FormulaDesign(context.schema, self.plan.columns.compiled.design)
        self.kinds = (*self.plan.kinds, "margins")[: len(self.slots)]

    def stages(
        self,
        cells: dict[str, np.ndarray] | Callable[[Any], np.ndarray],
        rng: np.random.Generator,
        persons: np.ndarray | None = None,
    ) -> dict[str, Drawn]:
        """Run all stages on the rows of one data set; ``persons`` says whose each row is: 0, 1, ..., in this order.

        In place of cells a function may find the features of rows, encoded before.
        """
        known: dict[int, np.ndarray] = {}
        released: list[Drawn] = []
        for place, amount in enumerate(self.amounts):
            stage = self.question.stage(place, self.context, tuple(released))  # type: ignore[arg-type]
            rows, weights = stage.measure.rows, stage.measure.weights or (1.0,) * len(stage.measure.rows.parts)
            features = rows.frame.features
            if id(features) not in known:
                known[id(features)] = cells(features) if callable(cells) else encoded(features, cells, persons)
            exact = self._exact(rows, known[id(features)], persons)
            scales = self._scales(rows, np.array(weights), amount)
            laplace = isinstance(self.context.privacy, PureDP)
            noise = rng.laplace(size=exact.size) * scales if laplace else rng.normal(size=exact.size) * scales
            variances = (2.0 if laplace else 1.0) * scales**2
            released.append(Drawn(exact + noise, variances, dict(stage.settings)))
        return dict(zip(self.kinds, released, strict=True))

    def estimate(
        self,
        cells: dict[str, np.ndarray] | Callable[[Any], np.ndarray],
        rng: np.random.Generator,
        method: str = "auto",
        persons: np.ndarray | None = None,
    ) -> Any:
        """Return the estimates of one data set."""
        return estimated_from(self.plan, tuple(self.stages(cells, rng, persons).values()), method)  # type: ignore[arg-type]

    @staticmethod
    def _exact(rows: RoundSum | RoundCounts, encoded: np.ndarray, persons: np.ndarray | None = None) -> np.ndarray:
        size = encoded.shape[1]
        if not rows._whole_units:  # rows are forced into the set one by one, whosever they are
            persons = None
        found = np.zeros(rows.entries)
        for mine in _slices(size, persons):
            theirs = None if persons is None else persons[mine] - persons[mine.start]
            found += rows.summed(encoded[:, mine], theirs)
        if isinstance(rows, RoundSum):
            return found / rows.units
        return np.array(rows.finish(found.astype(int).tolist()), dtype=np.float64)

    def _scales(self, rows: RoundSum | RoundCounts, weights: np.ndarray, amount: Any) -> np.ndarray:
        laplace = isinstance(amount, PureDP)
        norm = "l1" if laplace else "l2"
        bound = float(rows.change(weights, self.context.neighbors, norm))
        if laplace:
            per = bound / float(amount.epsilon)
        else:
            priced = gaussian_amount(amount)
            per = bound / float(np.sqrt(2 * priced.rho) if hasattr(priced, "rho") else priced.mu)
        pattern = rows.pattern(norm) / rows.units if isinstance(rows, RoundSum) else np.ones(len(rows.part_of))
        return per * weights[rows.part_of] * pattern


def encoded(features: Any, cells: dict[str, np.ndarray], persons: np.ndarray | None = None) -> np.ndarray:
    """Return the features of rows, a slice at a time; people whose rows are compared stay together."""
    size = len(next(iter(cells.values())))
    step = max(size, 1) if features.within is not None else 2**15
    parts = [
        features.encode({name: cells[name][start : start + step] for name in features.columns}, persons=persons)[0]
        for start in range(0, max(size, 1), step)
    ]
    return np.concatenate(parts, axis=1)


def _slices(size: int, persons: np.ndarray | None) -> list[slice]:
    """Slices of about 8,192 rows, none of which divides a person's."""
    ends = np.append(np.arange(0, size, 2**13), size)
    if persons is not None:
        ends = np.unique(np.searchsorted(persons, np.append(persons[ends[:-1]], persons[-1] + 1)))
    return [slice(int(low), int(high)) for low, high in pairwise(ends)]


def replicates(
    drawer: Drawer,
    rows: Callable[[np.random.Generator], tuple[dict[str, np.ndarray], dict[str, Any]]],
    truth: np.ndarray,
    rng: np.random.Generator,
    count: int,
    *,
    level: float = 0.95,
    more: Callable[[Any], dict[str, Any]] = lambda _: {},
) -> dict[str, np.ndarray]:
    """Draw data sets, fit each, and return ends of intervals, errors and more, with a row per replicate.

    ``rows`` draws the cells of a data set, with numbers that are stored beside, and "persons" where rows have owners;
    ``more`` returns numbers of a fit.
    """
    every, found = np.eye(len(truth)), []
    for _ in range(count):
        cells, beside = rows(rng)
        fit = drawer.estimate(cells, rng, persons=beside.pop("persons", None))
        ends = fit.intervals(every, 1 - level)
        found.append({"ends": ends, "error": fit.params - truth, "flagged": fit.fit.flagged, **beside, **more(fit)})
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def covers(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether intervals (..., 2) hold truths (...,)."""
    return (ends[..., 0] <= truth) & (truth <= ends[..., 1])
