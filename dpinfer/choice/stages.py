"""The stages of a regression of a categorical response, in the engine of regressions by noisy iterations.

A row has J = K - 1 linear predictors of one vector of coefficients, ``eta_j = theta' D_j u`` with u the coordinates of
the regressors. Unordered levels have separate coefficients for each level but the first; ordered levels have a
threshold each and common slopes. So score and Hessian are those of one likelihood in q stacked coordinates, and all
that follows from them (lengths, clips, radii, the last step, its interval) is as in `dpinfer.regression` for one
predictor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from dpinfer.errors import FormulaError
from dpinfer.kernel.rows.iterations import ChoiceFrame, Interpolant, Term
from dpinfer.regression.design import LARGEST_SUM, Columns, framed
from dpinfer.regression.iterations import Plan, Start, floored, read_once, split_terms
from dpinfer.regression.models import Model, Tables, constant, tabled
from dpinfer.schema.columns import Category
from dpinfer.schema.expressions import constant_expression
from dpinfer.schema.formula import DesignColumn, compile_formula

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.kernel.rows.iterations import RoundFrame
    from dpinfer.release.laws import StageRelease
    from dpinfer.schema.formula import CompiledFormula
    from dpinfer.statistics.arrays import Array

__all__ = ["CHOICES", "MOST_LEVELS", "ChoiceColumns", "ChoiceModel", "ChoicePlan", "ChoiceStart"]

MOST_LEVELS = 12

_LAPLACE = {"start": Fraction(15, 100), "counts": Fraction(5, 100), "first": Fraction(20, 100)}

_RARE, _OF_NOISE, _FLOOR = 0.02, 1.5, 0.02
"""Least share of a level in a start, and least eigenvalues of its Gram matrix, in units of noise and for n = 1."""

_SPREAD = 2.0
"""Standard deviation of a linear predictor at the start, at most."""

_NEAREST = 0.02
"""Thresholds at which an iteration is taken lie no nearer."""

_STEEPEST = {"logistic": (1.0, 0.5), "norm": (8.2, 1.0)}
"""Largest derivative of a log chance by its linear predictor, and curvature, of predictors that are cut."""

_NODES = 2**16
_ENDS = {"mnlogit": 40.0, "ordered-logit": 40.0, "ordered-probit": 8.0}


@dataclass(frozen=True)
class ChoiceModel(Model):
    """A model of several levels: unordered, or ordered with the named distribution from scipy.stats."""

    law: str = ""

    @property
    def ordered(self) -> bool:
        """Whether levels are ordered."""
        return bool(self.law)

    @property
    def curves_of_predictors(self) -> dict[str, Interpolant]:
        """Functions of a linear predictor that a `ChoiceFrame` needs."""
        return _curves(self.name, self.law)

    def designs(self, levels: int, width: int) -> Array:
        """Return D (J, q, k): the linear predictor j of coordinates u is ``theta' D_j u``."""
        many = levels - 1
        if not self.ordered:
            return np.stack([np.kron(np.eye(many)[:, [one]], np.eye(width)) for one in range(many)])
        found = np.zeros((many, many + width - 1, width))
        found[:, many:, 1:] = -np.eye(width - 1)
        found[np.arange(many), np.arange(many), 0] = 1.0
        return found

    def chances(self, eta: Array) -> Array:
        """Return the probabilities (..., J + 1) of levels at linear predictors (..., J)."""
        if not self.ordered:
            return np.asarray(special.softmax(np.concatenate([np.zeros_like(eta[..., :1]), eta], axis=-1), axis=-1))
        below = getattr(stats, self.law).cdf(np.maximum.accumulate(eta, axis=-1))
        ends = np.zeros_like(eta[..., :1])
        return np.asarray(np.diff(np.concatenate([ends, below, ends + 1.0], axis=-1), axis=-1))

    def information(self, shares: Array) -> Array:
        """Return the expected Hessian (J, J) in the linear predictors if levels have these shares (K,)."""
        if not self.ordered:
            return np.asarray(np.diag(shares[1:]) - np.outer(shares[1:], shares[1:]))
        law = getattr(stats, self.law)
        density = law.pdf(law.ppf(np.cumsum(shares)[:-1]))
        gradients = np.diff(np.diag(density), axis=0, prepend=0.0, append=0.0) * -1.0
        return np.asarray(gradients.T / shares @ gradients)


