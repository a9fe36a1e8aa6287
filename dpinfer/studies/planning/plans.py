"""The plan of a study: the price, the rows, or what they give, before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from dpinfer.display.progress import check_progress, watch
from dpinfer.errors import DPInferError, OptionError, type_of
from dpinfer.kernel.stage import Data
from dpinfer.privacy.units import GDP, NEIGHBORS, ZCDP, ApproxDP, Privacy, PureDP
from dpinfer.procedures.procedure import Procedure
from dpinfer.schema.schema import Schema
from dpinfer.studies.planning.forecasts import Asked
from dpinfer.studies.planning.shared import share_budget
from dpinfer.studies.planning.solving import START, Work
from dpinfer.studies.power_search import amounted
from dpinfer.studies.power_truth import is_number, is_whole

if TYPE_CHECKING:
    from dpinfer.privacy.units import Neighbors
    from dpinfer.studies.planning.answer import Plan
    from dpinfer.studies.planning.shared import SharedPlan

__all__ = ["plan"]

_USUAL = (0.1, 1.0, 0.01, 10.0, 0.001, 100.0)
"""Amounts of a unit from which a search starts: the first that the question takes."""

_FITS = "fits of public rows"


def plan(
    procedure: Procedure | Sequence[Procedure],
    *,
    schema: Schema | None = None,
    n: int | None = None,
    privacy: Privacy | None = None,
    unit: type[Privacy] | Privacy | None = None,
    width: Any = None,
    power: Any = None,
    rmse: Any = None,
    relative: Any = None,
    alpha: float = 0.05,
    assurance: float = 0.5,
    pilot: Any = None,
    neighbors: Neighbors | None = None,
    budget: Privacy | None = None,
    weights: Sequence[float] | None = None,
    seed: int = 0,
    progress: bool | None = True,
) -> Plan | SharedPlan:
    """Plan a question before it is paid for: of rows, price and precision, the one that is missing.

    Nothing is charged, and no confidential row is read, even where the question is bound to data.

    Parameters
    ----------
    procedure : Procedure, or sequence of Procedure
        What is to be asked, such as ``dpi.ols("income ~ age")``, bound to data or not. Several share ``budget``.
    schema : Schema, optional
        Needed where the question is not bound.
    n : int, optional
        Number of rows: public, planned, or as an earlier release told. Of bound data whose number of rows is public,
        and of a pilot release, it is known where nothing else is missing.
    privacy : Privacy, optional
        The price.
    unit : type of Privacy, or Privacy, optional
        In which unit a price is sought; of `ApproxDP` an amount, whose delta is kept. By default that of the ledger
        where the question is bound to confidential data (`GDP` for an `ApproxDP` ledger), else `ZCDP`.
    width : float or mapping of term to float, optional
        Full width of intervals of level ``1 - alpha`` that is allowed.
    power : float or mapping of term to (effect, power), optional
        Power of the two-sided test of zero that is asked for, where the true value is ``effect``; without an effect it
        is the population's own. Of a test its power against the population.
    rmse : float or mapping of term to float, optional
        Root mean squared error that is allowed.
    relative : float or mapping of term to float, optional
        Width that is allowed over that without privacy on the same number of rows; above 1.
    alpha : float
    assurance : float
        Probability with which widths are to be reached: .5 asks for their median.
    pilot : optional
        The population: a `Release` of the question that is already paid for; `PublicData` or a frame of similar public
        rows, drawn from with replacement; or a function ``generate(rng, n)``. By default the schema's uniform
        population, which the answer says; a test needs a pilot, for its hypothesis may hold there. Of a test also what
        is true, as `power` takes it.
    neighbors : {"add_remove", "replace_one"}, optional
        By default that of the data, else "add_remove".
    budget : Privacy, optional
        With several questions: what they share.
    weights : sequence of float, optional
        With several questions: the weighted sum of relative widths is least, instead of the largest of them.
    seed : int
        Public; the noise of a release has none.
    progress : bool or None
        Whether a progress bar is shown where rows are fitted one data set after the other; None as
        `dpinfer.show_progress` says.

    Returns
    -------
    Plan, or SharedPlan
        Of several questions the latter.

    Raises
    ------
    OptionError
        If not exactly one of ``n``, ``privacy`` and the targets is missing (``n`` and ``privacy`` alone give width and
        power); if a term is unknown or a target no positive number; if no price, or no number of rows, reaches it: the
        message says what sampling alone gives, and how many rows would do.
    UnknownColumnError
        If the pilot lacks a column.
    DPInferError
        If the question cannot be measured at such a price, or a pilot says nothing of it.

    Notes
    -----
    Widths are those of the library's own inference on simulated releases: sums of data sets that are drawn from the
    population, with noise of the scale that the kernel states. The same random numbers serve every price, so that the
    search follows a smooth curve. See the page on planning for formulas and measured limits.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> found = dpi.plan(dpi.mean("age"), schema=schema, n=2000, width=3.0)
    >>> 0.0005 < found.privacy.rho < 0.005
    True
    """
    given = {"width": width, "power": power, "rmse": rmse, "relative": relative}
    asked = [procedure] if isinstance(procedure, Procedure) else procedure
    if not (isinstance(asked, Sequence) and asked and all(isinstance(one, Procedure) for one in asked)):
        raise OptionError("procedure", type_of(procedure), 'a question such as dpi.ols("y ~ x"), or several')
    _check_numbers(alpha, assurance, seed)
    check_progress(progress)
    public = _Public.read(asked[0], schema, neighbors, unit, privacy if privacy is not None else budget)
    if isinstance(procedure, Procedure):
        if budget is not None or weights is not None:
            raise OptionError(
                "budget",
                budget if weights is None else type_of(weights),
                "several questions that share it; one has a price",
            )
        with watch(_FITS, progress=progress) as counted:
            work = Work(public.asked(procedure, alpha, seed, counted), public.nobs, pilot, assurance)
            return work.answered(n, privacy, given)
    named = {"privacy": privacy, **given}
    for name, value in named.items():
        if value is not None:
            raise OptionError(name, type_of(value), "None: several questions share budget=, for their widths")
    if assurance != 0.5:
        raise OptionError("assurance", assurance, "0.5: several questions share budget= by median widths")
    _check_alike(asked)
    if not isinstance(budget, Privacy):
        raise OptionError("budget", budget, "what the questions share, such as ZCDP(1.0)")
    with watch(_FITS, progress=progress) as counted:
        works = [Work(public.asked(one, alpha, seed, counted), public.nobs, pilot, assurance) for one in asked]
        return share_budget([one.outlook for one in works], [one.text for one in works],
                            works[0].rows(n), budget, weights, works[0].about)  # fmt: skip


def _check_numbers(alpha: Any, assurance: Any, seed: Any) -> None:
    for name, value in (("alpha", alpha), ("assurance", assurance)):
        if not (is_number(value) and 0 < value < 1):
            raise OptionError(name, value, "a number between 0 and 1")
    if not (is_whole(seed) and seed >= 0):
        raise OptionError("seed", seed, "a whole number, not negative")


def _check_alike(asked: Sequence[Procedure]) -> None:
    """Refuse questions that are bound to data of several schemas or relations, of which a plan knows one."""
    bound = [one.source for one in asked if isinstance(one.source, Data)]
    if any((one.schema, one.neighbors) != (bound[0].schema, bound[0].neighbors) for one in bound):
        raise OptionError("procedure", type_of(asked), "questions that are bound to data of one schema and neighbors")


@dataclass(frozen=True, eq=False)
class _Public:
    """What is public about a study: schema, relation, number of rows where known, and a price of the unit sought."""

    schema: Schema
    neighbors: Neighbors
    nobs: int | None
    kind: Privacy

    @classmethod
    def read(cls, procedure: Procedure, schema: Any, neighbors: Any, unit: Any, price: Any) -> _Public:
        """Read it from the arguments and from what a question is bound to."""
        source = procedure.source
        bound = source if isinstance(source, Data) else None
        if schema is None and source is not None:
            schema = source.schema
        if not isinstance(schema, Schema):
            raise OptionError("schema", type_of(schema), "a Schema, or a question that is bound to data")
        if neighbors is None:
            neighbors = "add_remove" if source is None else source.neighbors
        if neighbors not in NEIGHBORS:
            raise OptionError("neighbors", neighbors, NEIGHBORS)
        if price is not None and not isinstance(price, Privacy):
            raise OptionError("privacy", price, "an amount such as ZCDP(0.1)")
        return cls(schema, neighbors, None if bound is None else bound.nobs, _kind(unit, bound, price))

    def asked(self, procedure: Procedure, alpha: float, seed: int, watch: Any) -> Asked:
        """Return what is planned, with a price that the question takes."""
        plain = replace(procedure, source=None)
        plain.check(self.schema, self.neighbors)
        usual = [self.kind, *(amounted(self.kind, amount) for amount in _USUAL)]
        first: DPInferError | None = None
        for price in usual:
            asked = Asked(plain, self.schema, self.neighbors, float(alpha), int(seed), price, watch)
            try:
                read = {*asked.measured(START, price).columns, *asked.columns_read}
            except DPInferError as error:
                first = first or error
            else:
                kept = [name for name in self.schema if name in read] or list(self.schema)[:1]
                return replace(asked, schema=self.schema.select(kept))
        raise cast("DPInferError", first)


def _kind(unit: Any, bound: Any, price: Privacy | None) -> Privacy:
    """Return an amount of the unit in which a price is sought."""
    right = "ZCDP, GDP or PureDP, or an amount such as ApproxDP(1.0, 1e-6)"
    named = any(unit is one for one in (ZCDP, GDP, PureDP))
    if not (unit is None or named or isinstance(unit, Privacy)):
        raise OptionError("unit", unit, right)
    if price is not None:
        return price
    if unit is None:
        ledger = getattr(bound, "ledger", None)
        unit = ZCDP if ledger is None else type(ledger.budget)
        unit = GDP if unit is ApproxDP else unit
    if isinstance(unit, Privacy):
        return amounted(unit, _USUAL[0])
    found: Privacy = cast("Any", unit)(_USUAL[0])
    return found
