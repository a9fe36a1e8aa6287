"""The bootstrap of sums over rows, at its exact privacy cost."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
import pandas as pd

from dpinfer.checks import Allowed, are_texts, items_of, one_of, require, whole
from dpinfer.errors import FormulaError, MissingFromReleaseError, OptionError
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.cells import MOST_SUMS, CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.products import GramSum, ReplicateSum, Resampling
from dpinfer.kernel.stage import Context, Data, Resampled, Stage, Sum
from dpinfer.privacy.resampling import POISSON
from dpinfer.procedures.cell_sums import SumPlan
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import TARGET, compiled_where, inferred, measured, told_where, where_notes
from dpinfer.procedures.procedure import Procedure
from dpinfer.release.laws import NoiseLaw
from dpinfer.resampling.inference import BootstrapInference, ReplicateSums
from dpinfer.results.base import PrivateResults
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.schema.basis import build_basis, represent
from dpinfer.schema.columns import Boolean, Category
from dpinfer.schema.expressions import compile_condition, compile_expression, quoted
from dpinfer.schema.formula import CompiledFormula, DesignColumn, FormulaDesign, two_sided
from dpinfer.statistics.arrays import Array, noise_level, symmetric

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.resampling.inference import Statistic
    from dpinfer.schema.grid import Basis
    from dpinfer.schema.schema import Schema


_PRODUCTS = {"variance": "variance", "std": "variance", "cov": "cov", "corr": "corr"}
STATISTICS = ("mean", "total", "proportion", *_PRODUCTS)
"""Named statistics, besides a formula ``"y ~ x"`` and arithmetic of columns, which denote their means."""

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
_SHARE = Allowed(
    lambda given: isinstance(given, float) and 0 < given < 1, "a probability between 0 and 1, both excluded"
)

_WEIGHTS = {
    "double_or_nothing": "every row counts twice or not at all, drawn secretly for each replicate",
    "poisson": "every row counts a Poisson number of times (truncated at 6), drawn secretly for each replicate",
    "public": "every row counts twice in one of each pair and not in the other, by a public seed and its position",
    "paired": "every row counts twice in one of each pair and not in the other, drawn secretly for each pair",
}


@dataclass(frozen=True, eq=False)
class BootstrapPlan:
    """The sums, the number of replicates and the statistic, compiled against a schema.

    Attributes
    ----------
    schema : Schema
    columns : tuple of str
        Numeric expressions; conditions or categorical columns for proportions; empty for a regression.
    statistic : str
        One of `STATISTICS`, a formula, or arithmetic of the columns' means.
    replicates : int
    weights : {"double_or_nothing", "poisson", "public", "paired"}
    seed : int
        Of public weights.
    where : str, optional
    """

    schema: Schema
    columns: tuple[str, ...]
    statistic: str = "mean"
    replicates: int = 200
    weights: Resampling = "double_or_nothing"
    seed: int = 0
    where: str | None = None

    @property
    def regression(self) -> bool:
        """Whether the statistic is a formula."""
        return "~" in self.statistic

    @cached_property
    def compiled(self) -> CompiledFormula:
        """The regression."""
        return two_sided(self.statistic, self.schema)

    @cached_property
    def regressed(self) -> tuple[DesignColumn, ...]:
        """Regressors, then the response."""
        assert self.compiled.response is not None
        return (*self.compiled.design, self.compiled.response)

    @cached_property
    def basis(self) -> Basis:
        """The features whose sums, or cross-products for a regression, are measured."""
        return build_basis(self.regressed, self.schema) if self.regression else self.moments.basis

    @cached_property
    def moments(self) -> SumPlan:
        """The sums of powers that determine the statistic."""
        kind = _PRODUCTS.get(self.statistic, "mean")
        shares = self.statistic == "proportion"
        columns = tuple(condition for condition, _ in self.conditions) if shares else self.columns
        found = SumPlan(kind, self.schema, columns=columns, target="data")
        if not found.expressions:
            raise OptionError("columns", list(self.columns), "at least one column")
        if kind == "corr" and len(columns) < 2:
            raise OptionError("columns", list(self.columns), "two columns or more, for correlations")
        return found

    @cached_property
    def conditions(self) -> list[tuple[str, str]]:
        """Conditions whose shares are estimated, and their names; one per level of a categorical column."""
        found = []
        for column in self.columns:
            declared = self.schema.get(column)
            if isinstance(declared, Category):
                found += [(f"{quoted(column)} == {level!r}", f"{column}={level}") for level in declared.levels]
            elif isinstance(declared, Boolean):
                found.append((quoted(column), column))
            else:
                found.append((compile_condition(column, self.schema).text, column))
        return found

    @cached_property
    def arithmetic(self) -> Arithmetic | None:
        """The statistic as arithmetic of means; None for other statistics."""
        if self.statistic in STATISTICS or self.regression:
            return None
        right = (
            f"one of {', '.join(STATISTICS)}; a formula such as 'y ~ x'; or arithmetic of the columns, which stand for "
            "their means, such as 'income / age'. Only functions of sums over rows can be bootstrapped: a median or a "
            "maximum is not one"
        )
        try:
            found = Arithmetic(self.statistic)
        except FormulaError:
            raise OptionError("statistic", self.statistic, right) from None
        if not found.names or not set(found.names) <= set(self.columns):
            raise OptionError("statistic", self.statistic, f"{right}; columns: {', '.join(self.columns)}")
        return found

    @cached_property
    def rows(self) -> ReplicateSum:
        """The row function."""
        _ = self.arithmetic
        features = Features(self.basis, compiled_where(self.where, self.schema))
        return ReplicateSum(features, self.regression, self.replicates, self.weights, self.seed)

    def check(self) -> None:
        """Compile everything, so that an invalid question is refused before anything is measured."""
        if self.regression:
            represent(self.basis, self.regressed)
            missing = {name for name in self.schema if name in self.rows.features.columns}
            for one in self.columns:
                missing -= {one} if one in self.schema else set(compile_expression(one, self.schema).columns)
            if self.columns and missing:
                raise OptionError(
                    "columns", list(self.columns), f"the formula's columns too: {', '.join(sorted(missing))}"
                )
        _ = self.rows.names, self.names

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the estimates."""
        if self.regression:
            return tuple(column.name for column in self.compiled.design)
        if self.arithmetic is not None:
            return (self.arithmetic.of("mean"),)
        if self.statistic == "proportion":
            return tuple(name for _, name in self.conditions)
        named = self.moments.quantities
        if self.statistic in ("cov", "corr"):
            return tuple(named)
        bare = [one.node.operation == "column" for one in self.moments.expressions]
        return tuple(one if plain else f"{self.statistic}({one})" for one, plain in zip(named, bare, strict=True))

    @property
    def response(self) -> str:
        """The described quantity, which distinguishes the mean of a ratio from the ratio of means."""
        if self.regression:
            return self.regressed[-1].name
        one_each = self.arithmetic is not None or self.statistic in ("mean", "total", "variance", "std")
        return ", ".join(self.names if one_each else self.columns)

    def statistic_of(self, wanted: BootstrapPlan, nobs: float | None) -> Statistic:
        """Return the function from sums of this question's features (R, d) to the estimates of another (R, p).

        If the number of rows is public, it is the same in another sample: totals are then means times this number.

        Raises
        ------
        MissingFromReleaseError
            If the sums do not determine the statistic.
        """
        if wanted.regression:
            if not self.regression:
                raise MissingFromReleaseError("the release holds no cross-products, which a regression needs")
            return partial(_coefficients, represent(self.basis, wanted.regressed))
        if self.regression or wanted.rows.labels != self.rows.labels:
            raise MissingFromReleaseError(
                f"the release holds the sums of {self.text}, which do not give {wanted.text}: measure that"
            )
        return partial(wanted.of_moments, nobs=nobs)

    def of_moments(self, sums: Array, nobs: float | None = None) -> Array:
        """Estimates (R, p) from sums of features (R, d), the number of rows first."""
        width, count = self.rows.width, sums[:, :1]
        law = NoiseLaw("gaussian", (1.0,) * width)
        mixing = self.moments.moment_sums(np.zeros((1, width)), law, np.ones(width)).mixing
        powers = sums @ mixing.T / count
        center, half = self.moments.scaled
        place = {exponent: index for index, exponent in enumerate(self.moments.exponents)}
        unit = np.eye(len(center), dtype=int)
        first = powers[:, [place[(*one, 0)] for one in unit.tolist()]]
        means = center + half * first
        if self.arithmetic is not None:
            named = {text: means[:, index] for index, text in enumerate(self.columns)}
            return self.arithmetic.evaluate(named)[:, None]
        if self.statistic not in _PRODUCTS:
            return np.asarray(means if self.statistic != "total" else (count if nobs is None else nobs) * means)
        pairs = np.array(list(combinations_with_replacement(range(len(center)), 2)))
        left, right = pairs[pairs[:, 0] == pairs[:, 1]].T if _PRODUCTS[self.statistic] == "variance" else pairs.T
        both = [place[(*one, 0)] for one in (unit[left] + unit[right]).tolist()]
        centred = (powers[:, both] - first[:, left] * first[:, right]) * count / (count - 1)
        if self.statistic == "corr":
            own, off = np.sqrt(centred[:, left == right]), left < right
            return np.asarray(centred[:, off] / (own[:, left[off]] * own[:, right[off]]))
        values = centred * half[left] * half[right]
        return np.asarray(np.sqrt(values) if self.statistic == "std" else values)

    @property
    def text(self) -> str:
        """The question in one line."""
        what = f"regression {self.statistic}" if self.regression else f"{self.statistic} of {', '.join(self.columns)}"
        if self.arithmetic is not None:
            what = self.arithmetic.of("mean")
        return f"bootstrap of {what}{told_where(self.where)}"


