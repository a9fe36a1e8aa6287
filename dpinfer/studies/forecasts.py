"""Expected widths, errors and power of a question at given rows and privacy, from public information alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.descriptions.binomial import BinomTest
from dpinfer.descriptions.question import proportion
from dpinfer.errors import DPInferError, InferenceError, NotProvedError, OptionError, type_of
from dpinfer.kernel.data import PublicData, plain_cells
from dpinfer.kernel.sampling import check_scales
from dpinfer.studies import simulation
from dpinfer.studies.populations import Pilot, ReleasePilot, RowPilot, read_pilot
from dpinfer.studies.power import TESTS, power
from dpinfer.tables.chi_squared import ChiSquare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.studies.power import PowerStudy

__all__ = [
    "START", "Depth", "Fitted", "Forecast", "Outlook", "Question", "Summed", "Tested", "outlook_of",
]  # fmt: skip

Depth = Literal["width", "share", "answer"]
"""How closely to look: for the median of widths, for shares of releases, or for an answer."""

START = 1000
"""Rows from which a search starts."""

_MANY = 1000
"""Replicates from which shares and spreads of them are taken as they are; below, standard errors say more."""

_GAUSSIAN: Mapping[Depth, int] = {"width": 256, "share": 1024, "answer": 4096}
_OTHER: Mapping[Depth, int] = {"width": 64, "share": 128, "answer": 512}
"""Releases that are simulated, by how closely to look: under noise that is not normal fewer, for critical values are
then those of mixtures."""

_FEWEST, _ALONE = 64, 64
"""Releases at least, and those without noise."""

_ENTRIES = 2**22
"""Most numbers in the releases of an answer."""

_FITS, _STEP, _MOST_FITS = 32, 16, 96
"""Fits one by one: at least, more at a time, at most."""

_REMEMBERED = 4
"""Numbers of rows whose sums are held."""

_KNOWN = 0.01
"""Relative standard error at which the median of widths counts as known."""

_DATA, _NOISE, _HARDLY = range(3)


def _no_rows(rng: np.random.Generator, n: int) -> Any:  # noqa: ARG001  (of a function of a population)
    raise NotProvedError("a release has no rows to draw")


@dataclass(frozen=True, eq=False)
class Question:
    """A question to plan, with the public information about it.

    Attributes
    ----------
    procedure : Procedure
        Not bound to data.
    schema : Schema
        Declares the columns that are read.
    neighbors : {"add_remove", "replace_one"}
    alpha : float
    seed : int
    known : Privacy
        Privacy parameters with which the question can be measured.
    watch : callable
        Called after every fit of rows, to show progress.
    """

    procedure: Procedure
    schema: Schema
    neighbors: Neighbors
    alpha: float
    seed: int
    known: Privacy
    watch: Callable[[int], None]

    def design(self, n: int, price: Privacy, generate: Any = _no_rows) -> simulation.Design:
        """Return the study of one number of rows and privacy parameters."""
        procedure, schema, neighbors, level = self.procedure, self.schema, self.neighbors, 1 - self.alpha
        return simulation.Design(generate, procedure, schema, None, (n,), (price,), neighbors, 1, level, self.seed)

    def measured(self, n: int, price: Privacy) -> Measurement:
        """Return the measurement; `DPInferError` if it cannot be made with these privacy parameters."""
        found = self.design(n, price).measured(price, n)
        for stage in found.stages:
            check_scales(stage.law, price)
        return found

    def rng(self, *purpose: int) -> np.random.Generator:
        """Return a random stream that is the same for all privacy parameters."""
        return np.random.default_rng([self.seed, *purpose])


@dataclass(frozen=True, eq=False)
class Forecast:
    """Simulated estimates, standard errors and intervals of R future releases.

    Attributes
    ----------
    names : tuple of str, length p
    center : ndarray (p,)
        The estimands in the population.
    params, errors : ndarray (R, p)
    ends : ndarray (R, p, 2)
    sampled : bool
        Whether the releases also vary by sampling, so that their spread is that of the estimate.
    alpha : float
    tested : float, optional
        The power of a test, which has no interval; the population sets the true values.
    """

    names: tuple[str, ...]
    center: Array
    params: Array
    errors: Array
    ends: Array
    sampled: bool
    alpha: float
    tested: float | None = None

    @property
    def widths(self) -> Array:
        """Full widths of the intervals (R, p); infinite if an estimate is not identified."""
        found = self.ends[..., 1] - self.ends[..., 0]
        return np.asarray(np.where(np.isnan(found), np.inf, found))

    def width(self, assurance: float = 0.5) -> Array:
        """Quantile of the width at this probability (p,)."""
        ranked = np.sort(self.widths, axis=0)
        if assurance == 0.5:  # the median of an even number is a mean
            return np.asarray(np.median(ranked, axis=0))
        return np.asarray(ranked[min(int(np.ceil(assurance * len(ranked))), len(ranked)) - 1])

    @property
    def uncertainty(self) -> float:
        """Largest relative Monte Carlo error of a median width; 0 if all its intervals are infinite."""
        low, middle, high = np.quantile(self.widths, [0.25, 0.5, 0.75], axis=0, method="lower")
        with np.errstate(invalid="ignore"):
            found = 1.2533 * (high - low) / 1.349 / middle / np.sqrt(len(self.params))
        return float(np.where(np.isfinite(found), found, 0.0).max())

    @property
    def counted(self) -> bool:
        """Whether there are enough releases to use their empirical shares and spreads."""
        return self.sampled and len(self.params) >= _MANY

    @property
    def rmse(self) -> Array:
        """Root mean squared error (p,): empirical if there are enough releases, else the median standard error."""
        with np.errstate(all="ignore"):
            if self.counted:
                return np.asarray(np.sqrt(np.mean((self.params - self.center) ** 2, axis=0)))
            return np.asarray(np.sqrt(np.median(self.errors**2, axis=0)))

    def power(self, effects: Array) -> Array:
        """Power of tests of zero at other true values (p,): the probability that intervals exclude zero.

        Errors are assumed not to depend on the true value. With enough releases it is the share that reject; otherwise
        estimates are assumed normal with their median standard error.
        """
        if self.tested is not None:
            return np.array([self.tested])
        if self.counted:
            moved = self.ends + (effects - self.center)[:, None]
            return np.asarray(((moved[..., 0] > 0) | (moved[..., 1] < 0)).mean(axis=0))
        with np.errstate(all="ignore"):
            spread = self.rmse
            above = (effects - (self.params - self.ends[..., 0])) / spread
            below = (-effects - (self.ends[..., 1] - self.params)) / spread
        found = stats.norm.cdf(above) + stats.norm.cdf(below)
        return np.asarray(np.where(np.isnan(found), 0.0, found).mean(axis=0))


@dataclass(frozen=True, eq=False)
class Outlook(ABC):
    """Forecasts of one question in one population; each subclass is a way to compute them.

    Attributes
    ----------
    question : Question
    pilot : Pilot
        The population; for a test its true values, as `dpinfer.power` takes them.
    about : str
        The population in words.
    slow : bool
        Whether data sets are fitted one by one.
    least, most : int
        Smallest and largest number of rows for which a forecast is possible.
    """

    question: Question
    pilot: Any
    about: str
    slow, least, most = False, 4, 10**9

    @property
    def rows_behind(self) -> float | None:
        """Number of rows behind a pilot release."""
        return self.pilot.nobs if isinstance(self.pilot, ReleasePilot) else None

    @abstractmethod
    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:
        """Forecast at a number of rows and privacy parameters."""

    @abstractmethod
    def alone(self, n: int) -> Forecast:
        """Forecast sampling alone, with practically no noise."""


@dataclass(frozen=True, eq=False)
class Summed(Outlook):
    """Forecasts from the known sums of a population, with no fits of data sets."""

    _sums: dict[tuple[int, int], Array] = field(default_factory=dict)

    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:
        """Forecast at a number of rows and privacy parameters."""
        measured = self.question.measured(n, price)
        wanted = (_GAUSSIAN if measured.law.family == "gaussian" else _OTHER)[depth]
        return self._forecast(measured, n, min(wanted, max(_FEWEST, _ENTRIES // len(measured.names))))

    def alone(self, n: int) -> Forecast:
        """Forecast sampling alone, with practically no noise."""
        return self._forecast(self.question.measured(n, self.question.known), n, _ALONE, noiseless=True)

    def _forecast(self, measured: Measurement, n: int, count: int, *, noiseless: bool = False) -> Forecast:
        question = self.question
        if (n, count) not in self._sums:  # the same at every price; those looked at last are held
            if len(self._sums) >= _REMEMBERED:
                self._sums.clear()
            self._sums[n, count] = self.pilot.sums(measured, n, count, question.rng(_DATA))
        purpose, share = (_HARDLY, simulation.HARDLY) if noiseless else (_NOISE, 1.0)
        released = simulation.noisy(measured, self._sums[n, count], question.rng(purpose), share=share)
        with np.errstate(all="ignore"):
            found = question.procedure.estimate(released, alpha=question.alpha)
        expected, design = self.pilot.expected(measured, n)[None], question.design(n, question.known)
        center = simulation.noiseless_estimates(design, measured, expected, question.rng(_HARDLY))[0]
        estimated = found.params, found.bse, found.intervals
        return Forecast(tuple(found.names), center, *estimated, self.pilot.sampled, question.alpha)


@dataclass(frozen=True, eq=False)
class Fitted(Outlook):
    """Forecasts from fits of data sets one by one, as a user would fit them."""

    slow, least, most = True, 20, 10**6
    _fits: dict[tuple[int, Privacy], list[Any]] = field(default_factory=dict)

    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:
        """Forecast at a number of rows and privacy parameters."""
        self.question.measured(n, price)
        more = 2 if depth == "answer" else 1
        forecast = self._forecast(n, price, _FITS)
        while len(self._fits[n, price]) < _MOST_FITS * more and forecast.uncertainty > _KNOWN / more:
            forecast = self._forecast(n, price, len(self._fits[n, price]) + _STEP)
        return forecast

    def alone(self, n: int) -> Forecast:
        """Forecast sampling alone, with practically no noise."""
        return self._forecast(n, simulation.HARDLY_NOISY, _FITS // 2)

    def _forecast(self, n: int, price: Privacy, count: int) -> Forecast:
        """Fit data sets until there are enough; earlier fits are cached."""
        fits, question = self._fits.setdefault((n, price), []), self.question
        design = question.design(n, price, self.pilot.generate)
        data: PublicData | None = None
        while len(fits) < count:
            question.watch(1)
            frame = pd.DataFrame(simulation.draw_columns(design, question.rng(_DATA, len(fits)), n))
            try:
                data = simulation.simulated(design, frame, question.rng(_NOISE, len(fits)), data)
                fits.append(simulation.fitted(design, data, price))
            except (DPInferError, ArithmeticError, np.linalg.LinAlgError) as error:
                fits.append(error)
        done = [one for one in fits if isinstance(one, tuple)]
        if not done:
            raise NotProvedError(f"no data set of the population can be fitted here: {fits[0]}")
        names = done[0][0]
        empty = np.full((5, len(names)), np.nan)
        numbers = np.stack([one[1] if isinstance(one, tuple) and one[0] == names else empty for one in fits])
        center = np.array([float(np.median(column[np.isfinite(column)])) if np.isfinite(column).any() else np.nan
                           for column in numbers[:, 0].T])  # fmt: skip
        ends = np.moveaxis(numbers[:, 2:4], 1, -1)
        return Forecast(names, center, numbers[:, 0], numbers[:, 1], ends, True, question.alpha)


@dataclass(frozen=True, eq=False)
class Scaled(Outlook):
    """Forecasts from the variances of a release of the same question, scaled to other rows and noise."""

    @cached_property
    def _found(self) -> tuple[Forecast, Array, Array]:
        """Forecast of the pilot itself, and its variances (p,) of sampling and of noise.

        Raises
        ------
        InferenceError
            If its results do not separate noise from sampling.
        """
        question, pilot = self.question, self.pilot
        results = question.procedure.infer(pilot.release)
        try:
            sampling, noise = (np.asarray(one, dtype=np.float64) for one in (results.bse_sampling, results.bse_noise))
            names, numbers, _, _ = simulation.read_results(results, question.design(1, pilot.release.cost.price))
        except (AttributeError, DPInferError, TypeError, ValueError):
            raise InferenceError(
                "results of the pilot release do not separate sampling error from noise: give public rows or a function"
            ) from None
        ends = np.moveaxis(numbers[2:4], 0, -1)[None]
        found = Forecast(names, numbers[0], numbers[:1], numbers[1:2], ends, False, question.alpha)
        return found, sampling**2, noise**2

    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:  # noqa: ARG002
        """Forecast from the noise of the first sums; that of later ones depends on releases."""
        first = [self.question.measured(n, one).stages[0] for one in (price, self.pilot.release.cost.price)]
        ours, theirs = (one.law.variances * np.asarray(one.steps) ** 2 for one in first)
        there = theirs > 0
        return self._with(n, float(np.median(ours[there] / theirs[there])) if there.any() else 0.0)

    def alone(self, n: int) -> Forecast:
        """Forecast sampling alone, with practically no noise."""
        return self._with(n, 0.0)

    def _with(self, n: int, ratio: float) -> Forecast:
        """Scale the pilot to n rows and to a ratio of noise variances."""
        found, sampling, noise = self._found
        share = self.pilot.nobs / n
        spread = np.sqrt(sampling * share + noise * share**2 * ratio)
        factor = spread / found.errors
        middle = found.params[..., None]
        ends = middle + (found.ends - middle) * factor[..., None]
        return replace(found, errors=np.broadcast_to(spread, factor.shape), ends=ends)


@dataclass(frozen=True, eq=False)
class Tested(Outlook):
    """Forecasts of the power of a test against a population, by the study that `dpinfer.power` makes."""

    least = 1

    def at(self, n: int, price: Privacy | None, *, depth: Depth = "width") -> Forecast:  # noqa: ARG002
        """Forecast at a number of rows and privacy parameters; None means the ordinary test."""
        nothing = np.full((1, 1, 2), np.nan)
        unknown = nothing[0, :, 0], nothing[..., 0], nothing[..., 0], nothing
        return Forecast(("test",), *unknown, False, self.question.alpha, self._one.at(n, price))

    def alone(self, n: int) -> Forecast:
        """Forecast the ordinary test."""
        return self.at(n, None)

    def rows(self, price: Privacy, least: float) -> int | None:
        """Smallest number of rows that reaches a power, as `PowerStudy.sample_size` finds it."""
        found = self._study(START, price).sample_size(least)["n"].iloc[0]
        return None if pd.isna(found) else int(found)

    def price(self, n: int, kind: Privacy, least: float) -> Privacy | None:
        """Smallest budget in a unit that reaches a power, as `PowerStudy.budget` finds it."""
        found: Privacy | None = self._study(n, kind).budget(least)["privacy"].iloc[0]
        return found

    @cached_property
    def _one(self) -> PowerStudy:
        return self._study(START, self.question.known)

    def _study(self, n: int, price: Privacy) -> PowerStudy:
        one, test = self.question, self.question.procedure
        options: dict[str, Any] = {"schema": one.schema, "neighbors": one.neighbors, "alpha": one.alpha}
        try:
            return power(test, self.pilot, n=n, privacy=price, seed=one.seed, **options)  # type: ignore[arg-type]
        except OptionError as error:
            if error.option != "truth":
                raise
            raise OptionError("pilot", type_of(self.pilot), error.expected) from None


def _truth_of(question: Question, pilot: Pilot) -> Any:
    """Return the true values in a population as `dpinfer.power` takes them, practically without noise."""
    test: Any = question.procedure
    if isinstance(test, ChiSquare):
        measured = question.measured(100, question.known)
        if isinstance(pilot, ReleasePilot) and not pilot.holds(measured):
            raise OptionError("pilot", type_of(pilot.release), "a release of the same table")
        counts = np.maximum(pilot.expected(measured, 10**6) / measured.rows.units, 0.0)
        return (counts / counts.sum()).reshape([len(axis.labels) for axis in test.plan(question.schema).cells])

    def inferred(described: Any) -> Any:
        if isinstance(pilot, ReleasePilot):
            return described.infer(pilot.release)
        frame = pd.DataFrame({name: plain_cells(pilot.pool[name]) for name in question.schema})
        rng = np.random.default_rng(0)
        data = PublicData(frame, question.schema, rng=rng, neighbors=question.neighbors)
        return described.bind(data).fit(simulation.HARDLY_NOISY)

    if isinstance(test, BinomTest):
        return float(np.clip(inferred(proportion(test.column)).params.iloc[0], 0, 1))
    means = inferred(test.described)
    spread = np.sqrt(inferred(replace(test.described, kind="variance")).params.to_numpy())
    if not test.grouped:
        return {"mean": float(means.params.iloc[0]), "sd": float(spread[0])}
    sizes = np.asarray(means.sizes, dtype=np.float64)
    labels = test.plan(question.schema).cells[0].labels
    parts = zip(labels, sizes / sizes.sum(), means.params.to_numpy(), spread, strict=True)
    return {label: (float(share), float(mean), float(sd)) for label, share, mean, sd in parts}


def outlook_of(question: Question, pilot: Any) -> Outlook:
    """Choose how to forecast a question in a population.

    ``pilot`` is as in `plan`; for a test also the truth as in `dpinfer.power`.

    Raises
    ------
    DPInferError
        If no forecast is possible: a release of another question, or results without standard errors from noise.
    """
    procedure, schema = question.procedure, question.schema
    test = isinstance(procedure, TESTS)
    if test and pilot is None:
        right = "for a test true values, public rows or a function: hypotheses may hold in the uniform population"
        raise OptionError("pilot", None, right)
    if test and not isinstance(pilot, PublicData) and not callable(pilot):
        if isinstance(pilot, pd.DataFrame):
            columns = question.measured(100, question.known).columns
            truth = not all(name in pilot.columns for name in columns)
        else:
            truth = not hasattr(pilot, "stages") and not hasattr(pilot, "columns")
        if truth:
            return Tested(question, pilot, "as given: true values, as in dpinfer.power")
    population = read_pilot(pilot, schema, procedure)
    if test:
        return Tested(question, _truth_of(question, population), population.about)
    many = procedure.estimates_many and schema.people is None
    if isinstance(population, RowPilot):
        return (Summed if many else Fitted)(question, population, population.about)
    held = many and population.holds(question.measured(int(population.nobs), question.known))
    return (Summed if held else Scaled)(question, population, population.about)
