"""A distribution function that a user gives: a law of scipy by name or frozen, or a function; as shares of leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from dpinfer.errors import OptionError
from dpinfer.procedures.leaves import leaf_cuts
from dpinfer.procedures.options import FINITE

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.schema.axes import Axis

__all__ = ["OWN", "GivenCdf", "leaf_shares", "read_cdf"]

OWN = "a function"
"""What a release calls a distribution function that is no law of scipy: it holds its shares of the leaves alone."""

_RIGHT = "the name of a distribution in scipy.stats, a frozen one such as stats.norm(50, 10), or its cdf as a function"


class GivenCdf(NamedTuple):
    """A distribution function: the name of a law of scipy with its arguments, or a function."""

    name: str
    args: tuple[float, ...]
    function: Callable[[Array], Any] | None


def read_cdf(cdf: object, args: object) -> GivenCdf:
    """Read what a user gives.

    Raises
    ------
    OptionError
    """
    numbers = tuple(args) if isinstance(args, Sequence) and not isinstance(args, str) else None
    if numbers is None or not all(map(FINITE.fits, numbers)):
        raise OptionError("args", args, "a tuple of finite numbers: shape parameters, location and scale, as in scipy")
    given = tuple(float(number) for number in numbers)
    if isinstance(cdf, str):
        _law(cdf)
        return GivenCdf(cdf, given, None)
    if given:
        raise OptionError("args", args, "() unless cdf is the name of a distribution")
    law = getattr(cdf, "dist", None)
    if isinstance(law, stats.rv_continuous | stats.rv_discrete) and getattr(stats, law.name, None) is not None:
        shapes, *rest = law._parse_args(*cdf.args, **cdf.kwds)  # type: ignore[attr-defined]
        told = (*shapes, *rest) if isinstance(law, stats.rv_continuous) else (*shapes, rest[0])
        if all(map(FINITE.fits, map(np.float64, told))):
            return GivenCdf(law.name, tuple(float(number) for number in told), None)
    if hasattr(cdf, "cdf"):
        cdf = cdf.cdf
    if not callable(cdf):
        raise OptionError("cdf", cdf, _RIGHT)
    return GivenCdf(OWN, (), cdf)


def _law(name: str) -> Any:
    law = getattr(stats, name, None)
    if not isinstance(law, stats.rv_continuous | stats.rv_discrete):
        raise OptionError("cdf", name, _RIGHT)
    return law


def leaf_shares(axis: Axis, given: GivenCdf) -> Array:
    """Probability of each leaf (m,), as the column's bounds clamp it.

    Whole numbers are cut half-way between them, so that laws of whole numbers keep theirs. A leaf of other numbers
    holds its lower edge, and so a lump of the distribution there, and not its upper one, but for the last. Leaves that
    do not span the bounds hold the values between them alone.

    Raises
    ------
    OptionError
        If it is no distribution function, or gives all leaves nothing.
    """
    cuts = leaf_cuts(axis)
    cuts[int(axis.covers) : -1] = np.nextafter(cuts[int(axis.covers) : -1], -np.inf)
    at = (lambda x: _law(given.name).cdf(x, *given.args)) if given.function is None else given.function
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(at(cuts), dtype=np.float64)
    except Exception as error:
        raise OptionError(
            "cdf", given.name, f"a function of an array of numbers, not one that fails: {error}"
        ) from None
    inside = values.shape == cuts.shape and np.isfinite(values).all()
    if not inside or (np.diff(values) < 0).any() or values[0] < 0 or values[-1] > 1:
        raise OptionError("cdf", given.name, "a distribution function: from 0 to 1, never falling")
    if axis.covers:
        values[0], values[-1] = 0.0, 1.0
    found = np.diff(values)
    if not found.sum() > 0:
        raise OptionError("cdf", given.name, "a distribution with values between the edges")
    return np.asarray(found / found.sum())