@dataclass(frozen=True, eq=False)
class Bootstrap(Procedure):
    """A question about functions of sums, measured repeatedly under random weights. See `bootstrap`."""

    procedures = ("bootstrap",)

    columns: tuple[str, ...] = ()
    statistic: str = inferred("mean", _STATISTIC)
    replicates: int = measured(200, _REPLICATES)
    weights: Resampling = measured("double_or_nothing", one_of(get_args(Resampling)))
    where: str | None = measured(None, _WHERE)
    seed: int = measured(0, whole(0, 2**63 - 1, "a whole number from 0 to 2^63 - 1"))
    target: str = inferred("population", TARGET)
    inference: str = inferred("auto", one_of(BootstrapInference.methods))
    conservative: float = inferred(0.05, _SHARE)

    def check_options(self) -> None:
        """Refuse an odd number of replicates with paired weights."""
        if self.weights in ("public", "paired") and self.replicates % 2:
            raise OptionError("replicates", self.replicates, f"an even number: {self.weights} weights come in pairs")

    # The question

    def plan(self, schema: Schema) -> BootstrapPlan:
        """Return the sums and the statistic, compiled against a schema."""
        fields = ("columns", "statistic", "replicates", "weights", "seed", "where")
        return _plan(schema, **{name: getattr(self, name) for name in fields})

    def text(self, schema: Schema) -> str:
        """Describe the question in one line."""
        return self.plan(schema).text

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns, conditions and statistics that do not suit the schema."""
        self.plan(schema).check()

    def resolve(self, context: Context) -> Bootstrap:
        """Return the question without columns listed in addition to a formula, which determines the columns."""
        self.check(context.schema, context.neighbors)
        return replace(self, columns=()) if "~" in self.statistic else self

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums under random weights.

        Raises
        ------
        OptionError
            If there are too many replicates to hold their sums in memory.
        """
        plan = self.plan(context.schema)
        width = plan.rows.width
        if width * self.replicates > _MOST:
            raise OptionError("replicates", self.replicates, f"at most {_MOST // width:,} of these sums")
        plan.check()
        return Stage(Resampled(plan.rows))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, the cost of replicates and the noise, before any budget is spent.

        Returns
        -------
        str
        """
        rows = self.plan(measured.context.schema).rows
        plain = GramSum(rows.features) if rows.products else CellSum(rows.features)
        direct = price_stage(Stage(Sum(plain)), measured.context.privacy, measured.context)
        noises = [np.multiply(priced.law.scales, priced.steps).max() for priced in (measured, direct)]
        one, once = map(float, noises)
        mean = one / np.sqrt(self.replicates)
        return (
            f"{measured.describe()}\n"
            f"replicates   {self.replicates}: noise of one {one:.6g}, of their mean {mean:.6g}, which is "
            f"{mean / once:.4g} times that of a single release of the same sums with the same privacy parameters\n"
            f"balance      replicates estimate a mean's sampling error well from {3 * one**2:,.0f} rows on, if values "
            "are uniform over their bounds; with fewer rows use fewer replicates\n"
            "instead      a direct procedure, where there is one (mean, total, proportion; ols, whose standard errors "
            "are robust), estimates its variance more precisely: with few rows its intervals are much narrower"
        )

    # Inference

    def reads(self, other: Procedure) -> bool:
        """Whether a release has sums of the same columns and rows; its replicates and weights are then used."""
        if type(other) is not type(self) or other.where != self.where:
            return False
        return "~" in self.statistic or other.columns == self.columns

    def infer(self, release: Release | None = None) -> BootstrapResults:
        """Infer from a stored release of this question, or of the same sums, at no further privacy cost.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release was made for another question, or lacks sums that the statistic needs.
        """
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, Bootstrap)
        held = theirs.plan(found.schema)
        wanted = replace(theirs, statistic=self.statistic).plan(found.schema)
        nobs = float(found.nobs) if found.nobs is not None and held.rows.keeps_every_row else None
        statistic, width = held.statistic_of(wanted, nobs), held.rows.width
        noise = np.diag(found.noise_variances[-width:])  # the last replicate's, which are all alike
        variance = POISSON.variance if held.weights == "poisson" else 1.0
        sums = ReplicateSums(found.array.reshape(-1, width), noise, variance, held.rows.in_pairs)
        rows = float(sums.mean[0]) if nobs is None else nobs
        method = "fiducial" if self.inference == "auto" else self.inference
        why, known = unstable(sums, held, wanted), {"nobs": rows, "nobs_is_public": nobs is not None}
        how: dict[str, Any] = {"target": self.target, "method": method, **known}
        inference = BootstrapInference(wanted.names, sums, statistic, self.conservative, why, **how)
        drawn = _WEIGHTS[held.weights]
        if held.schema.people is not None:
            drawn = drawn.replace("every row counts", "the rows of a person together count")
        notes = [*where_notes(held.where), f"{held.replicates:,} replicates of the noisy sums: {drawn}."]
        shown: dict[str, Any] = {"model_name": "Private bootstrap", "response": wanted.response}
        if wanted.regression:
            shown |= {"model_name": "Private OLS, bootstrap", "notes": tuple(notes)}
            design = FormulaDesign(found.schema, wanted.compiled.design)
            return BootstrapResults(inference, found, design=design, **shown)
        notes.append(f"Values are clamped to their declared bounds ({wanted.moments.clamping}).")
        quantity = wanted.statistic if wanted.statistic in STATISTICS else "estimate"
        return BootstrapDescription(inference, found, notes=tuple(notes), quantity=quantity, **shown)


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
    """Bootstrap means, ratios, correlations or coefficients, with standard errors that include the noise.

    Parameters
    ----------
    columns : str or sequence of str
        Numeric columns or expressions of them; for proportions, conditions or Boolean or categorical columns. Or a
        formula ``"y ~ x"``, without ``statistic``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    statistic : str
        "mean", "total", "proportion", "variance", "std", "cov", "corr"; a formula such as ``"income ~ age"``, for
        least-squares coefficients; or arithmetic of the columns, which denote their means: ``"income / age"`` is the
        ratio of means, named ``mean(income) / mean(age)``. The mean of ratios is ``bootstrap("income / age")``, named
        ``mean(income / age)``.
    replicates : int
        Number B of noisy sums. The total privacy loss does not depend on B, since the noise of each sum grows with it.
    weights : {"double_or_nothing", "poisson", "public", "paired"}
        Multiplicity of a row in a replicate. The first two are secret, for add_remove neighbours under `GDP` or
        `ApproxDP`. The others count a row twice in one replicate of each pair, under `ZCDP`, `GDP` or `ApproxDP`, and
        double the noise variance: "paired" in secret, for both kinds of neighbours; "public" by position and ``seed``,
        for replace_one neighbours.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    target : {"population", "data"}
        "data" treats the rows as the whole population: errors include only noise and the random weights.
    inference : {"auto", "fiducial", "unbiased", "conservative", "most_conservative"}
        Method of intervals, p-values and tests. "auto" is "fiducial", which accounts for uncertainty in the variance;
        the others are those of Brawner & Honaker (2018).
    conservative : float
        For "conservative": the probability that too much noise is subtracted.
    seed : int
        Seed of public weights.

    Returns
    -------
    Bootstrap
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError
        If a column, formula or condition cannot be bounded from the schema, before any budget is spent.
    OptionError
        If an option has an invalid value, or the statistic is not a function of sums.
    NotProvedError
        On ``measure``, if weights, neighbours and the privacy definition are incompatible.

    Notes
    -----
    The claim that B bootstrap releases at rho/B each are rho-zCDP (Brawner & Honaker 2018) is wrong: noise here is
    calibrated to the exact privacy loss of secret weights (`privacy_cost`). A number of rows is released with every
    replicate.

    For one regression, `ols` gives robust standard errors at a lower privacy loss; the replicates can be used for every
    statistic of the same sums.

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
    known = isinstance(columns, Sequence) and are_texts(columns)
    require(known, "columns", columns, "a column, or a list of columns")
    if isinstance(columns, str) and "~" in columns:
        require(statistic == "mean", "statistic", statistic, "none: the formula given as columns is the statistic")
        return Bootstrap.asking(locals(), columns=(), statistic=columns)
    return Bootstrap.asking(locals(), columns=items_of(columns))


