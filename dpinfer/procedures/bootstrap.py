"""The bootstrap of sums over rows, at its true privacy cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.cells import MOST_SUMS, CellSum
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.stage import Context, Data, Resampled, Stage, Sum
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, POISSON
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.bootstrap import check_inference, infer_bootstrap
from dpinfer.results.bootstrap_question import STATISTICS, WEIGHTS, BootstrapQuestion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.bootstrap import BootstrapResults
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["Bootstrap", "bootstrap"]

_HALF = float(np.sqrt(0.5))
"""Weight of an off-diagonal product; this float is above the true root, the safe side."""

_FINEST = 2**60
_LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}


@dataclass(frozen=True, eq=False)
class Bootstrap(Procedure):
    """A question about functions of sums, measured many times under random weights. See `bootstrap`."""

    columns: tuple[str, ...] = ()
    statistic: str = "mean"
    replicates: int = 200
    weights: str = "double_or_nothing"
    where: str | None = None
    target: str = "population"
    inference: str = "auto"
    conservative: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        check_inference(self.inference, self.conservative, self.target)
        if self.weights not in WEIGHTS:
            raise OptionError("weights", self.weights, WEIGHTS)
        if type(self.replicates) is not int or self.replicates < 2:
            raise OptionError("replicates", self.replicates, "a whole number, at least 2")
        if self.weights == "public" and self.replicates % 2:
            raise OptionError("replicates", self.replicates, "an even number: public weights come in pairs")
        if type(self.seed) is not int or not 0 <= self.seed < 2**63:
            raise OptionError("seed", self.seed, "a whole number from 0 to 2^63 - 1")
        super().__post_init__()
        if isinstance(self.source, Data):
            self._question(self.source.schema).check()

    def _question(self, schema: Schema) -> BootstrapQuestion:
        return BootstrapQuestion(
            schema,
            columns=self.columns,
            statistic=self.statistic,
            replicates=self.replicates,
            weights=self.weights,
            seed=self.seed,
            where=self.where,
            target=self.target,
            options={"inference": self.inference, "conservative": float(self.conservative)},
        )

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "bootstrap"."""
        return "bootstrap"

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums under random weights.

        Raises
        ------
        OptionError
            If replicates are so many that the sums are too many to hold.
        """
        asked = self._question(context.schema)
        rows = asked.rows
        if rows.width * self.replicates > MOST_SUMS // 4:
            raise OptionError("replicates", self.replicates, f"at most {MOST_SUMS // 4 // rows.width:,} of these sums")
        asked.check()
        return Stage(Resampled(rows))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        return self._question(context.schema).to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement, what replicates cost, and the noise of the estimate, before anything is spent.

        Returns
        -------
        str
        """
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        rows = self._question(measured.context.schema).rows
        one = max(scale * step for scale, step in zip(measured.law.scales, measured.steps, strict=True))
        plain = GramSum(rows.features) if rows.products else CellSum(rows.features)
        direct = price_stage(Stage(Sum(plain)), privacy, measured.context)
        once = max(scale * step for scale, step in zip(direct.law.scales, direct.steps, strict=True))
        mean = one / np.sqrt(self.replicates)
        return "\n".join(
            [
                measured.describe(),
                f"replicates   {self.replicates}: noise of one {one:.6g}, of their mean {mean:.6g}, which is "
                f"{mean / once:.4g} times that of a single release of the same sums at the same price",
                f"balance      replicates tell a mean's sampling error well from {3 * one**2:,.0f} rows on, if values "
                "are spread evenly over their bounds; with fewer rows take fewer replicates",
                "instead      a direct procedure, where there is one (mean, total, proportion; ols where errors spread "
                "equally), knows its variance better: with few rows its intervals are much narrower",
            ]
        )

    def infer(self, release: Release | None = None) -> BootstrapResults:
        """Infer from a release of this question, or of one that holds the same sums: free, and without any row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release was made for another question.
        """
        found = self._release(release)
        columns = {} if "~" in self.statistic else {"columns": list(self.columns)}
        self._asked(found, "bootstrap", where=self.where, **columns)
        results: BootstrapResults = infer_bootstrap(
            found,
            statistic=self.statistic,
            inference=self.inference,
            conservative=float(self.conservative),
            target=self.target,
        )
        return results


@suggests
def bootstrap(
    columns: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    statistic: str = "mean",
    replicates: int = 200,
    weights: str = "double_or_nothing",
    where: str | None = None,
    target: str = "population",
    inference: str = "auto",
    conservative: float = 0.05,
    seed: int = 0,
) -> Bootstrap:
    """Bootstrap functions of sums over rows, with the noise and the price that this truly takes.

    Parameters
    ----------
    columns : str or sequence of str
        Numeric columns or expressions of them; for proportions conditions, Boolean or categorical columns. Or a formula
        ``"y ~ x"``, and no statistic.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    statistic : str
        "mean", "total", "proportion", "variance", "std", "cov", "corr"; a formula such as ``"income ~ age"``, for
        least-squares coefficients; or arithmetic of the columns, which stand for their means: ``"income / age"``.
    replicates : int
        Number B of noisy sums. More cost no more budget: the noise of each grows so that all together keep the price.
    weights : {"double_or_nothing", "poisson", "public"}
        How often a row counts in a replicate. The first two are secret, for add_remove neighbours and a price in `GDP`
        or `ApproxDP`. Public ones are for replace_one neighbours and a price in `ZCDP`, `GDP` or `ApproxDP`, and
        cost twice as much noise variance.
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
    if not isinstance(statistic, str):
        raise OptionError("statistic", statistic, f"one of {', '.join(STATISTICS)}, a formula, or arithmetic of means")
    if isinstance(columns, str) and "~" in columns:
        if statistic != "mean":
            raise OptionError("statistic", statistic, "none: the formula given as columns is the statistic")
        listed, statistic = (), columns
    return Bootstrap(
        source=data,
        columns=tuple(listed),
        statistic=statistic,
        replicates=replicates,
        weights=weights,
        where=where,
        target=target,
        inference=inference,
        conservative=conservative,
        seed=seed,
    )
