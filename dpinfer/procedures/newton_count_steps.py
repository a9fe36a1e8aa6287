"""The stages of a regression of counts or positive numbers, each built from what earlier ones released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.inference.newton_rounds import Round
from dpinfer.inference.newton_terms import floored, split_terms
from dpinfer.kernel.rows.round_counts import Bins, RoundCounts
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.procedures.newton_bins import edge_of
from dpinfer.procedures.newton_count_bins import (
    beyond_law,
    both_sides,
    cut_at,
    end_of,
    folded_counts,
    halves,
    most_rows,
    octaves,
    radius_at,
    reach_of,
    share_of,
    spread_of,
    usual_cut,
)
from dpinfer.procedures.newton_count_moments import CountMoments
from dpinfer.procedures.newton_counts import CHANCES, PRICES, CountCut, CountModel
from dpinfer.procedures.newton_steps import NewtonPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.kernel.rows.round_frame import RoundFrame
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.newton_scaled import Scaled
    from dpinfer.procedures.newton_start import Begun
    from dpinfer.release.stage import StageRelease

__all__ = ["CountPlan", "count_cut_of"]

_FLOOR, _OF_EDGE = 0.02, 1.5
"""Eigenvalues of the second moments that whiten are at least this, and this many edges of their noise."""

_LARGEST_PREDICTOR = 1.5
"""Linear predictors of a start have at most this standard deviation."""

_LONGEST, _LONGEST_FAR = 0.8, 2.0
"""The next point changes linear predictors by at most this standard deviation, and by this much where rows are far out.

An exponential mean bends too much for more: few rows far out tell of some directions, and a step overshoots there.
"""

_CLEAR = 6.0
"""Rows out to a length keep their weight if the Hessian's noise stays this many times below the Hessian."""

_HIDDEN = 8.0
"""Of residuals beyond those seen this many standard deviations of noise are taken to be hidden."""

_UNSEEN, _UNSEEN_POSITIVE = 0.05, 0.075
"""Shares of the rows, and of those with a positive response, that noise of a count may hide before it is flagged."""

_SIZES, _RESIDUALS, _DIFFERENCES = "size", "residual", "difference"
_WEIGHTS = (0.35, 0.4, 0.25)
"""Shares of the price of the counts: of sizes, residuals and differences."""

_LEVELS = 12

_EXPLAINED = 0.3
"""Standard deviation of the linear predictor along one direction that a start takes to be usual."""

