"""The stages of a regression of counts or positive numbers, each built from what earlier ones released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.inference.newton import solve_rounds
from dpinfer.inference.newton_inference import NewtonInference
from dpinfer.inference.newton_level import Level
from dpinfer.inference.newton_rounds import Moments, Round
from dpinfer.inference.newton_terms import Released, floored, split_terms
from dpinfer.kernel.rows.round_counts import Bins, RoundCounts
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.numerics.count_laws import NegativeBinomial
from dpinfer.procedures.newton_bins import edge_of
from dpinfer.procedures.newton_count_bins import both_sides, folded_counts, halves, octaves, share_of, spread_of
from dpinfer.procedures.newton_counts import CHANCES, NODES, CountCut, CountModel
from dpinfer.procedures.newton_steps import NewtonPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.kernel.rows.round_frame import RoundFrame
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.newton_columns import Scaled
    from dpinfer.procedures.newton_start import Begun
    from dpinfer.release.stage import StageRelease

__all__ = ["CountPlan"]

_FLOOR, _OF_EDGE = 0.02, 1.5
"""Eigenvalues of the second moments that whiten are at least this, and this many edges of their noise."""

_LEAST_CUT, _FARTHEST_CUT, _OF_NOISE, _OF_NOISE_SPREAD = 1.5, 4.0, 0.2, 0.1
"""Residuals are cut at this many standard deviations or farther, as far as noise stays below this part of sampling.