_plan = lru_cache(maxsize=32)(BootstrapPlan)
"""One plan for equal questions: pricing, running and inference then compile it once."""


def _coefficients(columns: Array, sums: Array) -> Array:
    """Return least-squares coefficients (R, p) from upper triangles of cross-products (R, d).

    ``columns`` (p + 1, width) are the combinations of the features that give the regressors, then the response.
    """
    crossed = columns @ symmetric(sums, columns.shape[1]) @ columns.T
    try:
        return np.asarray(np.linalg.solve(crossed[:, :-1, :-1], crossed[:, :-1, -1:])[..., 0])
    except np.linalg.LinAlgError:
        return np.full((len(sums), len(columns) - 1), np.nan)


def unstable(sums: ReplicateSums, measured: BootstrapPlan, wanted: BootstrapPlan) -> tuple[str, ...]:
    """Return the reasons for reporting no interval, from released numbers alone."""
    found = []
    error = float(np.sqrt(sums.noise_of_mean[0, 0]))
    if wanted.statistic != "total" and sums.mean[0] < max(_FEW * error, 2.0):
        found.append(f"the number of rows, {sums.mean[0]:,.0f} with a standard error of {error:,.0f}, may be near zero")
    elif wanted.regression:
        full, noise = symmetric(np.stack([sums.mean, np.diag(sums.noise_of_mean)]), measured.basis.width)
        rows = np.linalg.qr(represent(measured.basis, wanted.compiled.design).T)[0].T
        least = float(np.linalg.eigvalsh(rows @ full @ rows.T)[0])
        if least < _RELIABLE * noise_level(noise, rows):
            found.append("the regressors' cross-products are hardly larger than their noise")
    return tuple(found)


