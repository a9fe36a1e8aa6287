"""What to expect of a question at a number of rows and a price: widths, errors and powers, from public things alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.errors import DPInferError, InferenceError, NotProvedError
from dpinfer.kernel.data import PublicData
from dpinfer.kernel.sampling import check_scales
from dpinfer.kernel.stage import Context
from dpinfer.studies.design import Design
from dpinfer.studies.engine import ALL_BUT_FREE, draw_columns, hardly_noisy, noisy, quiet_estimates, read_results
from dpinfer.studies.planning.pilots import Rows, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpinfer.inference.batch import BatchEstimates
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema
    from dpinfer.studies.planning.pilots import Pilot

__all__ = ["Asked", "Depth", "Fitted", "Forecast", "Outlook", "Scaled", "Summed", "outlook_of"]

Depth = Literal["width", "share", "answer"]
"""How closely to look: for the median of widths, for shares of releases, or for an answer."""

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
"""Numbers of rows whose sums are kept."""

_KNOWN = 0.01
"""Relative standard error at which the median of widths counts as known."""

_DATA, _NOISE, _HARDLY = range(3)


@dataclass(frozen=True, eq=False)
class Asked:
    """What is planned: the question, and what is public about it.

    Attributes
    ----------
    procedure : Procedure
        Not bound.
    schema : Schema
        Of the columns that are read.
    neighbors : {"add_remove", "replace_one"}
    alpha : float
    seed : int
    known : Privacy
        A price that the question takes.
    watch : callable
        Called at every fit of rows, to show progress.
    """

    procedure: Procedure
    schema: Schema
    neighbors: Neighbors
    alpha: float
    seed: int
    known: Privacy
    watch: Callable[[int], None]

    def design(self, pilot: Any, n: int, price: Privacy) -> Design:
        """Return the study of one number of rows and price."""
        return Design(
            generate=pilot.generate if isinstance(pilot, Rows) else _no_rows,
            procedure=self.procedure,
            schema=self.schema,
            truth=None,
            n=(n,),
            privacy=(price,),
            neighbors=self.neighbors,
            replicates=1,
            level=1 - self.alpha,
            seed=self.seed,
        )

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Columns of the data that the question says it reads, besides those of its stages."""
        return self.procedure.columns_read(Context(self.schema, self.neighbors, self.known, public=True))

    def measured(self, n: int, price: Privacy) -> Measurement:
        """Price the question; `DPInferError` if it cannot be measured at this price."""
        found = self.design(None, n, price).measured(price, n)
        for stage in found.stages:
            check_scales(stage.law, price)
        return found

    def rng(self, *purpose: int) -> np.random.Generator:
        """Return a stream of random numbers that is the same at every price."""
        return np.random.default_rng([self.seed, *purpose])


@dataclass(frozen=True, eq=False)
class Forecast:
    """Estimates, standard errors and intervals of R releases that may come.

    Attributes
    ----------
    names : tuple of str, length p
    center : ndarray (p,)
        What is estimated in the population.
    params, errors : ndarray (R, p)
    ends : ndarray (R, p, 2)
    sampled : bool
        Whether the releases differ by sampling, too, so that their spread is that of the estimate.
    alpha : float
    """

    names: tuple[str, ...]
    center: Array
    params: Array
    errors: Array
    ends: Array
    sampled: bool
    alpha: float

    @property
    def widths(self) -> Array:
        """Full widths of the intervals (R, p); infinite where an estimate is not determined."""
        found = self.ends[..., 1] - self.ends[..., 0]
        return np.asarray(np.where(np.isnan(found), np.inf, found))

    def width(self, assurance: float = 0.5) -> Array:
        """Width that is not exceeded with this probability (p,)."""
        ranked = np.sort(self.widths, axis=0)
        if assurance == 0.5:  # the median of an even number is a mean
            return np.asarray(np.median(ranked, axis=0))
        return np.asarray(ranked[min(int(np.ceil(assurance * len(ranked))), len(ranked)) - 1])

    @property
    def uncertainty(self) -> Array:
        """Relative Monte Carlo error of the median width (p,); 0 where all are infinite."""
        widths = self.widths
        low, middle, high = np.quantile(widths, [0.25, 0.5, 0.75], axis=0, method="lower")
        with np.errstate(invalid="ignore"):
            found = 1.2533 * (high - low) / 1.349 / middle / np.sqrt(len(widths))
        return np.asarray(np.where(np.isfinite(found), found, 0.0))

    @property
    def counted(self) -> bool:
        """Whether there are so many releases that shares and spreads of them are taken as they are."""
        return self.sampled and len(self.params) >= _MANY

    @property
    def rmse(self) -> Array:
        """Root mean squared error of estimates (p,): counted where there are many, else the usual standard error."""
        with np.errstate(all="ignore"):
            if self.counted:
                return np.asarray(np.sqrt(np.mean((self.params - self.center) ** 2, axis=0)))
            return np.asarray(np.sqrt(np.median(self.errors**2, axis=0)))

    def power(self, effects: Array) -> Array:
        """Probability that intervals around other true values (p,) exclude zero, as tests of zero do.

        The errors are taken not to depend on the true value. Where there are many releases those that reject are
        counted; else an estimate is taken as normal with its usual standard error.
        """
        if self.counted:
            moved = self.ends + (effects - self.center)[:, None]
            return np.asarray(((moved[..., 0] > 0) | (moved[..., 1] < 0)).mean(axis=0))
        with np.errstate(all="ignore"):
            spread = self.rmse
            above = (effects - (self.params - self.ends[..., 0])) / spread
            below = (-effects - (self.ends[..., 1] - self.params)) / spread
        found = stats.norm.cdf(above) + stats.norm.cdf(below)
        return np.asarray(np.where(np.isnan(found), 0.0, found).mean(axis=0))


