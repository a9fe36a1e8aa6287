"""The bootstrap of sums over rows, at its true privacy cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.bootstrap import METHODS, BootstrapInference, ReplicateSums
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.cells import MOST_SUMS, CellSum
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.rows.resampled import Resampling
from dpinfer.kernel.stage import Context, Data, Resampled, Stage, Sum
from dpinfer.numerics.forms import noise_level
from dpinfer.privacy.resampling import POISSON
from dpinfer.procedures.bootstrap_plan import STATISTICS, BootstrapPlan, PublicTotal
from dpinfer.procedures.conditions import where_notes
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import TARGET, Allowed, inferred, measured, one_of, whole
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.bootstrap import BootstrapDescription, BootstrapResults
from dpinfer.schema.basis import represent
from dpinfer.schema.points import FormulaDesign

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["Bootstrap", "bootstrap"]

_MOST = MOST_SUMS // 4
"""Sums of all replicates together."""

_FEW = 5.0
"""Standard deviations of noise that the number of rows must reach for a ratio to have an interval."""

_RELIABLE = 3.0
"""Ratio of the smallest eigenvalue of the regressors' cross-products to their noise, from which there are intervals."""


_STATISTIC = Allowed(
    lambda given: isinstance(given, str), f"one of {', '.join(STATISTICS)}, a formula, or arithmetic of means"
)
_REPLICATES = Allowed(lambda given: type(given) is int and given >= 2, "a whole number, at least 2")
_WHERE = Allowed(lambda given: isinstance(given, str | None), 'a condition such as "age >= 18", or None')
_PROBABILITY = Allowed(
    lambda given: isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < 1,
    "a probability between 0 and 1, both excluded",
)


