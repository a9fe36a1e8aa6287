"""The public question of a chi-squared test, as Python objects and as JSON."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import DPInferError, NotProvedError, OptionError, ReleaseFormatError
from dpinfer.inference.testing.nulls import Draws, check_draws
from dpinfer.inference.testing.tables import STATISTICS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.schema.axes import Axis

    Array = NDArray[np.float64]

__all__ = ["NULLS", "CountTest", "read_shares", "read_sizes"]

NULLS = ("simulated", "asymptotic")

_SUM = 1e-8
"""Distance from 1 that the sum of given probabilities may have."""

_RAREST = 1e-15
"""Probability that a level has at least: below, squares of counts over expected ones overflow."""

_LARGEST = 2**53
"""Rows that a sample of public size has at most."""


@dataclass(frozen=True)
class CountTest:
    """What is tested on the cells of a table, free of data.

    Attributes
    ----------
    columns : tuple of str
        Names of one axis (goodness of fit) or two (independence: rows, columns).
    p0 : tuple of (label, float), optional
        Probability of every level under the hypothesis; uniform by default. For one axis.
    fixed : str, optional
        The axis whose margin is fixed by design: the other is then compared between samples.
    sizes : tuple of (label, float), optional
        Public sizes of these samples.
    statistic : {"projected", "pearson"}
    null : {"simulated", "asymptotic"}
    draws : "adaptive" or int
    seed : int

    Raises
    ------
    OptionError, NotProvedError
        If an option has no such value, or there is no proof for it.
    """

    columns: tuple[str, ...]
    p0: tuple[tuple[Any, float], ...] | None = None
    fixed: str | None = None
    sizes: tuple[tuple[Any, float], ...] | None = None
    statistic: str = "projected"
    null: str = "simulated"
    draws: Draws = "adaptive"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise OptionError("statistic", self.statistic, STATISTICS)
        if self.null not in NULLS:
            raise OptionError("null", self.null, NULLS)
        check_draws(self.draws, self.seed)
        if self.null == "asymptotic" and self.statistic == "pearson":
            raise NotProvedError(
                "Pearson's statistic of noisy counts has no chi-squared limit: use null='simulated', or "
                "statistic='projected'"
            )
        if self.p0 is not None and len(self.columns) > 1:
            raise OptionError("p0", _shown(self.p0), "None for two columns: their table has no given probabilities")
        if self.fixed is not None and len(self.columns) == 1:
            raise OptionError("fixed", self.fixed, "None for one column")
        if self.fixed is not None and self.fixed not in self.columns:
            raise OptionError("fixed", self.fixed, f"one of {', '.join(self.columns)}, or None")
        if self.sizes is not None and self.fixed is None:
            raise OptionError("sizes", _shown(self.sizes), "None unless fixed= names the samples")

    @property
    def name(self) -> str:
        """The function that asks it."""
        return "chisquare" if len(self.columns) == 1 else "chi2_contingency"

    def check(self, axes: Sequence[Axis], *, laplace: bool, keeps: bool, nobs: int | None = None) -> None:
        """Refuse a table that the test does not fit.

        Parameters
        ----------
        axes : sequence of Axis
        laplace : bool
            Whether the noise is Laplace.
        keeps : bool
            Whether every row is in some cell, so that public sizes are those of the counts.
        nobs : int, optional
            The number of rows where it is public.

        Raises
        ------
        OptionError, NotProvedError
        """
        for axis in axes:
            if len(axis.labels) < 2:
                raise OptionError("column", axis.name, "a column of two levels or more: with one there is no test")
        if laplace and self.null == "asymptotic":
            raise NotProvedError(
                "null='asymptotic' needs Gaussian noise: under a PureDP price the noise is Laplace, and the limit is "
                "not chi-squared; use null='simulated'"
            )
        if len(axes) == 1:
            self.probabilities(axes[0])
        elif self.sizes is not None:
            self._check_sizes(next(axis for axis in axes if axis.name == self.fixed), keeps=keeps, nobs=nobs)

    def _check_sizes(self, axis: Axis, *, keeps: bool, nobs: int | None) -> None:
        total = sum(value for _, value in self.sizes or ())
        self.sample_sizes(axis)
        if not keeps:
            raise NotProvedError(
                "sizes= are those of the counts only where every row is counted: declare missing= and impossible= "
                "constants, without where=, or leave sizes= out and the noisy ones serve"
            )
        if nobs is not None and total != nobs:
            raise OptionError(
                "sizes", _shown(self.sizes or ()), f"sizes that add up to the {nobs:,} rows, not {total:,.0f}"
            )

    def probabilities(self, axis: Axis) -> Array:
        """Probability of every level (d,), in the order of the axis."""
        if self.p0 is None:
            return np.full(len(axis.labels), 1.0 / len(axis.labels))
        return _by_label("p0", self.p0, axis)

    def sample_sizes(self, axis: Axis) -> Array | None:
        """Public size of every sample (r,), in the order of the axis."""
        return None if self.sizes is None else _by_label("sizes", self.sizes, axis)

    def to_dict(self) -> dict[str, Any]:
        """Return the test as a JSON-ready mapping."""
        return {
            "columns": list(self.columns),
            "p0": None if self.p0 is None else [list(pair) for pair in self.p0],
            "fixed": self.fixed,
            "sizes": None if self.sizes is None else [list(pair) for pair in self.sizes],
            "statistic": self.statistic,
            "null": self.null,
            "draws": self.draws,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, stored: object) -> CountTest:
        """Read what `to_dict` wrote.

        Raises
        ------
        ReleaseFormatError
        """
        try:
            return _read_test(stored)
        except (KeyError, TypeError, ValueError, IndexError, DPInferError) as error:
            raise ReleaseFormatError(f"the test of the release is damaged: {error}") from error


def _read_test(stored: Any) -> CountTest:
    columns, p0, sizes = stored["columns"], stored["p0"], stored["sizes"]
    named = isinstance(columns, list | tuple) and all(isinstance(column, str) for column in columns)
    if not named or len(columns) not in (1, 2):
        raise OptionError("columns", columns, "one or two names")
    return CountTest(
        tuple(columns),
        p0=None if p0 is None else read_shares("p0", [pair[1] for pair in p0], [pair[0] for pair in p0]),
        fixed=stored["fixed"],
        sizes=None if sizes is None else read_sizes([pair[1] for pair in sizes], [pair[0] for pair in sizes]),
        statistic=stored["statistic"],
        null=stored["null"],
        draws=stored["draws"],
        seed=stored["seed"],
    )


def _shown(pairs: tuple[tuple[Any, float], ...]) -> object:
    """Numbers as they were given: by label, or in order."""
    return [value for _, value in pairs] if all(label is None for label, _ in pairs) else dict(pairs)


def _by_label(option: str, pairs: tuple[tuple[Any, float], ...], axis: Axis) -> Array:
    """Numbers by level in the order of an axis; positions where no labels were given."""
    right = f"a value for each level of {axis.name!r}: {', '.join(map(str, axis.labels))}"
    given = dict(pairs)
    if all(label is None for label, _ in pairs):
        if len(pairs) != len(axis.labels):
            raise OptionError(option, [value for _, value in pairs], right)
        return np.array([value for _, value in pairs], dtype=np.float64)
    found = {label: given[label] for label in axis.labels if label in given}
    if len(found) < len(axis.labels) or len(given) != len(axis.labels) or len(pairs) != len(axis.labels):
        raise OptionError(option, given, right)
    return np.array([found[label] for label in axis.labels], dtype=np.float64)


def _pairs(option: str, given: object, labels: Sequence[Any] | None, right: str) -> tuple[tuple[Any, float], ...]:
    if labels is None and isinstance(given, Mapping):
        labels, values = list(given), list(given.values())
    elif labels is None and isinstance(given, pd.Series):
        labels, values = given.index.tolist(), given.tolist()
    elif isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        values = list(given)
        labels = [None] * len(values) if labels is None else labels
    else:
        raise OptionError(option, given, right)
    numbers = [value for value in values if isinstance(value, int | float | np.number) and not isinstance(value, bool)]
    if len(numbers) != len(values) or len(values) < 2 or not all(np.isfinite(number) for number in numbers):
        raise OptionError(option, given, right)
    if not all(isinstance(label, Hashable) for label in labels):
        raise OptionError(option, given, right)
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return tuple((label, float(number)) for label, number in zip(plain, numbers, strict=True))


def read_shares(
    option: str, given: object, labels: Sequence[Any] | None = None, *, scaled: bool = False
) -> tuple[tuple[Any, float], ...]:
    """Read probabilities from an array (by position), or a Series or mapping (by level).

    Parameters
    ----------
    option : str
        What the argument is called.
    given : array_like, Series or mapping
    labels : sequence, optional
        Levels of an array.
    scaled : bool
        Whether numbers of any positive sum are brought to sum 1.

    Raises
    ------
    OptionError
        If they are not positive, do not add up to 1, or a share is below 1e-15.
    """
    right = "positive numbers" if scaled else "positive probabilities that add up to 1"
    pairs = _pairs(option, given, labels, right + ", one for each level")
    total = sum(value for _, value in pairs)
    if min(value for _, value in pairs) <= 0:
        raise OptionError(option, given, right + ": a level of probability 0 is ruled out by one row, not by a test")
    if not scaled and abs(total - 1) > _SUM:
        raise OptionError(option, given, f"{right}, not to {'more' if total > 1 else 'less'}")
    if min(value for _, value in pairs) / total < _RAREST:
        raise OptionError(option, given, f"{right}, each a share of at least {_RAREST:g}")
    return tuple((label, value / total) for label, value in pairs)


def read_sizes(given: object, labels: Sequence[Any] | None = None) -> tuple[tuple[Any, float], ...]:
    """Read public sizes of samples; as `read_shares`.

    Raises
    ------
    OptionError
    """
    right = f"positive whole numbers up to {_LARGEST:.3g}, one for each sample"
    pairs = _pairs("sizes", given, labels, right)
    if not all(1 <= value <= _LARGEST and value == round(value) for _, value in pairs):
        raise OptionError("sizes", given, right)
    return pairs
