"""Results of a bootstrap: from noisy sums under random weights to estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.errors import InferenceError, OptionError
from dpinfer.inference.bootstrap import METHODS, BootstrapInference, ReplicateSums
from dpinfer.inference.gram import noise_level
from dpinfer.inference.moment_inference import TARGETS
from dpinfer.privacy.resampling import POISSON
from dpinfer.release import Release, register_inference
from dpinfer.results.bootstrap_question import STATISTICS, BootstrapQuestion, PublicTotal
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.regression import PrivateResults

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["BootstrapDescription", "BootstrapResults", "check_inference", "infer_bootstrap"]

_FEW = 5.0
"""Standard deviations of noise that the number of rows must reach for a ratio to have an interval."""

_RELIABLE = 3.0
"""Ratio of the smallest eigenvalue of the regressors' cross-products to their noise, from which there are intervals."""


class BootstrapResults(PrivateResults):
    """Coefficients with errors from replicates. Everything that `PrivateResults` has is here too.

    ``with_inference`` takes "fiducial" (the default), "unbiased", "conservative" and "most_conservative".
    """

    @property
    def _bootstrap(self) -> BootstrapInference:
        inference = self.inference
        assert isinstance(inference, BootstrapInference)
        return inference

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences printed below the tables, besides those on the guarantee."""
        method, found = self.inference.method, self._notes
        if method == "conservative":
            found = (*found, f"It takes off too much noise with probability {self._bootstrap.conservative:g}.")
        if method in ("unbiased", "conservative", "most_conservative"):
            found = (*found, "This interval of Brawner & Honaker (2018) leaves out part of the error.")
        return found

    @property
    def replicates(self) -> pd.DataFrame:
        """DataFrame (B, p): the noisy estimate of every replicate, linearised at their mean."""
        found = pd.DataFrame(self._bootstrap.replicated, columns=list(self.inference.names))
        found.index.name = "replicate"
        return found

    @property
    def population_std(self) -> pd.Series:
        """Series (p,): the root of the number of rows times the sampling variance.

        Of a mean it is the standard deviation of the column in the population (Brawner & Honaker 2018, section 7.2).
        """
        return self._series(self._bootstrap.population_std)


class BootstrapDescription(BootstrapResults, DescriptionResults):
    """Means, totals, variances and the like with errors from replicates; see `BootstrapResults`."""


def check_inference(inference: object, conservative: object, target: object) -> None:
    """Refuse options of the inference that have no such value.

    Raises
    ------
    OptionError
    """
    if inference not in METHODS:
        raise OptionError("inference", inference, METHODS)
    if isinstance(conservative, bool) or not isinstance(conservative, int | float) or not 0 < conservative < 1:
        raise OptionError("conservative", conservative, "a probability between 0 and 1, both excluded")
    if target not in TARGETS:
        raise OptionError("target", target, TARGETS)


@register_inference("bootstrap")
def infer_bootstrap(
    release: Release,
    *,
    statistic: str | None = None,
    inference: str | None = None,
    conservative: float | None = None,
    target: str | None = None,
) -> BootstrapResults:
    """Infer from noisy sums that were released many times under random weights.

    Parameters
    ----------
    release : Release
    statistic : str, optional
        Another function of the same sums: a ratio of means that were measured, another regression among the columns.
    inference : {"auto", "fiducial", "unbiased", "conservative", "most_conservative"}, optional
    conservative : float, optional
        For ``inference="conservative"``: the probability that too much noise is taken off.
    target : {"population", "data"}, optional

    Returns
    -------
    BootstrapResults

    Raises
    ------
    InferenceError, MissingFromReleaseError
        If the release holds something else, or not what the statistic needs.
    OptionError
        If an option has no such value.
    """
    if release.kind != "bootstrap":
        raise InferenceError(f"a release of kind {release.kind!r} holds no bootstrapped sums")
    measured = BootstrapQuestion.from_release(release)
    asked = measured if statistic is None else replace(measured, statistic=_text(statistic))
    options = {**measured.options, **_given(inference=inference, conservative=conservative)}
    method, share = options.get("inference", "auto"), options.get("conservative", 0.05)
    aim = measured.target if target is None else target
    check_inference(method, share, aim)
    function = measured.statistic_of(asked)
    public = release.nobs is not None and measured.rows.keeps_every_row
    if public and asked.statistic == "total":
        function = PublicTotal(replace(asked, statistic="mean"), float(release.nobs or 0))
    width = measured.rows.width
    noise = release.noise_variances[-width:]  # the last replicate's, which are all alike
    sums = ReplicateSums(
        release.array.reshape(-1, width),
        np.diag(noise),
        weight_variance=POISSON.variance if measured.weights == "poisson" else 1.0,
        paired=measured.weights == "public",
    )
    found = BootstrapInference(
        names=asked.names,
        sums=sums,
        statistic=function,
        nobs=float(release.nobs) if public and release.nobs is not None else float(sums.mean[0]),
        nobs_is_public=public,
        target=aim,
        method="fiducial" if method == "auto" else method,
        conservative=float(share),
        unstable=_unstable(sums, measured, asked),
    )
    notes = _notes(measured, asked)
    if asked.regression:
        response = asked.gram.columns[-1].name
        return BootstrapResults(found, release, model_name="Private OLS, bootstrap", response=response, notes=notes)
    return BootstrapDescription(
        found,
        release,
        model_name="Private bootstrap",
        response=", ".join(asked.columns),
        notes=notes,
        quantity=asked.statistic if asked.statistic in STATISTICS else "estimate",
    )


def _text(statistic: object) -> str:
    if not isinstance(statistic, str):
        raise OptionError("statistic", statistic, f"one of {', '.join(STATISTICS)}, a formula, or arithmetic of means")
    return statistic


def _given(**options: object) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}


def _unstable(sums: ReplicateSums, measured: BootstrapQuestion, asked: BootstrapQuestion) -> tuple[str, ...]:
    """Say why no interval can be given; from released numbers only."""
    found = []
    error = float(np.sqrt(sums.noise_of_mean[0, 0]))
    if asked.statistic != "total" and sums.mean[0] < max(_FEW * error, 2.0):
        found.append(f"the number of rows, {sums.mean[0]:,.0f} with a standard error of {error:,.0f}, may be near zero")
    elif asked.regression:
        width = measured.gram.basis.width
        full, noise = np.zeros((2, width, width))
        upper = np.triu_indices(width)
        full[upper], noise[upper] = sums.mean, np.diag(sums.noise_of_mean)
        full, noise = (part + np.triu(part, 1).T for part in (full, noise))
        design = measured.gram.basis.represent(asked.gram.columns[:-1])
        rows = np.linalg.qr(design.T)[0].T
        least = float(np.linalg.eigvalsh(rows @ full @ rows.T)[0])
        if least < _RELIABLE * noise_level(noise, rows):
            found.append("the regressors' cross-products are hardly larger than their noise")
    return tuple(found)


_WORDS = {
    "double_or_nothing": "every row counts twice or not at all, secretly and anew in each",
    "poisson": "every row counts as often as a Poisson variable cut at 6 says, secretly and anew in each",
    "public": "every row counts twice in one and not in the other of each pair, by a public seed and its position",
}


def _notes(measured: BootstrapQuestion, asked: BootstrapQuestion) -> tuple[str, ...]:
    notes = [f"Rows: {measured.where}."] if measured.where else []
    drawn = _WORDS[measured.weights]
    if measured.schema.people is not None:
        drawn = drawn.replace("every row counts", "the rows of a person together count")
    notes.append(f"{measured.replicates:,} replicates of the noisy sums: {drawn}.")
    if not asked.regression:
        bounds = ", ".join(f"{e.text} to [{e.lower:.6g}, {e.upper:.6g}]" for e in asked.moments.expressions)
        notes.append(f"Values are clamped to their declared bounds ({bounds}).")
    return tuple(notes)