# Results


class BootstrapResults(PrivateResults):
    """Coefficients with errors from replicates, with all members of `PrivateResults`.

    ``with_inference`` accepts "fiducial" (the default), "unbiased", "conservative" and "most_conservative".
    """

    @property
    def _bootstrap(self) -> BootstrapInference:
        return cast("BootstrapInference", self.inference)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes printed below the tables, in addition to those on the guarantee."""
        method, found = self.inference.method, self._notes
        if method == "conservative":
            found = (*found, f"It subtracts too much noise with probability {self._bootstrap.conservative:g}.")
        if method in ("unbiased", "conservative", "most_conservative"):
            found = (*found, "This interval of Brawner & Honaker (2018) ignores part of the error.")
        return found

    @property
    def replicates(self) -> pd.DataFrame:
        """DataFrame (B, p): the noisy estimate of every replicate, linearised at their mean."""
        found = pd.DataFrame(self._bootstrap.replicated, columns=list(self.inference.names))
        return found.rename_axis(index="replicate")

    @property
    def population_std(self) -> pd.Series:
        """Series (p,): the root of the number of rows times the sampling variance.

        For a mean it is the population standard deviation of the column (Brawner & Honaker 2018, section 7.2).
        """
        return self._series(self._bootstrap.population_std)


class BootstrapDescription(BootstrapResults, DescriptionResults):
    """Means, totals, variances and similar with errors from replicates; see `BootstrapResults`."""


# Arithmetic of named numbers, as text


_FUNCTIONS = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_OPERATORS: dict[type, Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}
_LONGEST, _DEEPEST, _LARGEST = 500, 50, 1e100


@dataclass(frozen=True)
class Arithmetic:
    """An arithmetic expression of named numbers.

    Attributes
    ----------
    text : str
        Numbers, names, ``+ - * / **``, ``log``, ``exp`` and ``sqrt``.

    Raises
    ------
    FormulaError
        If it is anything else.

    Examples
    --------
    >>> float(Arithmetic("2 * a / b").evaluate({"a": np.array(3.0), "b": np.array(4.0)}))
    1.5
    """

    text: str

    def __post_init__(self) -> None:
        _check(self.text, self._tree, 0)

    @cached_property
    def _tree(self) -> ast.expr:
        instead = 'write arithmetic, such as "a / b"'
        if len(self.text) > _LONGEST:
            raise FormulaError(self.text[:50] + "...", f"is longer than {_LONGEST} characters", instead)
        try:
            return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise FormulaError(self.text, "cannot be read", instead) from None

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the expression, sorted."""
        return tuple(sorted({node.id for node in _named(self._tree)}))

    def of(self, function: str) -> str:
        """Return the expression with a function around every name: ``"mean(a) / mean(b)"``."""
        tree = deepcopy(self._tree)
        for node in _named(tree):
            node.id = f"{function}({node.id})"
        return ast.unparse(tree)

    def evaluate(self, values: Mapping[str, Array]) -> Array:
        """Evaluate at values of the names; NaN or infinite where it is undefined."""
        with np.errstate(all="ignore"):
            return np.asarray(_value(self._tree, values), dtype=np.float64)


