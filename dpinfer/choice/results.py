"""Results of regressions of a categorical response: coefficients by level, probabilities, marginal effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd
from scipy import special

from dpinfer.errors import MissingFromReleaseError, OptionError
from dpinfer.regression.results import effects_at
from dpinfer.results.base import PrivateResults
from dpinfer.results.margins import MarginalEffects, Points, Slope
from dpinfer.results.prediction import design_rows, public_points
from dpinfer.results.testing import check_alpha

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.choice.stages import ChoiceModel
    from dpinfer.release.release import AnyRelease
    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import Inference

_STEP = 1e-4
"""Standard errors, or parts of a coefficient, by which a derivative is taken by differences."""

_ALONG = 1e-4
_SURE = 1e-12
"""Chances nearer to 0 and 1 are taken as that near."""

_AT = ("overall", "mean", "all")


class ChoiceResults(PrivateResults):
    """Coefficients for a categorical response, with level probabilities and marginal effects.

    All attributes and methods of `PrivateResults` for coefficients and tests are available too.

    Parameters
    ----------
    inference, release, response, notes
        As in `PrivateResults`.
    kind : ChoiceModel
        Unordered or ordered levels.
    levels : sequence of str, length K
        Levels of the response.
    points : FormulaDesign
        The right side of the formula.
    """

    def __init__(
        self,
        inference: Inference,
        release: AnyRelease,
        *,
        kind: ChoiceModel,
        levels: Sequence[str],
        points: FormulaDesign,
        response: str = "y",
        notes: Sequence[str] = (),
    ) -> None:
        self._kind, self._levels, self._at_points = kind, tuple(levels), points
        super().__init__(inference, release, model_name=f"Private {kind.title}", response=response, notes=notes)

    def __repr__(self) -> str:
        return super().__repr__().replace("<PrivateResults", f"<{type(self).__name__}", 1)

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of the response, in their declared order."""
        return self._levels

    @property
    def thresholds(self) -> pd.Series:
        """Thresholds between ordered levels; empty for unordered levels."""
        return self.params.iloc[-(len(self._levels) - 1) :] if self._kind.ordered else self.params.iloc[:0]

    def params_frame(self) -> pd.DataFrame:
        """Return coefficients as statsmodels' ``MNLogit`` does: a row per regressor, a column per level.

        For ordered levels there is one column of slopes.
        """
        names = list(self._at_points.names)
        if self._kind.ordered:
            return self.params.iloc[: len(names) - 1].to_frame("slope")
        return pd.DataFrame(self.params.to_numpy().reshape(-1, len(names)).T, names, list(self._levels[1:]))

    def _chances(self, params: Array, rows: Array) -> Array:
        """Return the probabilities (m, K) of levels at designs (m, p)."""
        many = len(self._levels) - 1
        if not self._kind.ordered:
            return self._kind.chances(rows @ params.reshape(many, -1).T)
        return self._kind.chances(params[-many:] - (rows[:, 1:] @ params[:-many])[:, None])

    def _differentiated(self, function: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return a function (n,) of the coefficients at the estimates, and its derivatives (n, P)."""
        params = np.asarray(self.inference.params)
        steps = _STEP * np.minimum(np.asarray(self.bse), 1.0 + np.abs(params))
        moved = np.diag(steps)
        slopes = [(function(params + one) - function(params - one)) for one in moved]
        return function(params), np.stack(slopes, axis=1) / (2 * steps)

    # Chances

    def predict(self, exog: object) -> pd.DataFrame:  # type: ignore[override]
        """Return the probabilities of all levels at public design points.

        Parameters
        ----------
        exog : DataFrame, dict or array (m, p)
            Columns of the formula, such as ``{"age": [30, 40]}``, or columns of the design by name; never rows of the
            confidential data.

        Returns
        -------
        DataFrame (m, K)
            Probabilities that add up to 1, a column per level.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As in ``PrivateResults.get_prediction``.
        """
        rows, index = design_rows(exog, self._at_points.names, self._at_points)
        return pd.DataFrame(self._chances(np.asarray(self.inference.params), rows), index, list(self._levels))

    def get_prediction(self, exog: object) -> NoReturn:
        """Raise an error: each level has its own probability; use `predict` or `predictions`."""
        raise OptionError(
            "get_prediction", type(exog).__name__, "predict() or predictions(): each level has a probability"
        )

    def predictions(self, newdata: object, *, conf_level: float = 0.95) -> pd.DataFrame:
        """Return the probabilities of all levels at public points, with standard errors and intervals.

        Parameters
        ----------
        newdata : DataFrame, dict or array (m, p)
            As ``exog`` of `predict`.
        conf_level : float
            The pointwise confidence level of the intervals.

        Returns
        -------
        DataFrame (m K, 6)
            "rowid", "group" (the level), "estimate", "std_error", "conf_low", "conf_high". Intervals are computed for
            the log odds by the delta method, with the results' method of inference. They lie within [0, 1], and are all
            of it where the probability is not identified.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As in `predict`; also if ``conf_level`` is not strictly between 0 and 1.
        """
        alpha = 1.0 - check_alpha(conf_level, "conf_level")
        rows, index = design_rows(newdata, self._at_points.names, self._at_points)
        found, slopes = self._differentiated(lambda params: self._chances(params, rows).ravel())
        sure = np.clip(found, _SURE, 1 - _SURE)
        combined = slopes / (sure * (1 - sure))[:, None]
        arms = self.inference.intervals(combined, alpha) - (combined @ self.inference.params)[:, None]
        ends = special.expit(special.logit(sure)[:, None] + arms)
        errors = np.sqrt(np.einsum("np,pq,nq->n", slopes, np.asarray(self.cov_params()), slopes))
        many = len(self._levels)
        columns = {
            "rowid": np.repeat(np.asarray(index), many),
            "group": np.tile(self._levels, len(rows)),
            "estimate": found,
            "std_error": errors,
            "conf_low": ends[:, 0],
            "conf_high": ends[:, 1],
        }
        return pd.DataFrame(columns)

    # Marginal effects

    def get_margeff(
        self, at: str = "overall", atexog: object = None, *, dummy: bool = False, count: bool = False
    ) -> MarginalEffects:
        """Return marginal effects on the probability of each level at public points, by the delta method.

        Parameters
        ----------
        at : {"overall", "mean", "all"}
            The effects averaged over the points, at the mean of their design, or at every point.
        atexog : DataFrame, dict or array (m, p)
            Public points. Averages over the confidential rows are not released.
        dummy, count : bool
            As in ``GLMResults.get_margeff``.

        Returns
        -------
        MarginalEffects
            Effects named ``"regressor, level"``; those of one regressor add up to 0.

        Raises
        ------
        MissingFromReleaseError
            If no points are given.
        UnknownColumnError, OptionError, FormulaError
            As in `predict`.
        """
        if at not in _AT:
            raise OptionError("at", at, _AT)
        if atexog is None:
            raise MissingFromReleaseError("average effects over rows were not released; atexog= gives public points")
        design = self._at_points
        points = Points(*public_points(atexog, design.names, design))
        if at == "mean":
            points = Points(points.rows.mean(axis=0, keepdims=True))
        effects = effects_at(points, design.names, design, dummy=dummy, count=count)

        def each(params: Array) -> Array:
            found = []
            for one in effects:
                low, high, apart = _ends(one, points.rows)
                found.append((self._chances(params, high) - self._chances(params, low)) / apart[:, None])
            return np.concatenate(found, axis=1)  # (m, effects x K)

        names = tuple(f"{one.name}, {level}" for one in effects for level in self._levels)
        notes = ("Effects are at public points.",)
        if at == "all":
            values = each(np.asarray(self.inference.params))
            return MarginalEffects(self, names, values, None, at=at, notes=notes)
        values, gradients = self._differentiated(lambda params: each(params).mean(axis=0))
        return MarginalEffects(self, names, values, gradients, at=at, notes=notes)


def _ends(effect: Any, rows: Array) -> tuple[Array, Array, Array]:
    """Return the designs (m, p) that an effect compares, and the distance between them (m,)."""
    if not isinstance(effect, Slope):
        return effect.lower, effect.upper, np.full(len(rows), effect.divisor)
    step = _ALONG * np.maximum(np.abs(effect.place), 1.0)
    moved = effect.direction * step[:, None]
    return rows - moved, rows + moved, 2 * step
