"""Which marginals are asked for: a public list of sets of columns, with weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError, named, type_of
from dpinfer.kernel.rows.marginals import MOST_COLUMNS, MOST_SUBSETS
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import is_number, is_text, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    Weights = Mapping[Any, float] | Sequence[float] | None

__all__ = ["Workload", "read_workload", "workload"]

_MARGINALS = 'a list of marginals such as [["race", "sex"], ["sex", "educ"]], or a workload(...)'
_RANGES = ("prefix", "prefixes", "range", "ranges", "cdf", "intervals")


@dataclass(frozen=True)
class Workload:
    """Marginals and how much each counts: a public description, made by `workload`.

    Attributes
    ----------
    marginals : tuple of tuple of str
        Columns of each.
    weights : tuple of float
        Positive; one for each.
    """

    marginals: tuple[tuple[str, ...], ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.marginals or len(self.marginals) > MOST_SUBSETS:
            told = f"{len(self.marginals):,} marginals" if self.marginals else "no marginal"
            raise OptionError("workload", told, f"1 to {MOST_SUBSETS:,} marginals: {_MARGINALS}")
        for marginal in self.marginals:
            if not marginal or not all(map(is_text, marginal)):
                raise OptionError("workload", list(marginal), "marginals of one column or more each, as texts")
            if len({*marginal}) < len(marginal):
                raise OptionError("workload", ", ".join(marginal), "each column once in a marginal")
        sets = [frozenset(marginal) for marginal in self.marginals]
        twice = [marginal for place, marginal in enumerate(self.marginals) if sets[place] in sets[:place]]
        if twice:
            raise OptionError("workload", ", ".join(twice[0]), "each marginal once, whatever the order of its columns")
        if len(self.columns) > MOST_COLUMNS:
            raise OptionError("workload", f"{len(self.columns)} columns", f"at most {MOST_COLUMNS} columns")
        right = all(is_number(one) and 0 < one < np.inf and 1e-9 <= one <= 1e9 for one in self.weights)
        if len(self.weights) != len(self.marginals) or not right:
            raise OptionError("weights", list(self.weights)[:10], "a positive number for each marginal, 1e-9 to 1e9")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order in which they are named."""
        return tuple(dict.fromkeys(column for marginal in self.marginals for column in marginal))

    def __len__(self) -> int:
        return len(self.marginals)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.marginals)

    def __repr__(self) -> str:
        return f"<Workload: {len(self)} marginals of {len(self.columns)} columns>"


@suggests
def workload(columns: Sequence[str], *, ways: int | Sequence[int] = 2, weights: Weights = None) -> Workload:
    """Name the tables that `marginals` measures: of all pairs of columns, say, and how much each counts.

    Parameters
    ----------
    columns : sequence of str
        Category, Boolean or short Integer columns, conditions such as ``"age >= 18"``, or numeric columns that
        `marginals` is given ``bins`` for.
    ways : int or sequence of int
        Columns in each marginal: 2 for all pairs, (1, 2) for all single columns and pairs.
    weights : mapping of columns to number, or sequence, optional
        How much the errors of a marginal count beside the others'; by default 1. A mapping has a column, or a tuple of
        columns in any order, as its keys; marginals that it does not name have weight 1.

    Returns
    -------
    Workload

    Raises
    ------
    OptionError
        If a column is named twice, ``ways`` are none that the columns have, or a weight is not positive.
    NotProvedError
        If ranges are asked for: `cdf` and `quantile` serve these.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> list(dpi.workload(["race", "sex", "educ"], weights={("educ", "sex"): 4}))
    [('race', 'sex'), ('race', 'educ'), ('sex', 'educ')]
    """
    listed = texts_of(columns)
    if isinstance(columns, str) or not listed or not all(map(is_text, listed)):
        raise OptionError("columns", columns, 'a list of columns such as ["race", "sex", "educ"]')
    if len({*listed}) < len(listed):
        raise OptionError("columns", list(listed)[:10], "different columns")
    if isinstance(ways, str) and ways.lower() in _RANGES:
        raise NotProvedError(
            f"ways={ways!r}: marginals of ranges need another strategy than contrasts of levels; cdf(column) and "
            "quantile(column, q=) release a numeric column's ranges from one tree of counts, by=groups"
        )
    each = (ways,) if isinstance(ways, int) else tuple(ways) if isinstance(ways, Sequence) else ()
    right = each and all(type(one) is int and 1 <= one <= len(listed) for one in each)
    if not right or len({*each}) < len(each):
        raise OptionError("ways", ways, f"a number of columns, or several, from 1 to {len(listed)}")
    if sum(comb(len(listed), one) for one in each) > MOST_SUBSETS:
        raise OptionError("ways", ways, f"at most {MOST_SUBSETS:,} marginals")
    return read_workload([marginal for one in each for marginal in combinations(listed, one)], weights)


def read_workload(given: object, weights: Weights = None) -> Workload:
    """Read a workload, or a list of marginals.

    Raises
    ------
    OptionError
    """
    if isinstance(given, Workload):
        if weights is not None:
            raise OptionError("weights", type_of(weights), "None: those of the workload")
        return given
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise OptionError("workload", given if isinstance(given, str) else type_of(given), _MARGINALS)
    marginals = tuple(texts_of(one) for one in given)
    if not all(marginals):
        raise OptionError("workload", "a marginal of no columns, or of none that are texts", _MARGINALS)
    return Workload(marginals, _read_weights(weights, marginals))


def _read_weights(given: Weights, marginals: tuple[tuple[str, ...], ...]) -> tuple[float, ...]:
    if given is None:
        return (1.0,) * len(marginals)
    if not isinstance(given, Mapping):
        listed = given if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else ()
        numbers = all(map(is_number, listed))
        return tuple(float(one) for one in listed) if numbers else tuple(listed)
    keyed: dict[frozenset[str], Any] = {}
    for name, weight in given.items():
        keyed[frozenset((name,) if isinstance(name, str) else name)] = weight
    unknown = [name for name in keyed if name not in {frozenset(one) for one in marginals}]
    if unknown:
        raise OptionError("weights", " x ".join(map(named, sorted(map(str, unknown[0])))), "marginals of the workload")
    found = [keyed.get(frozenset(one), 1.0) for one in marginals]
    return tuple(float(one) if is_number(one) else one for one in found)