def _named(tree: ast.expr) -> list[ast.Name]:
    """Return the names of numbers, which are not called as functions."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called]


def _operation(node: ast.expr) -> tuple[Any, list[ast.expr]]:
    """Return the operation and its operands; None if a node is neither arithmetic nor a known function."""
    if isinstance(node, ast.BinOp):
        return _OPERATORS.get(type(node.op)), [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS.get(type(node.op)), [node.operand]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
        return _FUNCTIONS.get(node.func.id), node.args
    return None, []


def _check(text: str, node: ast.expr, depth: int) -> None:
    instead = "use numbers, names, + - * / **, log, exp, sqrt"
    if depth > _DEEPEST:
        raise FormulaError(text, f"is nested more than {_DEEPEST} deep", instead)
    number = isinstance(node, ast.Constant) and isinstance(node.value, int | float) and type(node.value) is not bool
    number = number and abs(node.value) < _LARGEST  # type: ignore[attr-defined]
    function, operands = _operation(node)
    if not (number or function or isinstance(node, ast.Name)):
        raise FormulaError(text, f"{ast.unparse(node)!r} is not arithmetic of means", instead)
    for operand in operands:
        _check(text, operand, depth + 1)


def _value(node: ast.expr, values: Mapping[str, Array]) -> Any:
    if isinstance(node, ast.Constant):
        return np.float64(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return values[node.id]
    function, operands = _operation(node)
    return function(*(_value(operand, values) for operand in operands))