_USUAL = 0.35
_SPREAD = (_USUAL / _EXPLAINED) ** 2
"""The same if the direction were spread as evenly over its bounds as public rows are."""


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
            "second": 2 * products + p + 3,
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
        noise, largest = float(np.sqrt(stage.noise_variances[0])), self.model.largest
        seen = end_of(stage.array[1:], self._response_cuts, noise)
        if seen is None:
            return min(1.0, largest)
        return float(np.clip(seen * reach_of(stage.array, noise), largest * 2.0**-13, largest))

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

    def _frame(self, *parts: Any, **options: Any) -> RoundFrame:
        return self.columns.frame(*parts, norm=self.norm, **options)

    def predicted(self, stage: StageRelease, start: Begun) -> CountMoments:
        """Return what the moments of the regressors say."""
        moments = start.moments(intercept=self.columns.intercept)
        return CountMoments(self.model, moments, float(stage.settings["offset"]), self.columns.intercept)

    def _first_point(self, stage: StageRelease, start: Begun) -> tuple[Array, tuple[float, float]]:
        """Return coefficients from least squares: slopes over the mean, shrunk, and the intercept that gives the mean.

        The others are the standard deviation of Pearson residuals, from the squares of the responses, and the noise of
        its square.
        """
        low, high = self.model.ends
        unit, offset = 3.0 * start.unit, float(stage.settings["offset"])
        if not self.columns.intercept:
            slope = np.linalg.solve(start.second, start.score) * unit
            return np.asarray(slope) * min(
                1.0, _LARGEST_PREDICTOR / max(float(np.sqrt(slope @ start.second @ slope)), 1e-9)
            ), (1.0, 1.0)
        moments = start.moments(intercept=True)
        noise = start.terms["score"].scale * float(stage.settings["radius"]) / start.size
        mean = float(start.score[0] / start.second[0, 0]) * unit
        mean = float(np.clip(mean, max(noise * unit, 0.5 / start.size, np.exp(low)), np.exp(high)))
        cov = floored(moments.cov[1:, 1:], max(_OF_EDGE * start.edge, _FLOOR))
        cross = start.score[1:] - moments.mean[1:] * start.score[0]
        # Slopes of directions that vary little are the noisiest: each is shrunk as if all explained alike.
        values, vectors = np.linalg.eigh(cov)
        along = vectors.T @ cross
        explained = (_EXPLAINED * mean / unit) ** 2 * np.minimum(values, values**2 * _SPREAD)
        slope = vectors @ (along / values * (explained / (explained + noise**2)))
        square = float(slope @ cov @ slope)
        # Stein's shrinkage: least squares of pure noise have a squared length of noise^2 in each direction.
        noisy = (len(slope) - 2) * (noise**2 + min(mean / unit**2, 0.1) / start.size)
        slope = slope * float(np.clip(1.0 - noisy / max(square, 1e-300), 0.0, 1.0)) * (unit / mean)
        spread = float(np.sqrt(max(float(slope @ cov @ slope), 0.0)))
        slope = slope * min(1.0, _LARGEST_PREDICTOR / max(spread, 1e-9))
        centre = np.log(mean) - 0.5 * float(slope @ cov @ slope) - offset
        centre = float(np.clip(centre, low + 1.0, high - 1.0))
        point: Array = np.concatenate([[centre - float(moments.mean[1:] @ slope)], slope])
        return point, self._deviation(start, self.predicted(stage, start).means(point))

    def _deviation(self, start: Begun, means: Array) -> tuple[float, float]:
        """Return the standard deviation of Pearson residuals, at least 1 for counts, and the noise of its square."""
        square = start.terms["square"]
        second = float(square.value[0]) * (3.0 * start.unit) ** 2 / start.size
        left = second - float(means**2 @ CHANCES)
        variance = max(float(self.model.law.variance(means) @ CHANCES), 1e-300)
        least = 0.05 if self.model.level_of == "residual" else 1.0
        unsure = square.scale * (3.0 * start.unit) ** 2 / start.size / variance
        return float(np.sqrt(np.clip(left / variance, least, 1e4))), float(np.clip(unsure, 0.0, 1e4))

    # Counts

    def _counts(self, before: dict[str, StageRelease]) -> Stage:
        start = self.begun(before["start"])
        point, spread = self._first_point(before["start"], start)
        moments = self.predicted(before["start"], start)
        weights = moments.weights(point)
        weight = float(weights @ CHANCES)
        second = floored(moments.matrix(point, weights), max(_OF_EDGE * start.edge, _FLOOR))
        values, vectors = np.linalg.eigh(second)
        whiten = (vectors * values**-0.5) @ vectors.T
        settings = {"whiten": whiten.tolist(), "point": point.tolist(), "weight": weight}
        settings["spread"], settings["unsure"] = spread
        frame = self._pearson(start, whiten, point, CountCut(weight=weight))
        places = (
            Bins(_SIZES, "size", octaves(self.width)),
            Bins(_RESIDUALS, "residual", both_sides(halves())),
            Bins(_DIFFERENCES, self.model.level_of, both_sides(halves())),
        )
        parts = tuple(float(one**-0.5 if self.norm == "l2" else 1 / one) for one in _WEIGHTS)
        return Stage(Sum(RoundCounts(frame, places), weights=parts), settings=settings)

    def _pearson(self, start: Begun, frame: Array, point: Array, cut: CountCut) -> RoundFrame:
        tables = self.model.tables(cut)
        return self._frame(
            frame @ start.transform,
            start.transform.T @ point,
            (0.0, 1.0),
            tables.mean,
            tables.inverse_sd,
            tables.lift,
            skipped=start.kept.skipped,
        )

    # Rounds

    def _first(self, before: dict[str, StageRelease]) -> Stage:
        """Find the point of the last round: less noise matters more there than the weight of a few rows."""
        counts = before["counts"]
        sizes, noise = counts.array[1 : len(octaves(self.width)) + 1], float(np.sqrt(counts.noise_variances[0]))
        edge = edge_of(sizes, octaves(self.width), noise)
        size = self.begun(before["start"]).size
        radius = self._long(most_rows(sizes, octaves(self.width), edge, size))
        settings = self._settings(before, counts.settings, radius, last=False)
        return self._later(before, {**settings, "farthest": self._long(edge)}, last=False)

    def _long(self, size: float) -> float:
        """Return the length of regressors of a size; see `RoundFrame` for the norm "l1"."""
        return float(np.sqrt(size * (2.0 if self.norm == "l1" else 1.0)))

    def _settings(
        self, before: dict[str, StageRelease], seen: Mapping[str, Any], radius: float, *, last: bool
    ) -> dict[str, Any]:
        """Return the settings of a round, at the point and in the coordinates in which rows were counted."""
        start = self.begun(before["start"])
        moments = self.predicted(before["start"], start)
        point, weight = np.array(seen["point"]), float(seen["weight"])
        usual = self._usual(np.array(seen["whiten"]), point, weight, moments, start) if last else 0.0
        settings = {
            "point": point.tolist(),
            "weight": weight,
            **self._cuts(before["counts"], radius, usual, start.size, moments),
            **moments.settings(point),
        }
        settings["frame"] = (np.array(seen["whiten"]) / settings["radius"]).tolist()
        return settings

    def _usual(self, whiten: Array, point: Array, weight: float, moments: CountMoments, start: Begun) -> float:
        """Return the largest length of public rows that are spread evenly over the declared bounds."""
        rows = start.transform @ self._public_rows
        means = np.exp(np.clip(point @ rows + moments.offset, *self.model.ends))
        sizes = ((whiten @ rows) ** 2).sum(axis=0) * self.model.law.weight(means) / weight
        return self._long(float(sizes.max()))

    def _cuts(
        self, counts: StageRelease, radius: float, usual: float, size: float, moments: CountMoments
    ) -> dict[str, float]:
        """Return where regressors, residuals and the level are cut, and the standard deviation of residuals.

        Regressors are cut at ``radius``, or farther up to ``usual`` where noise allows; in the first round that is 0.
        """
        settings = counts.settings
        ends = np.cumsum([len(octaves(self.width)) + 1, len(both_sides(halves())) + 1])
        _, residuals, differences = np.split(counts.array, ends)
        noise, other = np.sqrt(2.0 * counts.noise_variances)[ends]
        share, folded = float(self.share("second")), folded_counts(differences)
        first = float(settings["spread"])
        edge = end_of(folded_counts(residuals), halves(), noise) or first
        spread = max(first, spread_of(residuals, edge, size))
        unsure = min(float(settings["unsure"]), (_HIDDEN * noise / size) * edge**2)
        floor = min(spread, 1.0 if self.model.level_of == "difference" else spread / 2)
        least, most = np.sqrt(max(spread**2 - unsure, floor**2)), np.sqrt(spread**2 + unsure)
        point = np.array(settings["point"])
        means = moments.means(point)
        of_counts = self.model.level_of == "difference"
        typical = float(np.sqrt(self.model.law.variance(means) @ CHANCES)) if of_counts else 1.0
        farthest = end_of(folded, halves(), other) or spread * typical
        deviation = max(spread * typical, spread_of(differences, farthest, size))
        reach = np.sqrt(0.5 * size) * self._precision(PRICES[True]["level"] * share)
        high = max(2.5 * deviation, min(max(2 * farthest, 4 * deviation), deviation * reach))
        far = (halves() >= high * 0.999) & (halves() < farthest)
        beyond = beyond_law(spread, of_counts=of_counts)
        kind = "second" if usual else "first"
        price = PRICES[bool(usual)]["score"] * float(self.share(kind))
        precise = float(np.sqrt(size)) * self._precision(price) / radius
        low = usual_cut(edge, spread, precise, beyond)
        if usual:
            drawn = CountCut(spread=spread, least=least, most=most, **moments.settings(point))

            def biases(tried: Array) -> Array:
                return moments.apart(drawn, point, tried * spread) * (size / spread**2)

            low = cut_at(folded_counts(residuals), edge, spread, size, precise, beyond, biases)
            clear = np.sqrt(
                size * self._precision(PRICES[True]["hessian"] * share) / (_CLEAR * np.sqrt(self.width / 2))
            )
            radius = radius_at(radius, min(usual, float(clear)), low, precise, beyond)
        return {
            "radius": radius,
            "cut": spread * low,
            "high": float(high),
            "spread": spread,
            "least": least,
            "most": most,
            "farther": float(max(folded[far].sum(), 0.0) * high / 2),
        }

    def _sized(self, before: dict[str, StageRelease]) -> Stage:
        """Count rows by size in coordinates that the first round's Hessian whitens."""
        first, start = before["first"], self.begun(before["start"])
        one = self.round(first, last=False)
        farthest = max(float(first.settings["farthest"]), float(first.settings["radius"]))
        point = self._next(one, min(_LONGEST, _LONGEST_FAR / farthest), first.settings)
        weight = float(self.predicted(before["start"], start).weights(point) @ CHANCES)
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
        edge = edge_of(sizes.array[1:], octaves(self.width), float(np.sqrt(sizes.noise_variances[0])))
        return self._later(before, self._settings(before, sizes.settings, self._long(edge), last=True), last=True)

    def _next(self, one: Round, longest: float, settings: Mapping[str, Any]) -> Array:
        """Return the point of a Newton step, the predictor's change limited in its standard deviation.

        Eigenvalues of the Hessian are kept above its noise. Slopes are shrunk, as far as noise asks for it, as if a
        regressor that is spread evenly over its bounds changed the predictor little: where few rows are off the middle
        of a regressor a noisy slope would move their means by orders of magnitude, from which no Newton step returns.
        """
        back = np.linalg.inv(one.spread)
        values, vectors = np.linalg.eigh(back @ one.hessian @ back.T)
        kept = np.maximum(values, one.hessian_scale * np.sqrt(len(values) / 2.0))
        along = back.T @ vectors  # columns are steps of the coefficients
        move = (vectors.T @ (back @ one.score)) / kept
        told = kept**2 / (one.score_scale**2 + float(settings["spread"]) ** 2 * kept)
        usual = np.full(len(values), _USUAL**-2)
        usual[0] *= not self.columns.intercept
        pull = along.T @ (usual * one.point)
        move = np.linalg.solve(np.diag(told) + along.T @ (usual[:, None] * along), told * move - pull)
        length = float(np.linalg.norm(move)) / float(settings["radius"])
        return np.asarray(one.point + along @ move * min(1.0, longest / max(length, 1e-300)))

    def _later(self, before: dict[str, StageRelease], settings: dict[str, Any], *, last: bool) -> Stage:
        cut = count_cut_of(settings)
        frame = self._pearson(
            self.begun(before["start"]), np.array(settings["frame"]), np.array(settings["point"]), cut
        )
        return self._round(frame, self.model.terms(cut, last=last), settings)

    def round(self, stage: StageRelease, *, last: bool) -> Round:
        """See `NewtonPlan`."""
        cut = count_cut_of(stage.settings)
        terms = split_terms(stage, self.model.terms(cut, last=last), len(stage.settings["point"]))
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

    def warnings(self, stages: Mapping[str, Any]) -> tuple[str, ...]:
        """See `NewtonPlan`: where many rows may have residuals that no count tells of."""
        noise = float(np.sqrt(2.0 * stages["counts"].noise_variances[len(octaves(self.width)) + 1]))
        response = stages["response"]
        hidden = _HIDDEN / 2 * float(np.sqrt(response.noise_variances[0]))
        seen = hidden <= _UNSEEN_POSITIVE * float(response.array[1:].sum())
        if seen and _HIDDEN / 2 * noise <= _UNSEEN * self.begun(stages["start"]).size:
            return ()
        return (
            f"too few rows for the price: how far the response spreads is hardly seen, and intervals of "
            f"{', '.join(self.columns.names)} may be too short",
        )

    def notes(self, released: tuple[StageRelease, ...]) -> tuple[str, ...]:
        """See `NewtonPlan`."""
        stages = dict(zip(self.kinds, released, strict=True))
        settings, size = stages["second"].settings, self.begun(stages["start"]).size
        places, residuals = len(octaves(self.width)) + 1, len(both_sides(halves())) + 1
        lighter = stages["sizes"].array[1:][octaves(self.width) >= 0.999 * float(settings["radius"]) ** 2].sum()
        folded = folded_counts(stages["counts"].array[places : places + residuals])
        noise = float(np.sqrt(2 * stages["counts"].noise_variances[places]))
        end = end_of(folded, halves(), noise) or 0.0
        seen = (halves() >= 0.999 * float(settings["cut"])) & (halves() < end)
        return (
            f"{len(self.kinds)} rounds: {', '.join(self.kinds)}. Standard errors are robust to the response's law.",
            f"Rows that count less for outlying regressors: {share_of(float(lighter), size)} (noisy).",
            f"Pearson residuals have a standard deviation of {float(settings['spread']):.3g} or less (noisy), and are "
            f"cut at {float(settings['cut']):.3g}: {share_of(float(folded[seen].sum()), size)} of the rows (noisy).",
        )


def count_cut_of(settings: Any) -> CountCut:
    """Read where residuals are cut, and how they spread."""
    named = {one: float(settings[one]) for one in ("spread", "least", "most", "weight", "centre", "width")}
    return CountCut(float(settings["cut"]), float(settings["high"]), **named)
