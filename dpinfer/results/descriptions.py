"""Results of descriptions: labelled by group, with the tables and plots that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pandas as pd

from dpinfer.errors import InferenceError, OptionError
from dpinfer.results.base import PrivateResults
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.description_plots import plot_descriptions, plot_table
from dpinfer.results.printing import PrivateSummary, estimate_table, interval_labels, summary_of
from dpinfer.results.summary import explain, header_facts
from dpinfer.results.wording import column_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpinfer.inference.base import Inference
    from dpinfer.release.release import AnyRelease

__all__ = ["CountedTable", "DescriptionResults", "ProportionResults", "TableResults"]


class CountedTable(Protocol):
    """A table of counts that was measured, as results ask it for more."""

    def margin(self, columns: Sequence[str], *, inference: str, target: str) -> TableResults:
        """Infer the counts of some of its columns."""
        ...

    def proportions(self, column: str, by: str | Sequence[str], *, inference: str) -> DescriptionResults:
        """Infer the shares of the levels of a column."""
        ...


class DescriptionResults(PrivateResults):
    """Estimates of means, totals, shares, counts and the like, by group.

    Everything that a regression's results have is here too: ``params``, ``bse``, ``conf_int``, ``t_test`` (for
    differences between groups), ``wald_test``, ``with_inference``.

    Parameters
    ----------
    inference, release, notes
        As in `PrivateResults`.
    model_name : str
        What tables call the estimates, such as "Private mean".
    response : str
        What is described.
    quantity : str
        Name of the column of estimates, such as "mean".
    index : Index
        A label for every parameter: groups, quantities, or both.
    sizes : Series, optional
        Noisy number of rows (or sum of weights) behind every parameter.

    Attributes
    ----------
    index : Index
    sizes : Series or None
    """

    def __init__(
        self,
        inference: Inference,
        release: AnyRelease,
        *,
        model_name: str = "Private description",
        response: str = "",
        notes: Sequence[str] = (),
        quantity: str = "estimate",
        index: pd.Index | None = None,
        sizes: pd.Series | None = None,
    ) -> None:
        super().__init__(inference, release, model_name=model_name, response=response, notes=notes)
        self.quantity = quantity
        self.index = pd.Index(list(inference.names)) if index is None else index
        self.sizes = sizes

    def with_inference(self, method: str) -> Self:
        """Return the same estimates under another method of inference, at no privacy cost.

        Raises
        ------
        OptionError
            Where there is no such method.
        """
        return self._inferred(method)

    def _labels(self) -> dict[str, Any]:
        """Everything but the inference and the release that the results are made of."""
        return {
            "model_name": self._model_name,
            "response": self._response,
            "notes": self._notes,
            "quantity": self.quantity,
            "index": self.index,
            "sizes": self.sizes,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._model_name} of {self._response}, {len(self.index)} estimates>"

    @property
    def estimates(self) -> pd.Series:
        """Estimates labelled by group, where ``params`` has plain names."""
        return pd.Series(self.params.to_numpy(), index=self.index, name=self.quantity)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the one table behind text, HTML and plots.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        DataFrame
            A row per group and quantity; columns: the estimate, "std err", "std err (sampling)", "std err (noise)",
            the ends of the interval, "noise share", and "count" where sizes were released.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        ends = self.conf_int(check_alpha(alpha))
        lower, upper = interval_labels(alpha)
        columns: dict[str, Any] = {
            self.quantity: self.params,
            "std err": self.bse,
            "std err (sampling)": self.bse_sampling,
            "std err (noise)": self.bse_noise,
            lower: ends[0],
            upper: ends[1],
            "noise share": self.noise_share,
        }
        frame = pd.DataFrame({name: np.asarray(values) for name, values in columns.items()}, index=self.index)
        if self.sizes is not None:
            frame["count"] = self.sizes.to_numpy()
        return frame

    def summary(
        self,
        yname: str | None = None,
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> PrivateSummary:
        """Return the summary: header, estimates, guarantee, warnings; see `PrivateResults.summary`."""
        frame = self.summary_frame(alpha)
        names = column_labels(self.release, self._inference.names) if xname is None else list(xname)
        if len(names) != len(frame):
            raise OptionError("xname", names, f"{len(frame)} names")
        left, right = header_facts(self, yname or self._response)
        shown = frame[[*interval_labels(alpha), "noise share"]]
        notes = explain(self, shown, tested=False)
        notes = [note.replace("a coefficient's", "an estimate's") for note in notes]
        title = title or f"{self._model_name} of {self._response}"
        return summary_of(title, left, right, estimate_table(frame, names), notes, self.flags)

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot estimates with intervals, the sampling part told apart from the noise part.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        color : str, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        return plot_descriptions(self, ax, alpha=alpha, color=color)


class ProportionResults(DescriptionResults):
    """Shares of levels; of one categorical column also as the natural parameters of its family."""

    def natural_params(self) -> pd.DataFrame:
        """Return log odds: of truth, or of each level against the first; by the delta method.

        Returns
        -------
        DataFrame
            Columns "estimate" and "std err" (sampling and noise).

        Raises
        ------
        InferenceError
            In groups, or where a share was moved to 0 or 1: its log odds are then infinite.
        """
        shares = self.params.to_numpy()
        total = self._inference.cov_sampling + self._inference.cov_noise
        if self.index.nlevels > 1 or (len(shares) == 1 and self.index.name is not None):
            raise InferenceError("natural parameters are offered for one column without groups")
        if not ((shares > 0) & (shares < 1)).all():
            raise InferenceError("a share was moved to 0 or 1: its log odds are infinite")
        if len(shares) == 1:
            values, slope = np.log(shares / (1 - shares)), np.array([[1 / (shares[0] * (1 - shares[0]))]])
            names = [f"log odds of {self.params.index[0]}"]
        else:
            values = np.log(shares[1:] / shares[0])
            slope = np.column_stack([np.full(len(values), -1 / shares[0]), np.diag(1 / shares[1:])])
            names = [f"log odds of {name} against {self.params.index[0]}" for name in self.params.index[1:]]
        error = np.sqrt(np.diag(slope @ total @ slope.T))
        return pd.DataFrame({"estimate": values, "std err": error}, index=names)


class TableResults(DescriptionResults):
    """Noisy counts of a table, which serve margins and shares too.

    Parameters
    ----------
    inference, release
        As in `DescriptionResults`.
    table : CountedTable, optional
        What answers `margin` and `proportions`.
    **labels
        As in `DescriptionResults`.
    """

    def __init__(
        self, inference: Inference, release: AnyRelease, *, table: CountedTable | None = None, **labels: Any
    ) -> None:
        super().__init__(inference, release, **labels)
        self._table = table

    def _labels(self) -> dict[str, Any]:
        return {**super()._labels(), "table": self._table}

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot the counts: bins as bars over a numeric axis, levels of one column as bars, of several as a heat map.

        Thick parts of intervals are from sampling. Of up to four groups, bins are outlines.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        color : str, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        return plot_table(self, ax, alpha=alpha, color=color)

    def frame(self) -> pd.DataFrame | pd.Series:
        """Return the noisy counts as a table: the last column across, the others down."""
        estimates = self.estimates
        return estimates.unstack(sort=False) if estimates.index.nlevels > 1 else estimates  # noqa: PD010  (of a Series)

    def margin(self, *columns: str) -> TableResults:
        """Return the counts of some of the table's columns, summed over the others; free of cost.

        Raises
        ------
        OptionError
            If what is given is no text.
        MissingFromReleaseError
            If a column is not in the table.
        """
        return self._counted.margin(columns, inference=self._inference.method, target=self._inference.target)

    def proportions(self, column: str, by: str | Sequence[str] = ()) -> DescriptionResults:
        """Return the shares of the levels of a column, in groups of others; free of cost.

        Raises
        ------
        OptionError
            If what is given is no text.
        MissingFromReleaseError
            If a column is not in the table.
        """
        return self._counted.proportions(column, by, inference=self._inference.method)

    @property
    def _counted(self) -> CountedTable:
        if self._table is None:
            raise InferenceError("these counts are of no table that was measured")
        return self._table