CHOICES = {
    one.name: one
    for one in (
        ChoiceModel("mnlogit", "MNLogit", "choice"),
        ChoiceModel("ordered-logit", "Ordered Logit", "choice", law="logistic"),
        ChoiceModel("ordered-probit", "Ordered Probit", "choice", law="norm"),
    )
}
"""Every model by name."""


@lru_cache(maxsize=8)
def _curves(name: str, law: str) -> dict[str, Interpolant]:
    end = _ENDS[name]
    if not law:
        return {"mean": tabled(np.exp, -end, 0.0, _NODES)}
    found = getattr(stats, law)

    def steep(at: Array) -> Array:
        return np.asarray(found.pdf(at) * (-at if law == "norm" else -np.tanh(at / 2)))

    def outside(curve: Interpolant, above: float) -> Interpolant:
        return Interpolant(curve.low, curve.high, curve.values, 0.0, above)

    density, steepness = (tabled(one, -end, end, _NODES) for one in (found.pdf, steep))
    return {
        "mean": outside(tabled(found.cdf, -end, end, _NODES), 1.0),
        "density": outside(density, 0.0),
        "steepness": outside(steepness, 0.0),
    }


@dataclass(frozen=True, eq=False)
class ChoiceColumns(Columns):
    """The columns of a regression whose response is the number of a level: 0, 1, ..."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Levels of the response."""
        return tuple(self.schema[self.response.term].level_texts)

    @cached_property
    def _compiled(self) -> CompiledFormula:
        left, tilde, right = self._parted[0].partition("~")
        name = left.strip().strip("`")
        column = self.schema[name] if tilde and name in self.schema else None
        if not isinstance(column, Category) or not 3 <= len(column.level_texts) <= MOST_LEVELS:
            raise FormulaError(
                left.strip() or self.formula,
                f"is not a Category of 3 to {MOST_LEVELS} levels, as the response must be",
                "declare one; for two levels use logit or probit, for numbers ols",
            )
        regressors = compile_formula(f"~{right}", self.schema)
        if name in {one for each in regressors.design for one in each.columns}:
            raise FormulaError(self.formula, f"has {name} on both sides", "leave it out on the right")
        places = tuple(map(float, range(len(column.level_texts))))
        response = DesignColumn(name, name, constant_expression(1.0), ((name, places),))
        used = tuple(sorted({*regressors.columns, name}))
        return replace(regressors, text=self._parted[0], response=response, columns=used)


@dataclass(frozen=True, eq=False)
class ChoiceStart(Start):
    """The first stage's release; ``transform`` (q, J p) stacks ``D_j transform`` over predictors.

    ``information`` (q, q) is the expected Hessian of a row at the point.
    """

    information: Array


