"""Chi-squared tests of noisy counts: goodness of fit, independence, homogeneity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.descriptions import axes_of, edges_of
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.results.testing.count_question import CountTest, read_shares, read_sizes
from dpinfer.results.testing.tables import ChiSquareResults, infer_count_test, refuse_people

if TYPE_CHECKING:
    from dpinfer.inference.testing.nulls import Draws
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

    Bins = Sequence[float]

__all__ = ["ChiSquare", "chi2_contingency", "chisquare"]


@dataclass(frozen=True, eq=False)
class ChiSquare(Procedure):
    """A chi-squared test of the cells of a table. See `chisquare` and `chi2_contingency`."""

    axes: tuple[Mapping[str, Any], ...] = field(default=())
    test: CountTest = field(default_factory=lambda: CountTest(()))
    where: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.source, Data):
            self._question(self.source.schema).check()

    def _question(self, schema: Schema) -> SumPlan:
        refuse_people(schema)
        question = SumPlan("table", schema, axes=self.axes, where=self.where, target="data", options={})
        self.test.check(question.cells, laplace=False, keeps=question.rows.keeps_every_row)
        return question

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "table": that is what is measured."""
        return "table"

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for an ordinary table."""
        asked = self._question(context.schema)
        asked.check()
        laplace, keeps = isinstance(context.privacy, PureDP), asked.rows.keeps_every_row
        self.test.check(asked.cells, laplace=laplace, keeps=keeps, nobs=context.nobs)
        return Stage(Sum(asked.rows))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        said = f"{self.test.name} of {' and '.join(self.test.columns)}"
        asked = {"asked": self.test.name, "test": self.test.to_dict()}
        text = said + (f", where {self.where}" if self.where else "")
        return {**self._question(context.schema).to_dict(), **asked, "text": text}

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the table that would be measured, its noise, and how large counts must be to be seen over it.

        Returns
        -------
        str
        """
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        spread = float(np.sqrt(measured.law.variances[0])) * measured.steps[0]
        cells = len(measured.law.scales)
        return (
            f"{measured.describe()}\nnoise on each of the {cells} counts: standard deviation {spread:.4g} rows. Cells "
            f"that hold fewer rows tell little; sampling alone moves a cell of {spread**2:.4g} rows by as much."
        )

    def infer(self, release: Release | None = None) -> ChiSquareResults:
        """Test a release of these columns, or of a table that holds them among others: free, and without any row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release holds no such counts, or was made with another ``where``.
        """
        found = self._release(release)
        if found.kind in ("table", "count", "histogram", "proportion"):
            self._asked(found, found.kind, where=self.where)
            self._same_cells(found)
        return infer_count_test(found, self.test)

    def _same_cells(self, release: Release) -> None:
        """Refuse a table whose bins are others than those that were asked for."""
        axes = SumPlan.from_release(release).axes
        stored = {str(axis.get("column", axis.get("condition"))): axis for axis in axes}
        for axis in self.axes:
            name = str(axis.get("column", axis.get("condition")))
            leveled = name in release.schema and release.schema[name].level_texts
            if leveled and "edges" not in axis and "edges" in stored.get(name, {}):
                raise OptionError("bins", None, f"the bins of the release, {stored[name]['edges']}: it has no levels")
            if "edges" in axis and name in stored and list(stored[name].get("edges", ())) != list(axis["edges"]):
                raise OptionError("bins", axis["edges"], f"the bins of the release: {stored[name].get('edges')}")


def _check_name(column: object, option: str) -> None:
    if not isinstance(column, str) or not column.strip():
        raise OptionError(option, column, 'a column, or a condition such as "age >= 18"')


def _axis(column: str, bins: object) -> Mapping[str, Any]:
    if bins is None:
        return axes_of(column)[0]
    return {"column": column, "edges": edges_of(column, bins)}


