"""The stages of a regression by noisy Newton rounds, each built from what earlier ones released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.inference.newton import Round, next_point
from dpinfer.inference.newton_tail import Beyond
from dpinfer.inference.newton_terms import Released, floored, split_terms
from dpinfer.kernel.rows.round_counts import Bins, RoundCounts
from dpinfer.kernel.rows.rounds import RoundSum, Term
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.privacy.accounting import gaussian_amount
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.newton_bins import (
    LEVELS,
    SEEN,
    beyond_cuts,
    both_sides,
    edge_of,
    positive_cuts,
    residual_cuts,
    tail_end,
)
from dpinfer.procedures.newton_levels import levels_of, rare_levels, without_levels
from dpinfer.procedures.newton_models import ROWS, Cut, constant, cut_of, ratio_of
from dpinfer.procedures.newton_ranges import found_ranges, ranges_stage
from dpinfer.procedures.newton_residuals import ResidualLaw, Seen
from dpinfer.procedures.newton_start import FLOOR, OF_EDGE, Begun, binary_radius, binary_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.inference.newton_tail import TailCounts
    from dpinfer.kernel.rows.round_frame import RoundFrame
    from dpinfer.kernel.stage import Context
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.procedures.newton_columns import NewtonColumns
    from dpinfer.procedures.newton_models import RoundModel
    from dpinfer.release.stage import StageRelease

__all__ = ["NewtonPlan"]


_CUT_START = 3.0
"""Standard deviations of public responses at which the start cuts a response."""

_OF_COUNTS = (8**-0.5, 5**-0.5)
"""Noise of counts of sizes, and of residuals, relative to each other."""

_ENOUGH = 1800.0
"""Rows times the squared precision of a sum bounded by 1 (2 rho) from which rows far out are seen, or hardly matter."""
_LEAST_CUT, _OF_NOISE = 3.0, 0.5
_OF_NOISE_FAR = 1.0
"""Part of the sampling variance that the noise of a score may have before rows far out count less."""


@dataclass(frozen=True, eq=False)
class NewtonPlan:
    """Stages of one regression.

    Attributes
    ----------
    columns : NewtonColumns
    model : RoundModel
    context : Context
    ranges : bool
        Whether ranges of numeric columns are measured first.
    """

    columns: NewtonColumns
    model: RoundModel
    context: Context
    ranges: bool
    beyond: ClassVar[type[Beyond]] = Beyond  # reads what cuts left out

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """What each stage is."""
        first = ("ranges",) if self.ranges and self.columns.numeric else ()
        return (*first, "start", "counts", "first", "second")

    @property
    def public_size(self) -> int | None:
        """Number of rows where it is public."""
        return self.context.nobs if self.columns.features.keeps_every_row else None

    def number(self, start: Begun) -> Released:
        """Return the number of rows."""
        if self.public_size is not None:
            return Released(np.array([float(self.public_size)]), 0.0)
        rows = start.terms.get("nobs")
        if rows is None:
            return Released(np.array([start.size]), start.terms["rows"].scale)
        return replace(rows, value=np.maximum(rows.value, max(2.0 * self.width, 4.0 * rows.scale)))

    @property
    def width(self) -> int:
        """Number p of regressors."""
        return len(self.columns.names)

    def share(self, kind: str) -> Any:
        """Share of the price of a stage; what no stage takes goes to the last."""
        shares = dict(self.model.shares)
        if self.ranges and "ranges" not in shares:
            shares["ranges"] = shares["second"] / 10
        if kind == "second":
            return 1 - sum(shares.get(one, 0) for one in self.kinds[:-1])
        return shares.get(kind, 0)

    def slots(self) -> tuple[Slot, ...]:
        """Return what each stage may take of the price."""
        p = self.width
        products = p * (p + 1) // 2
        most = {
            "ranges": len(self.columns.numeric) * 2 ** (LEVELS + 1),
            "start": products + p + 3,
            "counts": len(self._size_cuts) + len(residual_cuts(self.model.finest)) + 2,
            "first": products + p,
            "second": 2 * products + 2 * p + 3,
        }
        return tuple(Slot(self.share(kind), most[kind], adaptive=place > 0) for place, kind in enumerate(self.kinds))

    def stage(self, place: int, released: tuple[StageRelease, ...]) -> Stage:
        """Return one stage."""
        before = self.seen(dict(zip(self.kinds, released, strict=False)))
        build = {"ranges": self._ranges, "start": self._start, "counts": self._counts, "first": self._first}
        return build.get(self.kinds[place], self._second)(before)

    def seen(self, stages: Mapping[str, StageRelease]) -> dict[str, Any]:
        """Return what stages released, of counts those of rows."""
        return dict(stages)

    @property
    def drawn(self) -> bool:
        """Whether the model says what the covariance of the score is, of rows that count alike."""
        return self.model.response is not None and self.columns.weight is None

    def sampled(self, meat: Released, score: Released) -> Array:  # noqa: ARG002
        """Return the covariance of the score by sampling, in the coordinates of the round."""
        return meat.value if self.drawn else floored(meat.value, 0.0)

    def units(self, stages: Mapping[str, Any], rows: float) -> float:  # noqa: ARG002
        """Return how many independent units there are, for corrections of small samples."""
        return rows

    def warnings(self, stages: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what should be known of the estimates, from released numbers."""
        if not self.model.gives_back or self.begun(stages["start"]).size * self._precision(1.0) ** 2 >= _ENOUGH:
            return ()
        hidden = SEEN * float(np.sqrt(stages["counts"].noise_variances[-1]))
        return (
            f"at this price noise hides up to about {hidden:.0f} rows far out: with few rows, skewed errors and wrong "
            "models may move every coefficient by more than its interval tells",
        )

    def expected_ratio(self, size: int) -> float:
        """Guess standard errors with noise over those without, where rows have no more than usual leverage."""
        score = {"first": 0.8, "second": 0.6} if self.model.response is None else {"first": 1.0, "second": 0.8}
        precise = sum(self._precision(part * float(self.share(kind))) ** 2 for kind, part in score.items())
        # A row's score is at most _LEAST_CUT standard deviations long, and one of a binary response two.
        longest = 2.0 * self.width * (_LEAST_CUT if self.model.response is None else 2.0) ** 2
        return float(np.sqrt(1 + longest / (size * precise)))

    def notes(self, released: tuple[StageRelease, ...]) -> tuple[str, ...]:
        """Return sentences for tables: what was measured, and how many rows count less or were cut."""
        stages = self.seen(dict(zip(self.kinds, released, strict=True)))
        size = float(self.number(self.begun(stages["start"])).value[0])
        settings = stages["second"].settings
        counts = stages["counts"].array[: len(self._size_cuts) + 1]
        lighter = float(
            counts[1:][self._size_cuts >= 0.999 * settings["radius"] ** (1 if self.norm == "l1" else 2)].sum()
        )
        told = [
            f"{len(self.kinds)} rounds: {', '.join(self.kinds)}. {self.model.assumes}",
            f"Rows that count less for outlying regressors: {_share(lighter, size)} (noisy).",
        ]
        told += self.model.notes(cut_of(settings), self._measured(stages)[1])
        if "edge" in settings:
            beyond = self.tail_counts(stages["counts"], cut_of(settings)).rows
            told.append(
                f"Rows whose residual was cut, and given back: {_share(beyond, size)} (noisy); beyond what was seen, "
                "residuals are taken to fall off as a Pareto law of index 2.5, or faster."
            )
        if self.columns.weights is not None:
            told.append(f"Rows count by {self.columns.weights}; standard errors are those of weights as they are.")
        return tuple(told)

    @property
    def norm(self) -> Norm:
        """What the noise is for."""
        return "l1" if isinstance(self.context.privacy, PureDP) else "l2"

    @property
    def _framed(self) -> dict[str, Any]:
        """How rows are weighed; see `RoundFrame`."""
        return {"norm": "l1", "ratio": ratio_of(self.width)} if self.norm == "l1" else {}

    @property
    def _size_cuts(self) -> Array:
        """Parts of octaves of the sizes of whitened rows, beginning with what a row of normal numbers has.

        In wider bins fewer rows are seen farther out, and keep their weight; in narrow ones noise is less.
        """
        steps = np.arange(81) / (2 if self.model.response is None else 4)
        if self.norm == "l1":
            return np.asarray(0.8 * self.width * 2.0 ** (steps / 2))
        return np.asarray(self.width * 2.0**steps)

    # Ranges

    def _ranges(self, before: dict[str, StageRelease]) -> Stage:  # noqa: ARG002
        return ranges_stage(self.columns)

    def _found_ranges(self, before: dict[str, StageRelease]) -> dict[str, tuple[float, float]]:
        return found_ranges(self.columns, before["ranges"]) if "ranges" in before else {}

    # Start

    def start_terms(self) -> tuple[Term, ...]:
        """Terms of the start; with survey weights "rows" is what these add up to, and "nobs" counts rows."""
        terms = self.model.start_terms()
        if self.columns.weight is None:
            return terms
        half = [replace(one, price=one.price / 2, power=1) if one.name == "rows" else one for one in terms]
        return *half, Term("nobs", "mass", ROWS / 2, constant(1.0), power=0)

    def _start(self, before: dict[str, StageRelease]) -> Stage:
        scaled = self.columns.scaled(self._found_ranges(before))
        binary = self.model.response is not None
        shift, unit = (0.5, 1.0) if binary else (scaled.shift, _CUT_START * scaled.unit)
        radius = scaled.radius * (0.85 * float(np.sqrt(self.width)) if self.norm == "l1" else 1.0)
        settings = {"transform": scaled.transform.tolist(), "radius": radius, "shift": shift, "unit": unit}
        frame = self.columns.frame(scaled.transform / radius, np.zeros(self.width), (shift, unit), **self._framed)
        return self._round(frame, self.start_terms(), settings)

    def _round(self, frame: RoundFrame, terms: tuple[Term, ...], settings: dict[str, Any]) -> Stage:
        rows = RoundSum(frame, terms)
        weights = rows.usual_weights(self.context.neighbors, self.norm)
        return Stage(Sum(rows, weights=tuple(weights.tolist())), settings=settings)

    # Counts

    def _counts(self, before: dict[str, StageRelease]) -> Stage:
        start = self.begun(before["start"])
        values, vectors = np.linalg.eigh(start.second)
        whiten = (vectors * values**-0.5) @ vectors.T
        point, unit = self.start_point(start)
        settings = {"whiten": whiten.tolist(), "point": point.tolist(), "unit": unit}
        frame = self.columns.frame(
            whiten @ start.transform,
            start.transform.T @ point,
            (float(before["start"].settings["shift"]), unit),
            skipped=start.kept.skipped,
            **{**self._framed, **({"ratio": 2.0**20} if self.norm == "l1" else {})},
        )
        places = [Bins("size", "size", self._size_cuts)]
        if self.model.response is not None:
            return Stage(Sum(RoundCounts(frame, tuple(places))), settings=settings)
        places.append(Bins("residual", "residual", residual_cuts(self.model.finest)))
        return Stage(Sum(RoundCounts(frame, tuple(places)), weights=_OF_COUNTS), settings=settings)

    def begun(self, stage: StageRelease) -> Begun:
        """Read what the start released."""
        terms = split_terms(stage, self.start_terms(), self.width)
        radius = float(stage.settings["radius"])
        transform = np.array(stage.settings["transform"])
        public = self.public_size if self.columns.weight is None else None
        size = float(terms["rows"].value[0] if public is None else public)
        size = max(size, 2.0 * self.width, 4.0 * terms["rows"].scale)
        gram = terms["gram"]
        kept = without_levels(
            self.columns,
            transform,
            self._public_rows,
            rare_levels(self._levels, np.linalg.inv(transform), gram.times(radius**2), SEEN, size),
        )
        basis = kept.basis
        flat = np.sqrt(2.0) if self.norm == "l1" else 1.0
        edge = gram.scale * flat * np.sqrt(basis.shape[1]) * radius**2 / size
        second = floored(basis.T @ gram.value @ basis * (radius**2 / size), max(OF_EDGE * edge, FLOOR))
        return Begun(
            basis.T @ transform,
            float(stage.settings["unit"]) / _CUT_START,
            size,
            second,
            basis.T @ terms["score"].value * (radius / size),
            edge,
            terms,
            kept,
            terms["score"].scale * radius / size,
        )

    @cached_property
    def _levels(self) -> dict[str, Array]:
        return levels_of(self.columns)

    @cached_property
    def _public_rows(self) -> Array:
        return self.columns.public_rows({})[:-1]

    def start_point(self, start: Begun) -> tuple[Array, float]:
        """Return the first point, in the coordinates of the start, and the unit of the response from then on."""
        response = self.model.response
        if response is not None:
            return binary_start(response, start, intercept=self.columns.intercept), 1.0
        slope = np.linalg.solve(start.second, start.score)
        square = start.terms["square"]
        least = 2.0 * square.scale / start.size
        left = float(square.value[0]) / start.size - float(slope @ start.score)
        spread = float(np.sqrt(np.clip(left, max(least, 1e-8), 1.0)))
        return np.asarray(slope / spread), _CUT_START * float(start.unit) * spread

    # Rounds

    def _first(self, before: dict[str, StageRelease]) -> Stage:
        counts = before["counts"]
        start = self.begun(before["start"])
        sizes = len(self._size_cuts) + 1
        noise = np.sqrt(counts.noise_variances)
        edge = edge_of(counts.array[1:sizes], cuts := self._size_cuts, noise[0])
        whiten = np.array(counts.settings["whiten"]) @ start.transform
        usual = float(np.sqrt(((whiten @ self._public_rows) ** 2).sum(axis=0).max()))
        radius = self._radius(edge, tail_end(counts.array[1:sizes], cuts, noise[0]), start.size)
        if self.model.response is not None and self.context.schema.rows_per_unit == 1:
            lengths = cuts ** (1.0 if self.norm == "l1" else 0.5)
            precise = self._precision(float(self.share("first") + self.share("second")))
            radius = binary_radius(lengths, counts.array[1:sizes], noise[0], start, precise, (radius, usual))
        radius = min(radius, self.columns.longest(whiten, self.norm))
        if self.model.response is None and self.norm == "l2":  # rows of the last bin may be no longer than usual ones
            radius = min(radius, max(float(np.sqrt(edge / np.sqrt(2.0))), usual))
        point = np.array(counts.settings["point"])
        most = self.columns.largest_residual(start.transform.T @ point, self._measured(before))
        settings = {"radius": radius, **self._cut(counts.array[sizes:], noise[-1], radius, start.size, most)}
        settings["frame"] = (np.array(counts.settings["whiten"]) / radius).tolist()
        if self.columns.intercept:
            point[0] += settings.pop("move", 0.0)
        settings["point"] = point.tolist()
        return self._later(before, settings, last=False)

    def _radius(self, edge: float, reach: float, size: float) -> float:
        """Length of whitened regressors up to which rows keep their weight, from the sizes that were seen.

        A weight below 1 moves what is estimated where the model is wrong, so there is one only for rows farther out
        than any that was seen or, for least squares, is expected beyond these, as far as noise allows.
        """
        seen = edge if self.norm == "l1" else float(np.sqrt(edge))
        if self.model.response is not None:
            return seen
        precise = self._precision(0.5 * self.share("second"))
        expected = max(seen, reach if self.norm == "l1" else float(np.sqrt(reach)))
        return max(seen, min(float(np.sqrt(_OF_NOISE_FAR * size)) * precise / _LEAST_CUT, expected))

    def _cut(self, counts: Array, noise: float, radius: float, size: float, most: float) -> dict[str, float]:
        """Where residuals, which are ``most`` at most, are cut, from counts of these in units of their deviation."""
        if self.model.response is not None:
            return {}
        tuned = self.model.tuned(
            Seen(
                ResidualLaw.of(counts, residual_cuts(self.model.finest), noise),
                noise,
                size,
                self.width,
                radius,
                self._precision,
            )
        )
        if tuned is not None:
            cut, move = tuned  # noise may put rows where no residual can be
            ends = {"cut": min(cut.low, most), "high": min(cut.high, most), "move": float(np.clip(move, -most, most))}
            return {**ends, "meat": cut.meat, "hessian": cut.hessian, "intercept": cut.intercept, "bias": cut.bias}
        edge = edge_of(both_sides(counts), positive_cuts(), noise * np.sqrt(2.0))
        share = float(self.share("second"))
        allowed = np.sqrt(_OF_NOISE * size) * self._precision(0.60 * share) / radius
        low = max(_LEAST_CUT, min(edge, allowed))
        high = min(2 * max(edge, low), low + np.sqrt(size) * self._precision(0.095 * share))
        steps = max(4, min(round(high / low * 32), 2**12))
        return {"cut": low, "high": low * max(steps, 33) / 32, "edge": edge}

    def tail_counts(self, stage: StageRelease, cut: Cut) -> TailCounts:
        """Return what counts tell of rows with residuals beyond both cuts; see `beyond_cuts`."""
        counts = stage.array[len(self._size_cuts) + 1 :]
        return beyond_cuts(counts, float(np.sqrt(stage.noise_variances[-1])), cut)

    def _precision(self, share: float) -> float:
        """Return 1 over the standard deviation of the noise of a sum that is bounded by 1, at a share of the price."""
        privacy = self.context.privacy
        if isinstance(privacy, PureDP):
            found = float(privacy.epsilon) * share / np.sqrt(2.0)
        else:
            amount = gaussian_amount(privacy)
            found = float(np.sqrt(2 * amount.rho * share) if hasattr(amount, "rho") else amount.mu * np.sqrt(share))
        return float(found / (1.0 if self.context.neighbors == "add_remove" else 2.0))

    def _second(self, before: dict[str, StageRelease]) -> Stage:
        first = before["first"]
        settings = {
            name: first.settings[name]
            for name in ("radius", "frame", "cut", "high", "edge", "meat", "hessian", "intercept", "bias")
            if name in first.settings
        }
        settings["point"] = next_point(self.round(first, last=False), self.model.longest(cut_of(settings))).tolist()
        return self._later(before, settings, last=True)

    def _later(self, before: dict[str, StageRelease], settings: dict[str, Any], *, last: bool) -> Stage:
        start = self.begun(before["start"])
        transform = start.transform
        tables = self.model.tables()
        frame = self.columns.frame(
            np.array(settings["frame"]) @ transform,
            transform.T @ np.array(settings["point"]),
            self._measured(before),
            tables.mean,
            tables.inverse_sd,
            tables.lift,
            start.kept.skipped,
            **self._framed,
        )
        return self._round(frame, self.model.terms(cut_of(settings), last=last), settings)

    def _measured(self, before: dict[str, StageRelease]) -> tuple[float, float]:
        """Return what is taken off the response, and the unit in which it is measured."""
        if self.model.response is not None:
            return 0.0, 1.0
        return float(before["start"].settings["shift"]), float(before["counts"].settings["unit"])

    def round(self, stage: StageRelease, *, last: bool) -> Round:
        """Read a later round, in the coordinates of the start."""
        cut = cut_of(stage.settings)
        terms = split_terms(stage, self.model.terms(cut, last=last), len(stage.settings["point"]))
        back = np.linalg.inv(np.array(stage.settings["frame"]))
        score, hessian = self.model.factors(cut)
        return Round.released(
            np.array(stage.settings["point"]),
            terms["score"].value * score,
            terms["hessian"].value * hessian,
            back,
            (terms["score"].scale * score, terms["hessian"].scale * hessian),
            float(stage.settings["radius"]),
            flat=self.norm == "l1",
        )


def _share(count: float, size: float) -> str:
    return f"{min(max(count, 0.0) / size, 1.0):.2%}"