@dataclass(frozen=True, eq=False)
class ChoicePlan(Plan):
    """Stages of one regression of a response of several levels."""

    columns: ChoiceColumns
    model: ChoiceModel

    @cached_property
    def designs(self) -> Array:
        """See `ChoiceModel.designs`."""
        return self.model.designs(len(self.columns.texts), len(self.columns.names))

    @property
    def width(self) -> int:
        """Number q of coefficients."""
        return int(self.designs.shape[1])

    @property
    def _begun_with(self) -> int:
        k = len(self.columns.names)
        return k * (k + 1) // 2 + len(self.columns.texts) * k + 1

    @cached_property
    def _shares(self) -> dict[str, Fraction]:
        """Shares of the budget: also under Laplace noise, an iteration leads from the start to the last one's point."""
        return super()._shares | (_LAPLACE if self.norm == "l1" else {})

    def _response_scale(self, centres: Array, spreads: Array) -> tuple[float, float]:  # noqa: ARG002
        return 0.0, 1.0

    # Start

    def _start_terms(self) -> tuple[Term, ...]:
        """Terms of the start: regressors by level of the response; a row has one level, which sets the sensitivity."""
        prices = self._begin_prices
        inside = np.array([0.0, 1.0, 1.0, 0.0])
        levels = [
            Term(f"level {one + 1}", "vector", prices["score"], Interpolant(one - 0.75, one + 0.75, inside, 0.0, 0.0))
            for one in range(len(self.columns.texts))
        ]
        gram = Term("gram", "matrix", prices["gram"] / self._ratio, constant(1.0))
        return *levels, gram, Term("rows", "mass", prices["rows"], constant(1.0), power=0)

    @read_once
    def begun(self, stage: StageRelease) -> ChoiceStart:
        """Read what the start released, and find the first point."""
        settings, k = stage.settings, len(self.columns.names)
        terms = split_terms(stage, self._start_terms(), k)
        radius, transform = float(settings["radius"]), np.array(settings["transform"])
        counted, noise = float(terms["rows"][0][0]), terms["rows"][1]
        number = float(self.public_size) if self.public_size is not None else counted
        size = max(number, 2.0 * self.width, 4.0 * noise)
        gram, blur = terms["gram"][0] * radius**2, terms["gram"][1] * radius**2
        flat = np.sqrt(2.0) if self.norm == "l1" else 1.0
        second = floored(gram / size, max(_OF_NOISE * blur * flat * np.sqrt(k) / size, _FLOOR))
        levels = [f"level {one + 1}" for one in range(len(self.columns.texts))]
        means = np.stack([terms[one][0] for one in levels]) * (radius / size)
        point, shares = self._first(second, means)
        steep = self.model.information(shares)
        turned = np.einsum("ij,jrl->irl", steep, self.designs)
        information = np.einsum("iqk,irk->qr", self.designs @ second, turned, optimize=True)
        wide, spread = (np.einsum("jqk,jrk->qr", self.designs @ one, self.designs, optimize=True) / len(self.designs)
                        for one in (gram, second))  # fmt: skip
        return ChoiceStart(
            np.hstack([one @ transform for one in self.designs]),
            0.0,
            1.0,
            size,
            (size, 0.0 if self.public_size is not None else noise),
            spread,
            point,
            float(1 / np.mean(1 / np.diag(steep))),
            1.0,
            terms[levels[0]][1] * radius / size,
            (wide, blur * flat, radius),
            information,
        )

    def _first(self, second: Array, means: Array) -> tuple[Array, Array]:
        """Return the start's coefficients (q,) and the shares of the levels (K,), from mean regressors by level (K, k).

        Linear regressions of the level indicators, over the slope of their probability.
        """
        intercept = self.columns.intercept
        shares = np.clip(means[:, 0] / second[0, 0] if intercept else np.ones(len(means)), _RARE, 1.0)
        shares = shares / shares.sum()
        slopes = np.linalg.solve(second, means.T).T
        centre = second[0] / second[0, 0]
        if not self.model.ordered:
            found = slopes / shares[:, None]
            found = found[1:] - found[0]
            found[:, 0] *= 0.0 if intercept else 1.0
            lengths = np.sqrt(np.einsum("jk,kl,jl->j", found, second, found))
            found *= np.minimum(1.0, _SPREAD / np.maximum(lengths, 1e-300))[:, None]
            if intercept:
                found[:, 0] = np.log(shares[1:] / shares[0]) - found @ centre
            return found.ravel(), shares
        law = getattr(stats, self.model.law)
        places = law.ppf(np.cumsum(shares)[:-1])
        density = law.pdf(places)
        along = -(density @ np.cumsum(slopes, axis=0)[:-1]) / float(density @ density)
        along[0] = 0.0
        along *= min(1.0, _SPREAD / max(float(np.sqrt(along @ second @ along)), 1e-300))
        wider = np.sqrt(1 + float(along @ second @ along) / float(law.var()))
        return np.concatenate([places * wider + float(along @ centre), along[1:]]), shares

    # Iterations

    def _position(self, before: Mapping[str, StageRelease]) -> tuple[Start, Array, Array, float]:
        start = self.begun(before["start"])
        if "first" not in before:
            values, vectors = np.linalg.eigh(start.information)
            return start, start.point.copy(), np.asarray((vectors * values**-0.5) @ vectors.T), 1.0
        _, point, whiten, spread = super()._position(before)
        return start, self.in_order(point)[0], whiten, spread

    def in_order(self, point: Array) -> tuple[Array, tuple[int, ...]]:
        """Return a point (q,) with increasing thresholds, and which of them were moved."""
        if not self.model.ordered:
            return point, ()
        many = len(self.designs)
        rising = np.maximum.accumulate(point[:many] - _NEAREST * np.arange(many))
        moved = tuple(np.flatnonzero(rising > point[:many] - _NEAREST * np.arange(many) + 1e-12).tolist())
        return np.concatenate([rising + _NEAREST * np.arange(many), point[many:]]), moved

    def _by_predictor(self, start: Start, coordinates: Array) -> Array:
        """Return coordinates (q,) or (r, q) of each predictor as maps of the features (J, r, d)."""
        maps, p = self.columns.maps[:-1], len(self.columns.names)
        every = np.atleast_2d(coordinates) @ start.transform
        return np.stack([one @ maps for one in np.split(every, every.shape[1] // p, axis=1)])

    def _shortest(self, start: Start, whiten: Array) -> float:
        largest = np.abs(self._by_predictor(start, whiten.T)).sum(axis=2).max()
        return float(largest / (0.5 * LARGEST_SUM))

    def _at(self, start: Start, point: Array, whiten: Array, *, grouped: bool = False) -> tuple[RoundFrame, Tables]:  # noqa: ARG002
        along, linear = self._by_predictor(start, whiten.T), self._by_predictor(start, point)
        rows = np.vstack([*along, *linear, self.columns.maps[-1:]])
        options = {"norm": "l1", "ratio": self._ratio} if self.norm == "l1" else {}
        frame = framed(
            self.columns.features,
            rows,
            kind=ChoiceFrame,
            predictors=len(self.designs),
            **self.model.curves_of_predictors,
            **options,
        )
        return frame, Tables(weight=Interpolant(0.0, 1.0, np.array([0.0, 1.0]), 0.0, 1.0))  # of what a root adds

    def _largest_score(self, stage: StageRelease, start: Start, whiten: Array) -> float:
        return self._largest(stage, start, whiten)[0] * self.context.schema.rows_per_unit

    def _largest_size(self, stage: StageRelease, start: Start, whiten: Array) -> float:
        return self._largest(stage, start, whiten)[1] / self._ratio

    def _largest(self, stage: StageRelease, start: Start, whiten: Array) -> tuple[float, float]:
        """Return bounds on the length of the score and on the size of the Hessian of any row.

        For unordered levels the score is the deviation of a level's coordinates from their mean, and the size of the
        Hessian is their variance, at most half of the squared diameter, or all of it in sums of absolute values. For
        ordered levels, with v and v + c the
        coordinates of the predictors below and above, the score is (g_a + g_b) v + g_a c, and the Hessian is at most
        twice what the curvatures of v and c alone make: for a distance t of thresholds g_a is at most G + 1/t, and so
        on.
        """
        along = self._by_predictor(start, whiten.T)

        def longest(maps: Array) -> float:
            return float(np.linalg.norm(np.abs(maps).sum(axis=1), 1 if self.norm == "l1" else 2))

        if not self.model.ordered:
            each = [np.zeros_like(along[0]), *along]
            apart = max(longest(one - other) for place, one in enumerate(each) for other in each[:place])
            return apart, apart**2 / (1 if self.norm == "l1" else 2)
        far, (steep, bent) = max(map(longest, along)), _STEEPEST[self.model.law]
        score, size = steep * far, bent * far**2
        gaps = np.diff(np.array(stage.settings["point"])[: len(along)])
        for low, high, gap in zip(along[:-1], along[1:], gaps.tolist(), strict=True):
            apart = longest(high - low)
            score = max(score, steep * far + (steep + 1 / gap) * apart)
            size = max(size, 2 * (bent * far**2 + (bent + steep / gap + 1 / gap**2) * apart**2))
        return score, size

    # What coefficients are

    def coefficients(self, start: Start) -> tuple[tuple[str, ...], Array]:
        """Return names (P,) and weights (P, q) of the reported coefficients."""
        names, texts = self.columns.names, self.columns.texts
        each = np.split(start.transform.T, len(self.designs))
        if not self.model.ordered:
            labels = tuple(f"{text}: {name}" for text in texts[1:] for name in names)
            return labels, np.vstack(each)
        thresholds = tuple(f"{low}/{high}" for low, high in pairwise(texts))
        return (*names[1:], *thresholds), np.vstack([-each[0][1:], *(one[:1] for one in each)])
