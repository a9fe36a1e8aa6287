"""Regressions by noisy Newton rounds of people who may have several rows: scores are added up by person, and cut.

A person's score is cut to a length ``tau``, chosen from counts of people by the length of theirs, so that its noise and
that of the robust covariance know no number of rows. The Hessian is not free beside a score that is cut: with M a
bound on what a row adds to it, prices of a/tau^2 for the score, b/(m M)^2 for the Hessian, c/tau^4 for the products of
scores and d/m^2 for the others leave no person out if a + b + c and a + d + c are at most 1, since a row that is in the
Hessian of least squares is not among the others. A wrong price would cost people, never privacy; see `docs/kernel.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError
from dpinfer.inference.newton_tail import BeyondOfPeople
from dpinfer.inference.newton_terms import floored
from dpinfer.kernel.rows.round_counts import Bins, RoundCounts
from dpinfer.kernel.rows.rounds import RoundSum
from dpinfer.kernel.stage import Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.newton_bins import edge_of
from dpinfer.procedures.newton_models import BinaryModel, Cut, LinearModel, cut_of
from dpinfer.procedures.newton_steps import NewtonPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.inference.newton_tail import TailCounts
    from dpinfer.inference.newton_terms import Released
    from dpinfer.kernel.rows.round_frame import RoundFrame
    from dpinfer.kernel.rows.rounds import Term
    from dpinfer.kernel.stage import Slot
    from dpinfer.numerics.arrays import Array
    from dpinfer.release.stage import StageRelease

__all__ = ["PeoplePlan", "people_prices"]

_PERSON = "person"
_FAR = 32.0
"""Standard deviations at which residuals are cut where people are counted by the length of their score."""

_SHARES = {"size": 0.15, "residual": 0.35, _PERSON: 0.5}
"""Shares of the price of the counts."""

_MOVED = Fraction(4, 100)
"""Share of the price that counts get from the first round."""

_FREE = {False: {"score": 0.75, "hessian": 0.25}, True: {"score": 0.55, "hessian": 0.25, "meat": 0.20}}
"""Prices of the first round and of the last where the Hessian is free beside the score of a row."""

_LEAST_SIZE = 4.0
"""Squared length of whitened regressors, over their number, up to which rows always keep their weight."""

_LEAST_CUT = 3.0
_OF_INTERCEPT = 0.35
"""Noise of what is given back over sampling, at most."""

_CONVEX = 1.21
"""(1 + z^2)/4 at z = 1.96."""

_MANY = 0.02
"""Share of people whose score was cut from which results are flagged."""


@dataclass(frozen=True, eq=False, slots=True)
class _Seen:
    """Part of what a stage released; counts of rows know those of people."""

    array: Array
    noise_variances: Array
    settings: Mapping[str, Any]
    people: _Seen | None = None


@dataclass(frozen=True, eq=False)
class PeoplePlan(NewtonPlan):
    """Stages of one regression of people; see `NewtonPlan`.

    Raises
    ------
    NotProvedError
        Under pure differential privacy, for which cut scores of people have no proof; and for models other than least
        squares and binary responses, whose choices of cuts take rows as independent.
    """

    def __post_init__(self) -> None:
        """Refuse what is not proved for people."""
        if type(self.model) not in (BinaryModel, LinearModel):
            raise NotProvedError(
                "people with several rows are served by ols, logit, probit and cloglog; other regressions choose cuts "
                "as if rows were independent: take max_rows=1"
            )
        if isinstance(self.context.privacy, PureDP):
            raise NotProvedError(
                "scores of people with several rows are cut to a length, which is proved for Gaussian noise and not "
                "for PureDP; take ZCDP, GDP or ApproxDP, or max_rows=1"
            )

    drawn = False
    beyond = BeyondOfPeople

    @property
    def most(self) -> int:
        """Rows m that a person has at most."""
        return self.context.schema.rows_per_unit

    def share(self, kind: str) -> Any:
        """See `NewtonPlan`."""
        return super().share(kind) + {"counts": _MOVED, "first": -_MOVED}.get(kind, 0)

    def expected_ratio(self, size: int) -> float:
        """See `NewtonPlan`: noise knows no number of rows, and there may be as few as ``size / m`` people."""
        return super().expected_ratio(size * self.most)

    def slots(self) -> tuple[Slot, ...]:
        """See `NewtonPlan`."""
        place = self.kinds.index("counts")
        found = list(super().slots())
        found[place] = replace(found[place], most=found[place].most + len(self._lengths) + 1)
        return tuple(found)

    def _precision(self, share: float) -> float:
        """Return 1 over the noise of a sum that is bounded by 1 for each row."""
        return super()._precision(share) / self.most

    # Counts

    @property
    def _lengths(self) -> Array:
        """Half octaves of the length of a person's score, for whitened regressors and residuals in their own unit."""
        return np.asarray(np.sqrt(self.width) * 2.0 ** (np.arange(-6, 41) / 2))

    @property
    def _halvings(self) -> int:
        """How often coordinates are halved where people are counted, so that nearly all rows have weight 1."""
        return 4 + int(np.ceil(np.log2(self.width) / 2))

    @property
    def _counted(self) -> Cut:
        """Where residuals are cut where people are counted."""
        return Cut(_FAR, 2 * _FAR) if isinstance(self.model, LinearModel) else Cut()

    def _counts(self, before: dict[str, StageRelease]) -> Stage:
        stage = super()._counts(before)
        assert isinstance(stage.measure, Sum)
        rows = stage.measure.rows
        assert isinstance(rows, RoundCounts)
        frame, halvings, cut = rows.frame, self._halvings, self._counted
        bits = tuple(min(one + halvings * (place < frame.size), 64) for place, one in enumerate(frame.bits))
        places = [replace(one, cuts=one.cuts * 0.25**halvings) if one.of == "size" else one for one in rows.places]
        lengths = self._lengths * 0.5**halvings / self.model.factors(cut)[0]
        places.append(Bins(_PERSON, "person", lengths, term=self.model.terms(cut, last=False)[0]))
        weights = [(1 if one.of == "person" else self.most) / _SHARES.get(one.name, 0.3) ** 0.5 for one in places]
        counts = RoundCounts(replace(frame, bits=bits), tuple(places))
        return Stage(Sum(counts, weights=tuple(weights)), settings=stage.settings)

    def seen(self, stages: Mapping[str, StageRelease]) -> dict[str, Any]:
        """See `NewtonPlan`: counts of people are apart from those of rows."""
        found: dict[str, Any] = dict(stages)
        if "counts" in found:
            whole, place = found["counts"], -len(self._lengths) - 1
            people = _Seen(whole.array[place:], whole.noise_variances[place:], whole.settings)
            found["people"] = people
            found["counts"] = _Seen(whole.array[:place], whole.noise_variances[:place], whole.settings, people)
        return found

    # Rounds

    def _radius(self, edge: float, reach: float, size: float) -> float:
        """See `NewtonPlan`: long regressors cost people's scores nothing."""
        return max(super()._radius(edge, reach, size), float(np.sqrt(_LEAST_SIZE * self.width)))

    def _later(self, before: dict[str, StageRelease], settings: dict[str, Any], *, last: bool) -> Stage:
        length = self._longest(before["people"])
        if not last and "cut" in settings:
            settings = {**settings, **self._cut_within(length, self.begun(before["start"]).size)}
        unit = float(settings["radius"]) * self.model.factors(cut_of(settings))[0]
        tau = float(np.clip(length / unit, 2.0**-12, self.most))
        return super()._later(before, {**settings, "tau": tau}, last=last)

    def _longest(self, people: StageRelease | _Seen) -> float:
        """Length at which a person's score is cut, for whitened regressors and residuals in their own unit.

        It is as long as scores that are seen, and as that of usual regressors with m independent residuals, each the
        largest that a row may have.
        """
        least = (1.0 if self.model.response else _LEAST_CUT) * float(np.sqrt(self.width * self.most))
        return max(edge_of(people.array[1:], self._lengths, float(np.sqrt(people.noise_variances[0]))), least)

    def _cut_within(self, length: float, size: float) -> dict[str, float]:
        """Where residuals are cut: usual regressors with the largest one are as long as the longest scores.

        A farther cut costs nothing, for it is people's scores that noise is for. What is given back beyond it should
        add little noise to the intercept.
        """
        low = max(_LEAST_CUT, length / float(np.sqrt(self.width)))
        reach = _OF_INTERCEPT * np.sqrt(size) * self._precision(0.095 * float(self.share("second")))
        steps = round(float(np.clip(reach / low, 1 / 32, 1.0)) * 32)  # tables bend at the cut where it is a node
        return {"cut": low, "high": low * (32 + steps) / 32}

    def tail_counts(self, stage: StageRelease, cut: Cut) -> TailCounts:
        """See `NewtonPlan`: people whose score was cut count as rows, by how far their usual residual is beyond."""
        assert isinstance(stage, _Seen)
        assert stage.people is not None
        rows = super().tail_counts(stage, cut)
        length = self._longest(stage.people)
        people, noise = self._people_beyond(stage.people, length)
        more = max(people - 2 * noise, 0.0) * length / float(np.sqrt(self.width)) / cut.high
        return rows._replace(farther=rows.farther + more)

    def _round(self, frame: RoundFrame, terms: tuple[Term, ...], settings: dict[str, Any]) -> Stage:
        if "tau" not in settings:
            return super()._round(frame, terms, settings)
        tau = float(settings["tau"])
        rows = RoundSum(frame, people_prices(terms, tau, self.most), tau)
        weights = rows.usual_weights(self.context.neighbors, "l2")
        return Stage(Sum(rows, weights=tuple(weights.tolist())), settings=settings)

    # What is told

    def units(self, stages: Mapping[str, Any], rows: float) -> float:
        """See `NewtonPlan`: people are independent, not their rows."""
        return float(np.clip(stages["people"].array.sum(), rows / self.most, rows))

    def sampled(self, meat: Released, score: Released) -> Array:
        """See `NewtonPlan`: with what intervals lose, on average, to a variance that is itself noisy.

        At a relative error d of the variance, coverage of 95% falls as if it were too small by (1 + 1.96^2)/4 of d^2.
        """
        found = floored(meat.value, 0.0)
        total = floored(found + 0.7 * score.scale**2 * np.eye(len(found)), meat.scale)
        return np.asarray(found + _CONVEX * meat.scale**2 * np.linalg.inv(total))

    def _people_beyond(self, people: StageRelease | _Seen, length: float) -> tuple[float, float]:
        """Noisy number of people whose score at the start is longer, up to 8 times, and its standard deviation."""
        beyond = (self._lengths >= length * 0.999) & (self._lengths < 8 * length)
        return float(people.array[1:][beyond].sum()), float(np.sqrt(people.noise_variances[0] * beyond.sum()))

    def _cut_people(self, stages: Mapping[str, Any]) -> tuple[float, float]:
        """Noisy share of people whose score was cut, and its standard deviation."""
        people = stages["people"]
        size = max(float(people.array.sum()), 1.0)
        found, noise = self._people_beyond(people, self._longest(people))
        return min(max(found, 0.0) / size, 1.0), noise / size

    def notes(self, released: tuple[StageRelease, ...]) -> tuple[str, ...]:
        """See `NewtonPlan`."""
        share, _ = self._cut_people(self.seen(dict(zip(self.kinds, released, strict=True))))
        return (
            *super().notes(released),
            f"People are independent, not their rows, of which {self.most} count at most: standard errors are "
            f"clustered by person. People whose score was cut: {share:.2%} (noisy).",
        )

    def warnings(self, stages: Mapping[str, Any]) -> tuple[str, ...]:
        """See `NewtonPlan`."""
        more = super().warnings(stages)
        share, noise = self._cut_people(stages)
        if share - 2 * noise <= _MANY:
            return more
        return (
            *more,
            f"the scores of about {share:.1%} of the people were cut, which the Hessian does not know: estimates may "
            "be biased, and standard errors too small",
        )


def people_prices(terms: tuple[Term, ...], tau: float, most: int) -> tuple[Term, ...]:
    """Return the terms of a round of rows at prices of people with at most so many rows, whose score is cut.

    Terms of rows that share one price keep their parts of it; where the Hessian is free beside the score, it gets one.
    """
    curve = next(term.curve for term in terms if term.name == "hessian")
    assert curve is not None
    largest = max(float(curve.values.max()), curve.below, curve.above)
    lengths = {"score": tau**2, "hessian": (most * largest) ** 2, "meat": tau**4}
    parts = {term.name: term.price * (largest**2 if term.name == "hessian" else 1.0) for term in terms}
    if sum(parts.get(name, 0.0) for name in lengths) > 1 + 1e-9:
        parts |= _FREE["meat" in parts]
    return tuple(replace(term, price=parts[term.name] / lengths.get(term.name, most**2)) for term in terms)