@dataclass(frozen=True, eq=False)
class Bootstrap(Procedure):
    """A question about functions of sums, measured many times under random weights. See `bootstrap`."""

    procedures = ("bootstrap",)

    columns: tuple[str, ...] = ()
    statistic: str = inferred("mean", _STATISTIC)
    replicates: int = measured(200, _REPLICATES)
    weights: Resampling = measured("double_or_nothing", one_of(get_args(Resampling)))
    where: str | None = measured(None, _WHERE)
    seed: int = measured(0, whole(0, 2**63 - 1, "a whole number from 0 to 2^63 - 1"))
    target: str = inferred("population", TARGET)
    inference: str = inferred("auto", one_of(METHODS))
    conservative: float = inferred(0.05, _PROBABILITY)

    def check_options(self) -> None:
        """Refuse an odd number of replicates with weights in pairs."""
        if self.weights in ("public", "paired") and self.replicates % 2:
            raise OptionError("replicates", self.replicates, f"an even number: {self.weights} weights come in pairs")

    # The question

    def plan(self, schema: Schema) -> BootstrapPlan:
        """Return the sums and the statistic, compiled against a schema."""
        asked = ("columns", "statistic", "replicates", "weights", "seed", "where")
        return _plan(schema, **{name: getattr(self, name) for name in asked})

    def text(self, schema: Schema) -> str:
        """Return the question in one line."""
        return self.plan(schema).text

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns, conditions and statistics that the schema cannot serve."""
        self.plan(schema).check()

    def resolve(self, context: Context) -> Bootstrap:
        """Return the question without columns that were listed beside a formula: the formula says what is measured."""
        self.check(context.schema, context.neighbors)
        return replace(self, columns=()) if "~" in self.statistic else self

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums under random weights.

        Raises
        ------
        OptionError
            If replicates are so many that the sums are too many to hold.
        """
        plan = self.plan(context.schema)
        width = plan.rows.width
        if width * self.replicates > _MOST:
            raise OptionError("replicates", self.replicates, f"at most {_MOST // width:,} of these sums")
        plan.check()
        return Stage(Resampled(plan.rows))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, what replicates cost, and the noise of the estimate, before anything is spent.

        Returns
        -------
        str
        """
        rows = self.plan(measured.context.schema).rows
        one = max(scale * step for scale, step in zip(measured.law.scales, measured.steps, strict=True))
        plain = GramSum(rows.features) if rows.products else CellSum(rows.features)
        direct = price_stage(Stage(Sum(plain)), measured.context.privacy, measured.context)
        once = max(scale * step for scale, step in zip(direct.law.scales, direct.steps, strict=True))
        mean = one / np.sqrt(self.replicates)
        return "\n".join(
            [
                measured.describe(),
                f"replicates   {self.replicates}: noise of one {one:.6g}, of their mean {mean:.6g}, which is "
                f"{mean / once:.4g} times that of a single release of the same sums at the same price",
                f"balance      replicates tell a mean's sampling error well from {3 * one**2:,.0f} rows on, if values "
                "are spread evenly over their bounds; with fewer rows take fewer replicates",
                "instead      a direct procedure, where there is one (mean, total, proportion; ols by rounds, whose "
                "errors are robust), knows its variance better: with few rows its intervals are much narrower",
            ]
        )

    # Inference

    def reads(self, other: Procedure) -> bool:
        """Whether a release holds sums of the same columns and rows; its replicates and weights are then used."""
        if type(other) is not type(self) or other.where != self.where:
            return False
        return "~" in self.statistic or other.columns == self.columns

    def infer(self, release: Release | None = None) -> BootstrapResults:
        """Infer from a release of this question, or of one that holds the same sums: free, and without any row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release was made for another question, or does not hold what the statistic needs.
        """
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, Bootstrap)
        held = theirs.plan(found.schema)
        asked = replace(theirs, statistic=self.statistic).plan(found.schema)
        inference = self._inference(found, held, asked)
        notes = _notes(held, asked)
        if asked.regression:
            return BootstrapResults(
                inference,
                found,
                model_name="Private OLS, bootstrap",
                response=asked.response,
                notes=notes,
                design=FormulaDesign(found.schema, asked.compiled.design),
            )
        return BootstrapDescription(
            inference,
            found,
            model_name="Private bootstrap",
            response=asked.response,
            notes=notes,
            quantity=asked.statistic if asked.statistic in STATISTICS else "estimate",
        )

    def _inference(self, release: Release, measured: BootstrapPlan, asked: BootstrapPlan) -> BootstrapInference:
        """Return the estimates that are asked for, from the sums that were measured."""
        statistic = measured.statistic_of(asked)
        nobs = float(release.nobs) if release.nobs is not None and measured.rows.keeps_every_row else None
        if nobs is not None and asked.statistic == "total":
            statistic = PublicTotal(replace(asked, statistic="mean"), nobs)
        sums = _replicate_sums(release, measured)
        return BootstrapInference(
            names=asked.names,
            sums=sums,
            statistic=statistic,
            nobs=float(sums.mean[0]) if nobs is None else nobs,
            nobs_is_public=nobs is not None,
            target=self.target,
            method="fiducial" if self.inference == "auto" else self.inference,
            conservative=self.conservative,
            unstable=_unstable(sums, measured, asked),
        )


@suggests
def bootstrap(
    columns: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    statistic: str = "mean",
    replicates: int = 200,
    weights: Resampling = "double_or_nothing",
    where: str | None = None,
    target: str = "population",
    inference: str = "auto",
    conservative: float = 0.05,
    seed: int = 0,
) -> Bootstrap:
    """Bootstrap means, ratios, correlations or coefficients, with the privacy noise counted in their errors.

    Parameters
    ----------
    columns : str or sequence of str
        Numeric columns or expressions of them; for proportions conditions, Boolean or categorical columns. Or a formula
        ``"y ~ x"``, and no statistic.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    statistic : str
        "mean", "total", "proportion", "variance", "std", "cov", "corr"; a formula such as ``"income ~ age"``, for
        least-squares coefficients; or arithmetic of the columns, which stand for their means: ``"income / age"`` is
        the ratio of means, named ``mean(income) / mean(age)``. The mean of ratios is ``bootstrap("income / age")``,
        named ``mean(income / age)``.
    replicates : int
        Number B of noisy sums. More cost no more budget: the noise of each grows so that all together keep the price.
    weights : {"double_or_nothing", "poisson", "public", "paired"}
        How often a row counts in a replicate. The first two are secret, for add_remove neighbours and a price in `GDP`
        or `ApproxDP`. The others let a row count twice in one replicate of each pair, for a price in `ZCDP`, `GDP` or
        `ApproxDP`, and cost twice as much noise variance: "paired" in secret, for both relations; "public" by position
        and ``seed``, for replace_one neighbours.
    where : str, optional
        A condition on declared columns; other rows count as absent.
    target : {"population", "data"}
        For "data" the rows are the whole population: only noise and the random weights count as error.
    inference : {"auto", "fiducial", "unbiased", "conservative", "most_conservative"}
        Method of intervals, p-values and tests alike. "auto" is "fiducial", which counts what is not known of the
        variance; the others are those of Brawner & Honaker (2018).
    conservative : float
        For "conservative": the probability that too much noise is taken off.
    seed : int
        Of public weights.

    Returns
    -------
    Bootstrap
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError
        If a column, formula or condition cannot be bounded from the schema, before anything is spent.
    OptionError
        If an option has no such value, or the statistic is no function of sums.
    NotProvedError
        On ``measure``, if weights, neighbours and the unit of the price do not fit.

    Notes
    -----
    The claim that B bootstrap releases at rho/B each are rho-zCDP (Brawner & Honaker 2018) is wrong: noise here is
    calibrated to the exact cost of secret weights (`privacy_cost`). A number of rows is released with every replicate.

    One regression has robust standard errors from `ols` at a lower price; the replicates serve whatever is made of the
    same sums.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.bootstrap(["income", "age"], data, statistic="income / age").fit(dpi.GDP(1.0))
    >>> bool(abs(results.params.iloc[0] - 2) < 0.2)
    True
    """
    listed = (columns,) if isinstance(columns, str) else columns
    if not isinstance(listed, Sequence) or not all(isinstance(one, str) for one in listed):
        raise OptionError("columns", columns, "a column, or a list of columns")
    if isinstance(columns, str) and "~" in columns:
        if statistic != "mean":
            raise OptionError("statistic", statistic, "none: the formula given as columns is the statistic")
        listed, statistic = (), columns
    return Bootstrap.asking(locals(), columns=tuple(listed))


@lru_cache(maxsize=32)
def _plan(schema: Schema, **asked: Any) -> BootstrapPlan:
    """Return one plan for equal questions: pricing, running and inference then compile it once."""
    return BootstrapPlan(schema, **asked)


def _replicate_sums(release: Release, measured: BootstrapPlan) -> ReplicateSums:
    width = measured.rows.width
    noise = release.noise_variances[-width:]  # the last replicate's, which are all alike
    return ReplicateSums(
        release.array.reshape(-1, width),
        np.diag(noise),
        weight_variance=POISSON.variance if measured.weights == "poisson" else 1.0,
        paired=measured.rows.in_pairs,
    )


def _unstable(sums: ReplicateSums, measured: BootstrapPlan, asked: BootstrapPlan) -> tuple[str, ...]:
    """Return the reasons why no interval is given, from released numbers alone."""
    found = []
    error = float(np.sqrt(sums.noise_of_mean[0, 0]))
    if asked.statistic != "total" and sums.mean[0] < max(_FEW * error, 2.0):
        found.append(f"the number of rows, {sums.mean[0]:,.0f} with a standard error of {error:,.0f}, may be near zero")
    elif asked.regression:
        width = measured.basis.width
        full, noise = np.zeros((2, width, width))
        upper = np.triu_indices(width)
        full[upper], noise[upper] = sums.mean, np.diag(sums.noise_of_mean)
        full, noise = (part + np.triu(part, 1).T for part in (full, noise))
        design = represent(measured.basis, asked.compiled.design)
        rows = np.linalg.qr(design.T)[0].T
        least = float(np.linalg.eigvalsh(rows @ full @ rows.T)[0])
        if least < _RELIABLE * noise_level(noise, rows):
            found.append("the regressors' cross-products are hardly larger than their noise")
    return tuple(found)


_WORDS = {
    "double_or_nothing": "every row counts twice or not at all, secretly and anew in each",
    "poisson": "every row counts as often as a Poisson variable cut at 6 says, secretly and anew in each",
    "public": "every row counts twice in one and not in the other of each pair, by a public seed and its position",
    "paired": "every row counts twice in one and not in the other of each pair, secretly and anew in each pair",
}


def _notes(measured: BootstrapPlan, asked: BootstrapPlan) -> tuple[str, ...]:
    notes = where_notes(measured.where)
    drawn = _WORDS[measured.weights]
    if measured.schema.people is not None:
        drawn = drawn.replace("every row counts", "the rows of a person together count")
    notes.append(f"{measured.replicates:,} replicates of the noisy sums: {drawn}.")
    if not asked.regression:
        notes.append(f"Values are clamped to their declared bounds ({asked.moments.clamping}).")
    return tuple(notes)