@suggests
def chisquare(
    column: str,
    data: Data | Release | None = None,
    f_exp: Sequence[float] | Mapping[Any, float] | None = None,
    *,
    p0: Sequence[float] | Mapping[Any, float] | None = None,
    bins: Bins | None = None,
    where: str | None = None,
    statistic: str = "projected",
    null: str = "simulated",
    draws: Draws = "adaptive",
    seed: int = 0,
) -> ChiSquare:
    """Test whether the levels of a column have given probabilities.

    Parameters
    ----------
    column : str
        A Category, Boolean or short Integer, a condition such as ``"age >= 18"``, or a numeric column with ``bins``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of a table that holds the column, which costs nothing more.
    f_exp : array_like, Series or mapping, optional
        Expected frequencies, in any unit: only their proportions count.
    p0 : array_like, Series or mapping, optional
        Expected probabilities: positive, of sum 1; an array follows the declared levels, a Series or mapping is read
        by level. Uniform where neither is given. It must be a public fact: the guarantee does not cover it.
    bins : sequence of float, optional
        Increasing edges within the declared bounds, for a numeric column.
    where : str, optional
        A condition on declared columns; other rows are not counted.
    statistic : {"projected", "pearson"}
        "projected" weighs the counts by the covariance of sampling and noise together, and has most power in most
        designs; "pearson" is the usual sum of squares over expected counts.
    null : {"simulated", "asymptotic"}
        "simulated" draws releases under the hypothesis; "asymptotic" refers the projected statistic with Gaussian
        noise to chi-squared.
    draws : "adaptive" or int
        Simulated releases: "adaptive" stops when the Monte Carlo error of the p-value no longer matters.
    seed : int
        Public seed of the simulation; the privacy noise has none.

    Returns
    -------
    ChiSquare
        Its ``fit(privacy)`` gives `ChiSquareResults`.

    Raises
    ------
    OptionError
        If an argument has no such value: probabilities that are not positive or do not add up to 1 or do not match
        the levels, a column with one level, a statistic that does not exist.
    NotProvedError
        For ``null="asymptotic"`` with Pearson's statistic or, when measured or inferred, with Laplace noise.
    FormulaError, UnknownColumnError, SchemaError
        If the column is not declared, or is numeric without ``bins``.

    References
    ----------
    Kifer & Rogers (2017), A new class of private chi-square hypothesis tests, AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(party=dpi.Category(["a", "b", "c"]))
    >>> rng = np.random.default_rng(1)
    >>> rows = pd.DataFrame({"party": rng.choice(["a", "b", "c"], 5000, p=[0.4, 0.3, 0.3])})
    >>> data = dpi.PublicData(rows, schema, rng=rng)
    >>> test = dpi.chisquare("party", data, p0={"a": 0.4, "b": 0.3, "c": 0.3}).fit(dpi.ZCDP(0.01))
    >>> bool(0.01 < test.pvalue <= 1)
    True
    """
    if f_exp is not None and p0 is not None:
        raise OptionError("f_exp", f_exp, "None where p0= is given: they say the same")
    shares = None
    if f_exp is not None:
        shares = read_shares("f_exp", f_exp, scaled=True)
    elif p0 is not None:
        shares = read_shares("p0", p0)
    _check_name(column, "column")
    axis = _axis(column, bins)
    test = CountTest((column,), p0=shares, statistic=statistic, null=null, draws=draws, seed=seed)
    return ChiSquare(source=data, axes=(axis,), test=test, where=where)


@suggests
def chi2_contingency(
    row: str,
    column: str,
    data: Data | Release | None = None,
    *,
    fixed: str | None = None,
    sizes: Sequence[float] | Mapping[Any, float] | None = None,
    bins: Mapping[str, Bins] | None = None,
    where: str | None = None,
    statistic: str = "projected",
    null: str = "simulated",
    draws: Draws = "adaptive",
    seed: int = 0,
) -> ChiSquare:
    """Test whether two columns are independent, or whether samples have the same distribution.

    Parameters
    ----------
    row, column : str
        Category, Boolean or short Integer columns, conditions such as ``"age >= 18"``, or numeric columns with
        ``bins``.
    data : PrivateData, PublicData or Release, optional
        As in `chisquare`.
    fixed : str, optional
        One of the two, whose margin is fixed by design: samples of the sizes in which its levels were drawn. With two
        samples and a Boolean column this is the test of two proportions. By default no margin is fixed.
    sizes : array_like, Series or mapping, optional
        The sizes of the samples, where they are public and every row is counted; the noisy ones serve otherwise. The
        guarantee does not cover them: neighbouring data sets have other sizes.
    bins : mapping of str to sequence of float, optional
        Increasing edges for numeric columns.
    where, statistic, null, draws, seed
        As in `chisquare`.

    Returns
    -------
    ChiSquare
        Its ``fit(privacy)`` gives `ChiSquareResults`.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As `chisquare`.

    References
    ----------
    Kifer & Rogers (2017), A new class of private chi-square hypothesis tests, AISTATS.
    """
    _check_name(row, "row")
    _check_name(column, "column")
    if row == column:
        raise OptionError("column", column, f"another column than row={row!r}")
    edges = {} if bins is None else bins
    if not isinstance(edges, Mapping) or not set(edges) <= {row, column}:
        raise OptionError("bins", bins, f"a mapping from {row!r} or {column!r} to increasing edges")
    axes = (_axis(row, edges.get(row)), _axis(column, edges.get(column)))
    if fixed not in (None, row, column):
        raise OptionError("fixed", fixed, f"{row!r}, {column!r} or None")
    test = CountTest((row, column), fixed=fixed, statistic=statistic, null=null, draws=draws, seed=seed)
    if sizes is not None:
        test = replace(test, sizes=read_sizes(sizes))
    return ChiSquare(source=data, axes=axes, test=test, where=where)
