"""Results of log-linear models: odds ratios, fitted counts, residuals, and tests of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import NotProvedError, OptionError, kind_of
from dpinfer.results.base import PrivateResults
from dpinfer.results.drawing import draw_intervals
from dpinfer.results.estimates import statistic_labels
from dpinfer.results.printing import interval_labels, title_guarantee
from dpinfer.results.testing import TestResults, check_alpha, checked_truth
from dpinfer.statistics.inference import joint_level
from dpinfer.statistics.nulls import Draws, check_draws, simulate
from dpinfer.statistics.tails import widened
from dpinfer.tables.loglinear_inference import LogLinearInference, nested

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from dpinfer.release.release import AnyRelease
    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.tables.loglinear_fit import CellTable, LogLinearFit


_NO_CONTRAST = 1e-12
_HIDDEN = (
    "an expected count is below 5, or below two standard deviations of its noise: the p-value is the largest over "
    "three fits of the hypothesis, and conservative"
)


class LogLinearResults(PrivateResults):
    """Coefficients of a log-linear model of noisy counts.

    Everything that `PrivateResults` has is here too; predictions are expected counts.

    Parameters
    ----------
    inference, release, notes, design
        As in `PrivateResults`.
    table : CellTable
        The factors and their levels.
    included : ndarray of bool (d,)
        The cells that can be.
    formula : str
    exclude : str, optional
    """

    def __init__(
        self,
        inference: LogLinearInference,
        release: AnyRelease,
        *,
        table: CellTable,
        included: Mask,
        formula: str,
        exclude: str | None = None,
        design: FormulaDesign,
        **labels: Any,
    ) -> None:
        options = {"model_name": "Private log-linear model", "response": "count", **labels, "inverse_link": np.exp}
        super().__init__(inference, release, design=design, **options)
        self._table, self._included, self._factors, self._exclude = table, included, design, exclude
        self.formula = formula

    def __repr__(self) -> str:
        return super().__repr__().replace("<PrivateResults", f"<{type(self).__name__}", 1)

    @property
    def inference(self) -> LogLinearInference:
        """The one inference behind every number."""
        found: LogLinearInference = self._inference  # type: ignore[assignment]
        return found

    # Cells

    @property
    def index(self) -> pd.Index:
        """Labels of the cells, the last factor running fastest."""
        return self._table.index

    def _of_cells(self, values: Array, other: float = np.nan) -> pd.Series:
        whole = np.full(self._table.size, other)
        whole[self._included] = values
        return pd.Series(whole, index=self.index)

    @property
    def observed_freq(self) -> pd.Series:
        """Series (d,): noisy counts by cell; where the number of rows is public, moved to add up to it."""
        return self._of_cells(self.inference.values)

    @property
    def expected_freq(self) -> pd.Series:
        """Series (d,): fitted counts by cell; 0 in cells that cannot be, NaN in those that are left out of the fit."""
        return self._of_cells(self.inference.means, 0.0)

    @property
    def resid_pearson(self) -> pd.Series:
        """Series (d,): noisy counts less fitted ones, over the standard deviation of a count, sampling and noise."""
        inference = self.inference
        population = inference.means if inference.model.population else 0.0
        spread = np.sqrt(population + inference.model.noise.of_counts)
        return self._of_cells((inference.values - inference.means) / spread)  # noqa: PD011  (counts, and no Series)

    def residuals(self, alpha: float = 0.05, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return how far each cell is from the model.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        simultaneous : bool
            Whether the intervals hold together with the stated confidence.

        Returns
        -------
        DataFrame
            A row for each cell; columns "observed" (noisy), "expected", "difference", "std err" (of the difference
            under the model, sampling and noise), "std err (noise)", "residual" (difference over std err), and the ends
            of an interval for the difference in the population. NaN in cells that are left out, or that the model fits
            without rest.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        level, joint = check_alpha(alpha), checked_truth("simultaneous", simultaneous)
        inference, included = self.inference, self.inference.found.included
        found = np.full((7, len(included)), np.nan)
        found[0], found[1] = inference.values, inference.means  # noqa: PD011  (counts, and no Series)
        found[2] = found[0] - found[1]
        if inference.fit is not None:
            found[3:, included] = _residual_errors(inference.fit, found[2, included], level, joint)
        names = ["observed", "expected", "difference", "std err", "std err (noise)", *interval_labels(alpha)]
        frame = pd.DataFrame({name: self._of_cells(row) for name, row in zip(names, found, strict=True)})
        frame.insert(5, "residual", frame["difference"] / frame["std err"])
        return frame

    # Odds ratios

    def odds_ratios(
        self, alpha: float = 0.05, *, at: Mapping[str, Any] | None = None, simultaneous: bool = False
    ) -> pd.DataFrame:
        """Return odds ratios of every two factors that share a term.

        Parameters
        ----------
        alpha : float
            One minus the confidence.
        at : mapping of str to level, optional
            Levels of the other factors, where terms of three factors make the odds ratio depend on them; the first
            level by default.
        simultaneous : bool
            Whether all intervals hold together with the stated confidence.

        Returns
        -------
        DataFrame
            A row for each level but the first of the one factor with each but the first of the other, labelled
            ``"race=b:sex=f"``: "odds ratio", "log odds ratio", "std err", "std err (sampling)" and "std err (noise)" of
            the logarithm, the p-value of an odds ratio of 1, and the ends of the interval of the odds ratio, 0 or
            infinite where the release does not bound it. NaN where not determined.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1, or ``at`` names no level.
        """
        level, joint = check_alpha(alpha), checked_truth("simultaneous", simultaneous)
        labels, rows = self._ratio_rows(self._places(at))
        inference = self.inference
        center, *covariances, total = inference.combinations(rows)
        sampling, noise = (np.maximum(np.diag(one), 0.0) for one in covariances)
        if joint:
            level = joint_level(total, level)
        ends = inference.intervals(rows, level) if len(rows) else np.empty((0, 2))
        pvalues = inference.contrast_pvalues(rows, np.zeros(len(rows))) if len(rows) else np.empty(0)
        errors = [np.sqrt(one) for one in (sampling + noise, sampling, noise)]
        with np.errstate(over="ignore"):
            cells = np.column_stack([np.exp(center), center, *errors, pvalues, np.exp(ends)])
        names = ["odds ratio", "log odds ratio", "std err", "std err (sampling)", "std err (noise)"]
        names += [statistic_labels(self)[1], *interval_labels(alpha)]
        return pd.DataFrame(cells, index=labels, columns=names)

    def _places(self, at: Mapping[str, Any] | None) -> dict[str, int]:
        """Place of a level of every factor: as given, or the first."""
        places, known = (
            dict.fromkeys(self._table.names, 0),
            dict(zip(self._table.names, self._table.labels, strict=True)),
        )
        for name, label in (at or {}).items():
            if name not in known or label not in known[name]:
                listed = ", ".join(f"{one}: {levels}" for one, levels in known.items())
                raise OptionError("at", kind_of(at), f"levels by factor, of {listed}")
            places[name] = known[name].index(label)
        return places

    def _ratio_rows(self, at: Mapping[str, int]) -> tuple[list[str], Array]:
        """Labels, and the logarithms of odds ratios as combinations of coefficients (k, p)."""
        whole = self._factors.rows(self._table.values, self._table.size)
        shape, names = tuple(len(one) for one in self._table.labels), self._table.names
        labels: list[str] = []
        found: list[Array] = []
        for (i, first), (j, second) in combinations(enumerate(names), 2):
            if not any({first, second} <= set(column.columns) for column in self._factors.columns):
                continue
            for a, b in product(range(1, shape[i]), range(1, shape[j])):
                row = np.zeros(whole.shape[1])
                cells = []
                for x, y, sign in ((a, b, 1.0), (a, 0, -1.0), (0, b, -1.0), (0, 0, 1.0)):
                    place = [at[name] for name in names]
                    place[i], place[j] = x, y
                    cells.append(int(np.ravel_multi_index(place, shape)))
                    row = row + sign * whole[cells[-1]]
                if self._included[cells].all() and np.abs(row).max() > _NO_CONTRAST:
                    labels.append(f"{first}={self._table.labels[i][a]}:{second}={self._table.labels[j][b]}")
                    found.append(row)
        return labels, np.array(found).reshape(len(found), whole.shape[1])

    def plot_odds_ratios(
        self,
        ax: Axes | None = None,
        *,
        alpha: float = 0.05,
        at: Mapping[str, Any] | None = None,
        color: str | None = None,
        legend: bool = True,
    ) -> Axes:
        """Draw the logarithms of odds ratios with intervals, the sampling part told apart from the noise part.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        at : mapping of str to level, optional
            As in `odds_ratios`.
        color : str, optional
        legend : bool

        Returns
        -------
        matplotlib.axes.Axes
        """
        table = self.odds_ratios(alpha, at=at)
        center = table["log odds ratio"].to_numpy()
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.log(table.iloc[:, -2:].to_numpy())
            share = (table["std err (sampling)"] / table["std err"]).to_numpy()
        arms = np.where(np.isfinite(ends), ends - center[:, None], 0.0) * share[:, None]
        drawn = np.column_stack([center, ends, center[:, None] + arms])
        names = ["estimate", "lower", "upper", "sampling_lower", "sampling_upper"]
        frame = pd.DataFrame(drawn, index=table.index, columns=names)
        label = f"log odds ratio ({self.inference.method} inference)"
        title = f"Odds ratios: {title_guarantee(self.release)}"
        return draw_intervals(frame, ax, alpha=alpha, color=color, legend=legend, zero=True, label=label, title=title)

    # Tests of the model

    def goodness_of_fit(self, *, draws: Draws = "adaptive", seed: int = 0) -> LogLinearTestResults:
        """Test whether the model holds, against any other table.

        Parameters
        ----------
        draws : "adaptive" or int
            Simulated tables; "adaptive" takes more where the p-value is small.
        seed : int
            Public; draws no privacy noise.

        Returns
        -------
        LogLinearTestResults
            The squared distance of the noisy counts from the model, weighted by sampling and noise, with a null that
            draws counts and noise from the fit and fits anew.

        Raises
        ------
        OptionError
            Where the model has a coefficient for every cell, or ``draws`` or ``seed`` has no such value.
        NotProvedError
            Where the target is the data.
        """
        if len(self.inference.values) == len(self.inference.names):
            raise OptionError("formula", self.formula, "a model with fewer coefficients than cells: this one fits all")
        return self._tested(self.formula, self.inference.model.design, None, draws, seed)

    def compare_lm_test(
        self, restricted: str | LogLinearResults, *, draws: Draws = "adaptive", seed: int = 0
    ) -> LogLinearTestResults:
        """Test whether a smaller model holds, against this one, by the score (Lagrange multiplier) statistic.

        Parameters
        ----------
        restricted : str or LogLinearResults
            A formula in the same factors whose terms are among those of this model, or its results from the same
            release.
        draws, seed
            As in `goodness_of_fit`.

        Returns
        -------
        LogLinearTestResults

        Raises
        ------
        OptionError
            Where the model is not nested in this one, or is the same, or was fitted to another table.
        FormulaError, UnknownColumnError, NotProvedError
            As `loglinear`; where the target is the data.
        """
        formula = restricted
        if isinstance(restricted, LogLinearResults):
            formula = restricted.formula
            if not np.array_equal(restricted.inference.values, self.inference.values):
                raise OptionError("restricted", formula, "results from the same table of the same release")
        if not isinstance(formula, str):
            raise OptionError("restricted", kind_of(restricted), "a formula, or results of a smaller model")
        _, smaller = self._table.design(formula, self._exclude)
        return self._tested(formula, smaller, self.inference.model.design, draws, seed)

    def _tested(
        self, formula: str, smaller: Array, larger: Array | None, draws: Draws, seed: int
    ) -> LogLinearTestResults:
        inference = self.inference
        if inference.target == "data":
            raise NotProvedError('a test of a model is about a population: target="population"')
        check_draws(draws, seed)
        model = nested(smaller, larger, inference.model.noise, inference.model.nobs)
        if model is None or model.dof == 0:
            raise OptionError("restricted", formula, f"a smaller model than {self.formula!r}, with terms of it alone")
        found = simulate(model, inference.values, draws=draws, seed=seed)
        against = "any other" if larger is None else self.formula
        flags = () if np.isfinite(found.statistic) else ("the statistic cannot be computed from this release",)
        if model.hidden(inference.values[None])[0]:  # noqa: PD011  (counts, and no Series)
            flags = (*flags, _HIDDEN)
        return LogLinearTestResults(
            title="Private goodness of fit" if larger is None else "Private score test of nested log-linear models",
            hypothesis=f"{formula} holds, against {against}",
            statistic=found.statistic,
            pvalue=found.pvalue,
            release=self.release,
            statistic_name="Score chi2",
            dof=float(model.dof),
            distribution=found,
            nobs=inference.nobs,
            nobs_is_public=inference.nobs_is_public,
            flags=flags,
            notes=tuple(self.notes[:-1]),
            observed=self.observed_freq,
            expected=self._of_cells(model.expected(inference.values[None])[0], 0.0),  # noqa: PD011  (counts, and no Series)
        )


def _residual_errors(fit: LogLinearFit, difference: Array, level: float, joint: bool) -> Array:
    """Return standard errors, of noise alone too, and ends of intervals of differences (4, d), of one table."""
    model = fit.model
    hat = (fit.means[0] * model.design.T).T @ fit.influence[0]
    left = np.eye(len(hat)) - hat
    noise = model.noise.covariance(left)
    null = wide = noise
    if model.population:
        sampled = (left * fit.means[0]) @ left.T
        more = (left * np.maximum(fit.means[0], fit.values[0])) @ left.T  # noqa: PD011  (counts, and no Series)
        if model.nobs is not None:
            pulled = left @ fit.means[0]
            sampled, more = (one - np.outer(pulled, pulled) / model.nobs for one in (sampled, more))
        null, wide = noise + sampled, noise + more
    variance, spread = np.diag(null), np.diag(wide)
    full = fit.means[0] + model.noise.of_counts
    fitted = spread <= 1e-9 * full  # nothing is left of what the model fits exactly
    kurtosis = np.minimum(model.noise.fourth_cumulant(left) / np.maximum(spread, 1e-300) ** 2, 3.0)
    half = widened(joint_level(wide, level) if joint else level, kurtosis) * np.sqrt(np.maximum(spread, 0.0))
    errors = [np.sqrt(np.maximum(one, 0.0)) for one in (variance, np.diag(noise))]
    return np.where(fitted, np.nan, np.stack([*errors, difference - half, difference + half]))


@dataclass(frozen=True, eq=False, repr=False)
class LogLinearTestResults(TestResults):
    """A test of a log-linear model of noisy counts.

    Attributes
    ----------
    observed, expected : Series (d,)
        Noisy counts, and those that the hypothesis expects.
    """

    observed: pd.Series = field(kw_only=True)
    expected: pd.Series = field(kw_only=True)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:  # noqa: ARG002  (nothing depends on a level)
        """Return noisy counts beside those that the hypothesis expects, by cell."""
        return pd.DataFrame({"observed": self.observed, "expected": self.expected})
