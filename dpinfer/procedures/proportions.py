"""Proportions: by counts of levels, and exactly by one Tulap count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.inference.exact_proportion import EXACT_METHODS, ExactProportion, batch_exact, exact_oracle
from dpinfer.inference.moment_inference import METHODS
from dpinfer.procedures.description import Description, Proportion
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import TARGET, inferred, one_of
from dpinfer.procedures.successes import OfSuccesses
from dpinfer.procedures.table_axes import axes_of
from dpinfer.release.laws import TULAP_GRID
from dpinfer.results.descriptions import DescriptionResults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.inference.released import Released
    from dpinfer.kernel.stage import Data
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

__all__ = ["ExactProportionModel", "Proportion", "proportion"]


@dataclass(frozen=True, eq=False)
class ExactProportionModel(OfSuccesses):
    """One proportion with an exact interval. See `proportion` with ``inference="exact"``."""

    procedures = ("exact_proportion",)
    asked_by = 'inference="exact"'
    instead = "{}"
    instead_of_dropping = 'inference="score"'

    target: str = inferred("population", TARGET)
    inference: str = inferred("exact", one_of(EXACT_METHODS))

    def check_options(self) -> None:
        """Refuse to take the rows as the whole population."""
        if self.target == "data":
            raise NotProvedError('an exact interval is about a population; for target="data" use inference="score"')

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"proportion of {self.column}, exactly"

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question: free, and without any row."""
        found, _ = self._asked_of(release)
        size = found.nobs or 0
        estimated = ExactProportion(
            count=float(found.array[0]),
            size=size,
            noise_scale=found.law.scales[0] / TULAP_GRID,
            names=(self.column,),
        )
        return DescriptionResults(
            estimated.with_method(self.inference),
            found,
            model_name="Private proportion",
            response=self.column,
            quantity="proportion",
            sizes=pd.Series([float(size)]),
        )

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        if contrasts or released.nobs is None:
            raise OptionError("contrasts", contrasts, "none, where the number of rows is public")
        return batch_exact(
            released.values[:, 0],  # noqa: PD011
            size=released.nobs,
            noise_scale=released.law.scales[0] / TULAP_GRID,
            names=(self.column,),
            alpha=alpha,
            method=self.inference,
        )

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,  # noqa: ARG002
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; see `OLS.oracle`."""
        scale = released.law.scales[0] / TULAP_GRID
        count = float(released.values[0, 0])  # noqa: PD011
        return exact_oracle(count, sampling=sampling, size=released.nobs or 0, noise_scale=scale, alpha=alpha)


@suggests
def proportion(
    column: str,
    data: Data | Release | None = None,
    *,
    by: str | Sequence[str] = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description | ExactProportionModel:
    """Shares of the levels of a column, by group.

    Parameters
    ----------
    column : str
        A Boolean or a condition such as ``"income > 50000"`` (its share of truth), or a Category or short Integer (the
        share of every level).
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of a table or marginals that hold the columns, which costs
        nothing more.
    by, where
        As in `mean`.
    weights : str, optional
        As in `mean`; for a Boolean or a condition.
    target : {"population", "data"}
        As in `mean`.
    inference : {"auto", "score", "wald", "simulated", "exact"}
        "auto" is "score": Wilson's interval with the noise counted. "exact" releases one count with Tulap noise
        (discrete Laplace noise and a uniform fraction) and inverts its exact distribution: it needs a `PureDP` price,
        replace_one, no groups, and declared constants for missing and impossible cells, so that every row is a
        success or not.
    replicates, seed : int
        For ``inference="simulated"``.

    Returns
    -------
    Description or ExactProportionModel

    Raises
    ------
    NotProvedError
        If an exact interval is asked for where it is not proved.
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As `mean`.

    References
    ----------
    Awan & Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(smokes=dpi.Boolean(missing=False, impossible=False))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"smokes": rng.random(100) < 0.2}), schema, rng=rng, neighbors="replace_one")
    >>> results = dpi.proportion("smokes", data, inference="exact").fit(dpi.PureDP(1.0))
    >>> bool(0 < results.conf_int()[0].iloc[0] < 0.2 < results.conf_int()[1].iloc[0])
    True
    """
    if not isinstance(column, str):
        raise OptionError("column", column, 'a column, or a condition such as "age >= 18"')
    if inference in EXACT_METHODS[:1]:
        given = {"by": by or None, "where": where, "weights": weights}
        for name, value in given.items():
            if value is not None:
                raise NotProvedError(f'{name}= has no exact interval; use inference="score" or "simulated"')
        return ExactProportionModel(source=data, column=column, target=target)
    if inference not in METHODS:
        raise OptionError("inference", inference, (*METHODS, "exact"))
    if weights is not None:
        return Description.asking(locals(), kind="mean", columns=(column,), axes=axes_of(by))
    return Proportion.asking(locals(), axes=(*axes_of(by), *axes_of(column)))