class Outlook(Protocol):
    """Forecasts of one question in one population."""

    @property
    def slow(self) -> bool:
        """Whether rows are fitted one data set after the other."""

    @property
    def least(self) -> int:
        """Least number of rows that can be looked at."""

    @property
    def most(self) -> int:
        """Largest number of rows that can be looked at."""

    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:
        """Look at a number of rows and a price."""

    def alone(self, n: int) -> Forecast:
        """Look at sampling alone, as good as without noise."""


@dataclass(frozen=True, eq=False)
class Summed:
    """Forecasts by sums that are known for a population: nothing is fitted one by one.

    Attributes
    ----------
    asked : Asked
    pilot : Pilot
    """

    asked: Asked
    pilot: Pilot
    slow: bool = False
    least: int = 4
    most: int = 10**9
    _kept: dict[tuple[int, int], Array] = field(default_factory=dict)

    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:
        """Look at a number of rows and a price; see `Outlook.at`."""
        measured = self.asked.measured(n, price)
        wanted = (_GAUSSIAN if measured.law.family == "gaussian" else _OTHER)[depth]
        count = min(wanted, max(_FEWEST, _ENTRIES // len(measured.names)))
        return self._forecast(measured, noisy(measured, self._sums(measured, n, count), self.asked.rng(_NOISE)), n)

    def _sums(self, measured: Measurement, n: int, count: int) -> Array:
        """Return sums of data sets, the same at every price; those looked at last are kept."""
        if (n, count) not in self._kept:
            if len(self._kept) >= _REMEMBERED:
                self._kept.clear()
            self._kept[n, count] = self.pilot.sums(measured, n, count, self.asked.rng(_DATA))
        return self._kept[n, count]

    def alone(self, n: int) -> Forecast:
        """Look at sampling alone; see `Outlook.alone`."""
        measured = self.asked.measured(n, self.asked.known)
        sums = self._sums(measured, n, _ALONE)
        return self._forecast(measured, hardly_noisy(measured, sums, self.asked.rng(_HARDLY)), n)

    def _forecast(self, measured: Measurement, released: Any, n: int) -> Forecast:
        found = self._estimated(released)
        expected, design = self.pilot.expected(measured, n)[None], self.asked.design(None, n, self.asked.known)
        return Forecast(
            names=tuple(found.names),
            center=quiet_estimates(design, measured, expected, self.asked.rng(_HARDLY))[0],
            params=found.params,
            errors=found.bse,
            ends=found.intervals,
            sampled=self.pilot.sampled,
            alpha=self.asked.alpha,
        )

    def _estimated(self, released: Any) -> BatchEstimates:
        with np.errstate(all="ignore"):
            return self.asked.procedure.estimate(released, alpha=self.asked.alpha)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Forecasts by fits of data sets, one by one, as a user's would be.

    Attributes
    ----------
    asked : Asked
    pilot : Rows
    """

    asked: Asked
    pilot: Rows
    slow: bool = True
    least: int = 20
    most: int = 10**6
    _kept: dict[tuple[int, Privacy], tuple[Any, ...]] = field(default_factory=dict)

    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:
        """Look at a number of rows and a price; see `Outlook.at`."""
        self.asked.measured(n, price)
        more = 2 if depth == "answer" else 1
        while True:
            found = self._kept.get((n, price), ())
            if found:
                forecast = self._forecast(found)
                if len(found) >= _MOST_FITS * more or float(forecast.uncertainty.max()) <= _KNOWN / more:
                    return forecast
            self._fit_more(n, price, _STEP if found else _FITS)

    def alone(self, n: int) -> Forecast:
        """Look at sampling alone; see `Outlook.alone`."""
        if (n, ALL_BUT_FREE) not in self._kept:
            self._fit_more(n, ALL_BUT_FREE, _FITS // 2)
        return self._forecast(self._kept[n, ALL_BUT_FREE])

    def _fit_more(self, n: int, price: Privacy, count: int) -> None:
        """Fit more data sets; what has been fitted is kept."""
        done = self._kept.get((n, price), ())
        self._kept[n, price] = (*done, *(self._fit(n, price, len(done) + one) for one in range(count)))

    def _fit(self, n: int, price: Privacy, place: int) -> Any:
        asked = self.asked
        asked.watch(1)
        design = asked.design(self.pilot, n, price)
        frame = pd.DataFrame(draw_columns(design, asked.rng(_DATA, place), n))
        data = PublicData(frame, asked.schema, rng=asked.rng(_NOISE, place), neighbors=asked.neighbors)
        try:
            names, numbers, _, _ = read_results(asked.procedure.bind(data).fit(price), design)
        except (DPInferError, ArithmeticError, np.linalg.LinAlgError) as error:
            return error
        return names, numbers

    def _forecast(self, fits: tuple[Any, ...]) -> Forecast:
        done = [one for one in fits if isinstance(one, tuple)]
        if not done:
            raise NotProvedError(f"no data set of the population can be fitted here: {fits[0]}")
        names = done[0][0]
        empty = np.full((5, len(names)), np.nan)
        listed = [one[1] if isinstance(one, tuple) and one[0] == names else empty for one in fits]
        numbers = np.stack(listed)
        params, errors = numbers[:, 0], numbers[:, 1]
        center = [float(np.median(column[np.isfinite(column)])) if np.isfinite(column).any() else np.nan
                  for column in params.T]  # fmt: skip
        ends = np.moveaxis(numbers[:, 2:4], 1, -1)
        return Forecast(names, np.asarray(center), params, errors, ends, sampled=True, alpha=self.asked.alpha)


@dataclass(frozen=True, eq=False)
class Scaled:
    """Forecasts by the variances that a release of the same question tells: sampling as 1/n, noise as its own law.

    Attributes
    ----------
    asked : Asked
    pilot : Told
    found : Forecast
        Of the pilot itself.
    sampling, noise : ndarray (p,)
        Variances of the pilot's estimates.
    """

    asked: Asked
    pilot: Told
    found: Forecast
    sampling: Array
    noise: Array
    slow: bool = False
    least: int = 4
    most: int = 10**9

    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:  # noqa: ARG002
        """Look at a number of rows and a price; see `Outlook.at`."""
        return self._with(n, self._ratio(n, price))

    def alone(self, n: int) -> Forecast:
        """Look at sampling alone; see `Outlook.alone`."""
        return self._with(n, 0.0)

    def _ratio(self, n: int, price: Privacy) -> float:
        """Variance of the noise at a price over that of the pilot, of the first sums: later ones depend on releases."""
        ours, theirs = (self.asked.measured(n, one) for one in (price, self.pilot.release.cost.price))
        variances = [one.stages[0].law.variances * np.asarray(one.stages[0].steps) ** 2 for one in (ours, theirs)]
        there = variances[1] > 0
        return float(np.median(variances[0][there] / variances[1][there])) if there.any() else 0.0

    def _with(self, n: int, ratio: float) -> Forecast:
        share = self.pilot.nobs / n
        spread = np.sqrt(self.sampling * share + self.noise * share**2 * ratio)
        factor = spread / self.found.errors
        middle = self.found.params[..., None]
        ends = middle + (self.found.ends - middle) * factor[..., None]
        return replace(self.found, errors=np.broadcast_to(spread, factor.shape), ends=ends)


def outlook_of(asked: Asked, pilot: Pilot) -> Outlook:
    """Choose how a question is looked at in a population.

    Raises
    ------
    DPInferError
        If nothing can be said: a release of another question, or results without standard errors of the noise.
    """
    many = asked.procedure.estimates_many and asked.schema.people is None
    if isinstance(pilot, Told):
        held = many and pilot.holds(asked.measured(int(pilot.nobs), asked.known))
        return Summed(asked, pilot) if held else _scaled(asked, pilot)
    if many:
        return Summed(asked, pilot)
    assert isinstance(pilot, Rows)  # there are no others
    return Fitted(asked, pilot)


def _scaled(asked: Asked, pilot: Told) -> Scaled:
    results = asked.procedure.infer(pilot.release)
    try:
        sampling, noise = (np.asarray(one, dtype=np.float64) for one in (results.bse_sampling, results.bse_noise))
        names, numbers, _, _ = read_results(results, asked.design(None, 1, pilot.release.cost.price))
    except (AttributeError, DPInferError, TypeError, ValueError):
        raise InferenceError(
            "results of the pilot release do not tell sampling and noise apart: give public rows or a function"
        ) from None
    found = Forecast(
        names, numbers[0], numbers[:1], numbers[1:2], np.moveaxis(numbers[2:4], 0, -1)[None], False, asked.alpha
    )
    return Scaled(asked, pilot, found, sampling**2, noise**2)


def _no_rows(rng: np.random.Generator, n: int) -> Any:  # noqa: ARG001  (of a function of a population)
    raise NotProvedError("a release has no rows to draw")