The part is larger for counts that spread more than their law: what cutting takes is less known then.
"""

_LARGEST_PREDICTOR = 1.5
"""Linear predictors of a start have at most this standard deviation."""

_BETWEEN = 0.75
"""Part of the distance between the laws that spread as residuals do by which the truth may be off their middle."""

_LONGEST = 0.8
"""The next point changes linear predictors by at most this standard deviation."""

_SIZES, _RESIDUALS, _DIFFERENCES = "size", "residual", "difference"
_WEIGHTS = (0.35, 0.4, 0.25)
"""Shares of the price of the counts: of sizes, residuals and differences."""

_LEVELS = 12

_EXPLAINED = 0.3
"""Standard deviation of the linear predictor along one direction that a start takes to be usual."""


@dataclass(frozen=True, eq=False)
class CountPlan(NewtonPlan):
    """Stages of one regression with a log link; see `NewtonPlan`."""

    model: CountModel

    def __post_init__(self) -> None:
        """Tell the model how large the response may be."""
        upper = float(self.columns.response.expression.upper)
        object.__setattr__(self, "model", replace(self.model, largest=max(upper, 1e-100)))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """See `NewtonPlan`: the response's size is always measured, the regressors' ranges if asked."""
        first = ("ranges",) if self.ranges and self.columns.numeric else ()
        return (*first, "response", "start", "counts", "first", "sizes", "second")

    def slots(self) -> tuple[Slot, ...]:
        """See `NewtonPlan`."""
        p = self.width
        products = p * (p + 1) // 2
        most = {
            "ranges": len(self.columns.numeric) * 2 ** (_LEVELS + 1),
            "response": len(self._response_cuts) + 1,
            "start": products + p + 2,
            "counts": len(octaves(p)) + 4 * len(halves()) + 3,
            "first": products + p,
            "sizes": len(octaves(p)) + 1,
            "second": 2 * products + p + 2,
        }
        return tuple(Slot(self.share(kind), most[kind], adaptive=place > 0) for place, kind in enumerate(self.kinds))

    def stage(self, place: int, released: tuple[StageRelease, ...]) -> Stage:
        """See `NewtonPlan`."""
        build = {"response": self._response, "sizes": self._sized}.get(self.kinds[place])
        return super().stage(place, released) if build is None else build(dict(zip(self.kinds, released, strict=False)))

    # Start

    @cached_property
    def _response_cuts(self) -> Array:
        """Half octaves of the response, or of its rate at a typical offset."""
        return np.asarray(self.model.largest * 2.0 ** (np.arange(-28, 5) / 2))

    def _response(self, before: dict[str, StageRelease]) -> Stage:
        scaled = self.columns.scaled(self._found_ranges(before))
        frame = self._start_frame(scaled, 1.0)
        return Stage(
            Sum(RoundCounts(frame, (Bins("response", "residual", self._response_cuts),))),
            settings={"offset": scaled.offset},
        )

    def _start_frame(self, scaled: Scaled, unit: float) -> RoundFrame:
        tables = self.model.start_tables(scaled.offset)
        return self._frame(
            scaled.transform / scaled.radius, np.zeros(self.width), (0.0, unit), tables.mean, tables.inverse_sd
        )

    def _unit_of(self, stage: StageRelease) -> float:
        """Return the size that responses were seen to have."""
        noise = float(np.sqrt(stage.noise_variances[0]))
        seen = bool((stage.array[1:] >= 4.0 * noise).any())
        least = 1.0 if self.model.largest >= 1.0 else self.model.largest
        return (
            max(edge_of(stage.array[1:], self._response_cuts, noise), self.model.largest * 2.0**-13) if seen else least
        )

    def _start(self, before: dict[str, StageRelease]) -> Stage:
        scaled = self.columns.scaled(self._found_ranges(before))
        unit = self._unit_of(before["response"])
        settings: dict[str, Any] = {
            "transform": scaled.transform.tolist(),
            "radius": scaled.radius,
            "unit": unit,
            "offset": scaled.offset,
        }
        return self._round(self._start_frame(scaled, unit), self.model.start_terms(), settings)

    def _frame(self, *parts: Any) -> RoundFrame:
        return self.columns.frame(*parts, norm=self.norm)

    def _first_point(self, stage: StageRelease, start: Begun) -> tuple[Array, float]:
        """Return coefficients from least squares: slopes over the mean, shrunk, and the intercept that gives the mean.

        The second number is the standard deviation of Pearson residuals, from the squares of the responses.
        """
        low, high = self.model.ends
        unit, offset = 3.0 * start.unit, float(stage.settings["offset"])
        if not self.columns.intercept:
            slope = np.linalg.solve(start.second, start.score) * unit
            return np.asarray(slope) * min(
                1.0, _LARGEST_PREDICTOR / max(float(np.sqrt(slope @ start.second @ slope)), 1e-9)
            ), 1.0
        moments = start.moments(intercept=True)
        noise = start.terms["score"].scale * float(stage.settings["radius"]) / start.size
        mean = float(start.score[0] / start.second[0, 0]) * unit
        mean = float(np.clip(mean, max(noise * unit, 0.5 / start.size, np.exp(low)), np.exp(high)))
        cov = floored(moments.cov[1:, 1:], max(_OF_EDGE * start.edge, _FLOOR))
        cross = start.score[1:] - moments.mean[1:] * start.score[0]
        # Slopes of directions that vary little are the noisiest: each is shrunk as if all explained alike.
        values, vectors = np.linalg.eigh(cov)
        along = vectors.T @ cross
        explained = (_EXPLAINED * mean / unit) ** 2
        slope = vectors @ (along / values * (explained * values / (explained * values + noise**2)))
        square = float(slope @ cov @ slope)
        # Stein's shrinkage: least squares of pure noise have a squared length of noise^2 in each direction.
        noisy = (len(slope) - 2) * (noise**2 + min(mean / unit**2, 0.1) / start.size)
        slope = slope * float(np.clip(1.0 - noisy / max(square, 1e-300), 0.0, 1.0)) * (unit / mean)
        spread = float(np.sqrt(max(float(slope @ cov @ slope), 0.0)))
        slope = slope * min(1.0, _LARGEST_PREDICTOR / max(spread, 1e-9))
        centre = np.log(mean) - 0.5 * float(slope @ cov @ slope) - offset
        centre = float(np.clip(centre, low + 1.0, high - 1.0))
        point: Array = np.concatenate([[centre - float(moments.mean[1:] @ slope)], slope])
        return point, self._deviation(start, point, moments, offset)

    def _deviation(self, start: Begun, point: Array, moments: Moments, offset: float) -> float:
        """Return the standard deviation of Pearson residuals: at least 1 for counts."""
        means, chances = self._predicted(moments, point, offset)
        square = start.terms["square"]
        second = max(float(square.value[0]), 2 * square.scale) * (3.0 * start.unit) ** 2 / start.size
        left = second - float(means**2 @ chances)
        found = left / max(float(self.model.law.variance(means) @ chances), 1e-300)
        least = 0.05 if self.model.level_of == "residual" else 1.0
        return float(np.sqrt(np.clip(found, least, 1e4)))

    def _predicted(self, moments: Moments, point: Array, offset: float) -> tuple[Array, Array]:
        """Return means of the response and their chances, where the linear predictor is normal."""
        spread = float(np.sqrt(max(float(point @ moments.cov @ point), 0.0)))
        centre = float(moments.mean @ point) + offset
        return np.exp(np.clip(centre + spread * NODES, *self.model.ends)), CHANCES

    def _spread_of(self, moments: Moments, point: Array, offset: float) -> dict[str, float]:
        """Return mean and standard deviation of the linear predictor, for settings."""
        spread = float(np.sqrt(max(float(point @ moments.cov @ point), 0.0)))
        return {"centre": float(np.clip(moments.mean @ point + offset, *self.model.ends)), "width": min(spread, 10.0)}

    def _weighted(self, moments: Moments, point: Array, offset: float) -> tuple[float, Array, Array]:
        """Predict the mean of w, and mean products of regressors (p, p), and of them with the mean response (p,)."""
        cov, mean = moments.cov, moments.mean
        along, nodes = cov @ point, NODES
        unit = along / max(float(np.sqrt(max(float(point @ along), 0.0))), 1e-12)
        values, chances = self._predicted(moments, point, offset)
        weights = np.maximum(self.model.law.weight(values), 1e-300) * chances
        total = float(weights.sum())
        moved, square = float(weights @ nodes) / total, float(weights @ nodes**2) / total
        second = cov + np.outer(mean, mean) * (0.0 if not self.columns.intercept else 1.0)
        second = second + (square - 1.0) * np.outer(unit, unit) + moved * (np.outer(mean, unit) + np.outer(unit, mean))
        level = float(values @ chances) * mean + float((values * nodes) @ chances) * unit
        return total, second, level

    # Counts

    def _counts(self, before: dict[str, StageRelease]) -> Stage:
        start = self.begun(before["start"])
        point, spread = self._first_point(before["start"], start)
        offset = float(before["start"].settings["offset"])
        moments = start.moments(intercept=self.columns.intercept)
        weight, second, _ = self._weighted(moments, point, offset)
        second = floored(second, max(_OF_EDGE * start.edge, _FLOOR))
        values, vectors = np.linalg.eigh(second)
        whiten = (vectors * values**-0.5) @ vectors.T
        settings = {"whiten": whiten.tolist(), "point": point.tolist(), "offset": offset, "weight": weight}
        settings["spread"] = spread
        frame = self._pearson(start, whiten, point, CountCut(weight=weight))
        places = (
            Bins(_SIZES, "size", octaves(self.width)),
            Bins(_RESIDUALS, "residual", both_sides(halves())),
            Bins(_DIFFERENCES, self.model.level_of, both_sides(halves())),
        )
        weights = tuple(float(one**-0.5 if self.norm == "l2" else 1 / one) for one in _WEIGHTS)
        return Stage(Sum(RoundCounts(frame, places), weights=weights), settings=settings)

    def _pearson(self, start: Begun, frame: Array, point: Array, cut: CountCut) -> RoundFrame:
        tables = self.model.tables(cut)
        return self._frame(
            frame @ start.transform,
            start.transform.T @ point,
            (0.0, 1.0),
            tables.mean,
            tables.inverse_sd,
            tables.lift,
        )

    # Rounds

    def _first(self, before: dict[str, StageRelease]) -> Stage:
        counts = before["counts"]
        sizes = octaves(self.width)
        radius = self._far(counts.array[1 : len(sizes) + 1], float(np.sqrt(counts.noise_variances[0])))
        return self._later(before, self._settings(before, counts.settings, radius), last=False)

    def _far(self, counts: Array, noise: float) -> float:
        """Return the length of regressors that few rows are beyond; see `RoundFrame` for the norm "l1"."""
        edge = edge_of(counts, octaves(self.width), noise)
        return float(np.sqrt(edge * (2.0 if self.norm == "l1" else 1.0)))

    def _settings(self, before: dict[str, StageRelease], seen: Mapping[str, Any], radius: float) -> dict[str, Any]:
        """Return the settings of a round, at the point and in the coordinates in which rows were counted."""
        start = self.begun(before["start"])
        moments = start.moments(intercept=self.columns.intercept)
        point, offset = np.array(seen["point"]), float(before["start"].settings["offset"])
        return {
            "point": point.tolist(),
            "weight": float(seen["weight"]),
            **self._cuts(before["counts"], radius, start),
            **self._spread_of(moments, point, offset),
            "radius": radius,
            "frame": (np.array(seen["whiten"]) / radius).tolist(),
        }

    def _cuts(self, counts: StageRelease, radius: float, start: Begun) -> dict[str, float]:
        """Return where residuals and the level are cut, and the standard deviation of residuals."""
        settings = counts.settings
        ends = np.cumsum([len(octaves(self.width)) + 1, len(both_sides(halves())) + 1])
        _, residuals, differences = np.split(counts.array, ends)
        noise, other = np.sqrt(counts.noise_variances)[ends]
        cuts, folded = halves(), folded_counts(differences)
        share, size = float(self.share("second")), start.size
        edge = edge_of(folded_counts(residuals), cuts, noise * np.sqrt(2.0))
        spread = max(float(settings["spread"]), spread_of(residuals, edge, size))
        farthest = edge_of(folded, cuts, other * np.sqrt(2.0))
        moments = start.moments(intercept=self.columns.intercept)
        means, chances = self._predicted(moments, np.array(settings["point"]), float(settings["offset"]))
        typical = 1.0 if self.model.level_of == "residual" else float(np.sqrt(self.model.law.variance(means) @ chances))
        deviation = max(spread * typical, spread_of(differences, farthest, size))
        beyond_law = min(max(2 * (spread - 1), 0.0), 1.0) if self.model.level_of == "difference" else 0.0
        part = _OF_NOISE + _OF_NOISE_SPREAD * beyond_law
        allowed = np.sqrt(part * size) * self._precision(0.55 * share) / radius
        low = spread * max(_LEAST_CUT + beyond_law, min(max(2 * edge / spread, _FARTHEST_CUT), allowed))
        reach = np.sqrt(0.5 * size) * self._precision(0.08 * share)
        high = max(2.5 * deviation, min(max(2 * farthest, 4 * deviation), deviation * reach))
        beyond = (cuts >= high * 0.999) & (cuts < farthest)
        return {
            "cut": float(low),
            "high": float(high),
            "spread": spread,
            "farther": float(max(folded[beyond].sum(), 0.0) * high / 2),
        }

    def _sized(self, before: dict[str, StageRelease]) -> Stage:
        """Count rows by size in coordinates that the first round's Hessian whitens."""
        first, start = before["first"], self.begun(before["start"])
        moments, offset = start.moments(intercept=self.columns.intercept), float(before["start"].settings["offset"])
        one = self.round(first, last=False)
        point = self._next(one, float(first.settings["radius"]))
        weight, _, _ = self._weighted(moments, point, offset)
        rows = max(float(one.hessian[0, 0]), 0.1 * start.size * float(first.settings["weight"]), 1e-300)
        radius = float(first.settings["radius"])
        edge = one.hessian_scale * radius**2 * np.sqrt(self.width) / rows
        # Noise is alike in all directions of the coordinates in which the Hessian was released.
        white = np.array(before["counts"].settings["whiten"])
        second = floored(white @ (one.hessian / rows) @ white.T, max(_OF_EDGE * edge, _FLOOR))
        values, vectors = np.linalg.eigh(second)
        whiten = (vectors * values**-0.5) @ vectors.T @ white
        frame = self._pearson(start, whiten, point, CountCut(weight=weight))
        settings = {"whiten": whiten.tolist(), "point": point.tolist(), "weight": weight}
        return Stage(Sum(RoundCounts(frame, (Bins(_SIZES, "size", octaves(self.width)),))), settings=settings)

    def _second(self, before: dict[str, StageRelease]) -> Stage:
        sizes = before["sizes"]
        radius = self._far(sizes.array[1:], float(np.sqrt(sizes.noise_variances[0])))
        return self._later(before, self._settings(before, sizes.settings, radius), last=True)

    def _next(self, one: Round, radius: float) -> Array:
        """Return the point of a Newton step, the predictor's change limited in its standard deviation.

        Eigenvalues of the Hessian are kept above its noise.
        """
        back = np.linalg.inv(one.spread)
        values, vectors = np.linalg.eigh(back @ one.hessian @ back.T)
        kept = np.maximum(values, one.hessian_scale * np.sqrt(self.width / 2.0))
        move = vectors @ ((vectors.T @ (back @ one.score)) / kept)
        length = float(np.linalg.norm(move)) / radius
        return np.asarray(one.point + back.T @ move * min(1.0, _LONGEST / max(length, 1e-300)))

    def _later(self, before: dict[str, StageRelease], settings: dict[str, Any], *, last: bool) -> Stage:
        cut = _cut_of(settings)
        frame = self._pearson(
            self.begun(before["start"]), np.array(settings["frame"]), np.array(settings["point"]), cut
        )
        return self._round(frame, self.model.terms(cut, last=last), settings)

    def round(self, stage: StageRelease, *, last: bool) -> Round:
        """See `NewtonPlan`."""
        cut = _cut_of(stage.settings)
        terms = split_terms(stage, self.model.terms(cut, last=last), self.width)
        score, hessian = self.model.factors(cut)
        return Round.released(
            np.array(stage.settings["point"]),
            terms["score"].value * score,
            terms["hessian"].value * hessian,
            np.linalg.inv(np.array(stage.settings["frame"])),
            (terms["score"].scale * score, terms["hessian"].scale * hessian),
            float(stage.settings["radius"]),
            flat=self.norm == "l1",
        )

    def notes(self, released: tuple[StageRelease, ...]) -> tuple[str, ...]:
        """See `NewtonPlan`."""
        stages = dict(zip(self.kinds, released, strict=True))
        settings, size = stages["second"].settings, self.begun(stages["start"]).size
        places, residuals = len(octaves(self.width)) + 1, len(both_sides(halves())) + 1
        lighter = stages["sizes"].array[1:][octaves(self.width) >= 0.999 * float(settings["radius"]) ** 2].sum()
        folded = folded_counts(stages["counts"].array[places : places + residuals])
        noise = float(np.sqrt(2 * stages["counts"].noise_variances[places]))
        seen = (halves() >= 0.999 * float(settings["cut"])) & (halves() < edge_of(folded, halves(), noise))
        return (
            f"{len(self.kinds)} rounds: {', '.join(self.kinds)}. Standard errors are robust to the response's law.",
            f"Rows that count less for outlying regressors: {share_of(float(lighter), size)} (noisy).",
            f"Pearson residuals have a standard deviation of {float(settings['spread']):.3g} or less (noisy), and are "
            f"cut at {float(settings['cut']):.3g}: {share_of(float(folded[seen].sum()), size)} of the rows (noisy).",
        )

    def estimates(
        self, stages: Mapping[str, StageRelease], method: str = "auto", target: str = "population"
    ) -> NewtonInference:
        """Return the estimates from all stages by kind."""
        start, last = self.begun(stages["start"]), stages["second"]
        moments = start.moments(intercept=self.columns.intercept)
        # The first round cuts and weighs other rows than the last one, and its Hessian serves at its point alone: an
        # exponential mean bends too much for it to help. So it finds the point of the last one, and no more.
        rounds = [self.round(last, last=True)]
        cut = _cut_of(last.settings)
        terms = split_terms(last, self.model.terms(cut, last=True), self.width)
        back = rounds[-1].spread
        factor = self.model.factors(cut)[0]
        meat = back @ floored(terms["meat"].value, 0.0) @ back.T * factor**2 * (target == "population")
        fit = solve_rounds(rounds, self.model.response, moments, meat, start=rounds[-1].point, size=start.size)
        offset = float(stages["start"].settings["offset"])
        if self.columns.intercept:
            level = self._level(rounds[-1], cut, terms, moments, start, offset, float(last.settings["farther"]))
            fit = level.leveled(fit)
        public = self.public_size
        return NewtonInference(
            self.columns.names,
            fit,
            start.transform.T,
            np.zeros(self.width),
            nobs=start.size if public is None else float(public),
            nobs_is_public=public is not None,
            target=target,
            total=start.size,
            total_variance=0.0 if public is not None else start.terms["rows"].scale ** 2,
            method=method,
            slope_factor=self.model.slope_factor(
                cut, *self._predicted(moments, np.array(last.settings["point"]), offset)
            ),
        )

    def _level(
        self,
        last: Round,
        cut: CountCut,
        terms: Mapping[str, Released],
        moments: Moments,
        start: Begun,
        offset: float,
        farther: float,
    ) -> Level:
        """Read the level of the last round."""
        means, chances = self._predicted(moments, last.point, offset)
        expected = float(self.model.expected_level(cut, means) @ chances) * start.size
        shares = np.interp(means, self.model.means, self.model.expected(cut)[1])
        weights = self.model.law.weight(means) * chances
        row = last.hessian[0] * float(weights.sum() / max(float(weights @ shares), 1e-300))
        if isinstance(self.model.law, NegativeBinomial):
            row = self._weighted(moments, last.point, offset)[2] * start.size
        total = terms["level"].times(cut.high)
        return Level(
            Released(total.value - expected, total.scale),
            terms["square"].times(cut.high**2),
            np.asarray(row),
            last.point,
            farther,
            self._uncertain(cut, moments, last.point, offset) * start.size,
        )

    def _uncertain(self, cut: CountCut, moments: Moments, point: Array, offset: float) -> Array:
        """Return half of the distance between the scores of the laws that may hold, a row (p,)."""
        extremes = self.model.extremes(cut)
        half = _BETWEEN * (extremes[0][0] - extremes[-1][0])
        means, chances = self._predicted(moments, point, offset)
        weights = np.sqrt(self.model.law.weight(means)) * np.interp(means, self.model.means, half) * chances
        along = moments.cov @ point
        unit = along / max(float(np.sqrt(max(float(point @ along), 0.0))), 1e-12)
        return np.asarray(float(weights.sum()) * moments.mean + float(weights @ NODES) * unit)


def _cut_of(settings: Any) -> CountCut:
    named = {one: float(settings[one]) for one in ("spread", "weight", "centre", "width")}
    return CountCut(float(settings["cut"]), float(settings["high"]), **named)
