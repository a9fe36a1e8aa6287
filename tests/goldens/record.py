"""The record of a case: what goldens.json keeps of it.

Long vectors are kept as a count, the first and last entries and a hash (of integers and noise scales, which are exact)
or a sum (of estimates, which may differ in their last digits).
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import DPInferError
from tests.goldens import observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import dpinfer as dpi
    from tests.goldens.cases import Case

SHOWN = 6
"""Entries up to which a vector of estimates is kept whole."""

NUMBERS = (
    *("params", "bse", "bse_noise", "pvalues", "conf_int", "cov_params", "nobs"),
    *("statistic", "pvalue", "dof", "estimate", "proportion_estimate", "selected", "edges", "bins"),
)
CALLS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "interval": ("confidence_interval", lambda results: tuple(results.confidence_interval())),
    "proportion_ci": ("proportion_ci", lambda results: tuple(results.proportion_ci())),
    "frame": ("frame", lambda results: pd.DataFrame(results.frame()).select_dtypes("number")),
    "band_width": ("band_width", lambda results: results.band_width()),
    "quantile": ("quantile", lambda results: results.quantile([0.25, 0.75]).params),
    "accuracy": ("accuracy", lambda results: results.accuracy()),
    "integrated_error": ("integrated_squared_error", lambda results: results.integrated_squared_error.variance),
    "expected_freq": ("expected_freq", lambda results: results.expected_freq),
}
"""What is kept besides, for results that have a method of this name."""


def record(case: Case) -> dict[str, Any]:
    """Compute what is kept of a case; one that is refused keeps the name of the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kept = _record(case)
        except DPInferError as error:
            return {"refused": type(error).__name__}
    told = sorted({one.category.__name__ for one in caught})
    return kept | ({"warns": told} if told else {})


def _record(case: Case) -> dict[str, Any]:
    plan, released = observe.plan(case), observe.released(case)
    by_libm = case.price == "gdp" and (plan.family == "gumbel" or bool(plan.choices))  # whose last bits libraries vary
    floats, cost = (_digits, _rounded) if by_libm else (_floats, _cost)
    kept: dict[str, Any] = {
        "kind": plan.kind,
        "names": _hashed(plan.names),
        "law": f"{plan.family} draws={plan.draws} multiplier={plan.multiplier}",
        "scales": floats(plan.scales),
        "steps": _floats(plan.steps),
        "cost": cost(plan.cost),
        "nobs": released.nobs,
        "results": _inferred(case, released.release),
    }
    if case.ask.iterated:
        stages = released.release.stages
        return (
            kept
            | {
                "scales": [_shares(plan.scales)],  # of a norm that linear algebra finds
                "sums": _integers(released.sums[0]),
                "released": _integers(stages[0].values),
                "later sums": [_shares(one) for one in released.sums[1:]],
                "later released": [_shares(one.values) for one in stages[1:]],
                "settings": [_shares(_flat(one.settings)) for one in stages],
            }
        )
    kept |= {
        "sums": _integers([one for stage in released.sums for one in stage]),
        "released": _integers(released.values),
    }
    if plan.choices:
        kept["choice scales"] = floats(plan.choices)
    if released.settings:
        kept["settings"] = digest(released.settings)
    if released.names != plan.names:
        kept["released names"] = _hashed(released.names)
        kept["released scales"] = floats(released.scales)
    return kept


def _inferred(case: Case, release: dpi.Release) -> list[dict[str, str]] | str:
    try:
        return [_results(one) for one in observe.infer(case, release)]
    except DPInferError as error:
        return f"refused: {type(error).__name__}"


def digest(value: object) -> str:
    """Return the first 16 digits of the SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _shares(values: Sequence[float]) -> str:
    """Count and a few weighted sums of a vector, in parts of its largest entry, to seven decimals."""
    found = np.asarray(values, dtype=np.float64)
    if not found.size:
        return "0"
    largest = float(np.abs(found).max())
    waves = np.cos(np.outer(np.arange(4), np.arange(found.size))) @ found / (largest or 1.0) / math.sqrt(found.size)
    return " ".join([str(found.size), f"{largest:.7e}", *(f"{wave:.7f}" for wave in waves)])


def _flat(value: Any) -> list[float]:
    """Return the numbers in nested settings, in order."""
    if isinstance(value, Mapping):
        return [one for _, part in sorted(value.items()) for one in _flat(part)]
    if isinstance(value, np.ndarray | list | tuple):
        return [one for part in value for one in _flat(part)]
    return [float(value)] if isinstance(value, int | float | np.number) and math.isfinite(value) else []


def _hashed(names: Sequence[str]) -> str:
    return f"{len(names)} {digest(list(names))}"


def _integers(values: Sequence[int]) -> str:
    return f"{len(values)} {digest(list(values))} {' '.join(map(str, values[:3]))}"


def _floats(values: Iterable[float]) -> str:
    """Count, unique count, first and last as exact hexadecimal numbers, and a hash where several differ."""
    texts = [float(value).hex() for value in values]
    several = f" {digest(texts)}" if len(set(texts)) > 1 else ""
    return f"{len(texts)} {len(set(texts))} {texts[0]} {texts[-1]}{several}"


def _digits(values: Iterable[float]) -> str:
    """As `_floats`, but for the last three or four digits."""
    found = [f"{float(value):.12g}" for value in values]
    several = f" {digest(found)}" if len(set(found)) > 1 else ""
    return f"{len(found)} {len(set(found))} {found[0]} {found[-1]}{several}"


def _cost(cost: dict[str, Any]) -> str:
    """Return a hash of the whole cost, and its parts as rounded numbers."""
    return f"{digest(cost)} {_rounded(cost, 6)}"


def _rounded(cost: dict[str, Any], digits: int = 12) -> str:
    """Return the parts of a cost as rounded numbers."""
    parts = {name: float(Fraction(value)) for name, value in cost.items() if isinstance(value, str)}
    return " ".join(f"{name}={value:.{digits}g}" for name, value in parts.items() if value)


def _results(results: Any) -> dict[str, str]:
    kept = {}
    for name in NUMBERS:
        value = _read(results, name)
        if value is not None:
            kept[name] = _estimates(value)
    for name, (method, call) in CALLS.items():
        if hasattr(type(results), method) and not (name == "frame" and "params" in kept):
            kept[name] = _called(call, results)
    return kept


def _read(results: Any, name: str) -> Any:
    """Read an attribute or a method without arguments; None where the results have none."""
    try:
        value = getattr(results, name)
    except AttributeError:
        return None
    return value() if callable(value) else value


def _called(call: Callable[[Any], Any], results: Any) -> str:
    try:
        return _estimates(call(results))
    except DPInferError as error:
        return f"refused: {type(error).__name__}"


def _estimates(value: object) -> str:
    """Ten significant digits of a number or an array, or a text."""
    if isinstance(value, str):
        return value
    numbers = value.to_numpy(dtype=np.float64) if isinstance(value, pd.DataFrame | pd.Series) else value
    flat = np.asarray(numbers, dtype=np.float64).ravel()
    if flat.size <= SHOWN:
        return " ".join(map(_short, flat.tolist()))
    finite = flat[np.isfinite(flat)].tolist()
    total, size = math.fsum(finite), math.fsum(map(abs, finite))
    ends = " ".join(map(_short, [*flat[:2].tolist(), flat[-1].item()]))
    return f"{flat.size} {len(finite)} {ends} {_short(total)} {_short(size)}"


def _short(number: float) -> str:
    return f"{number:.10g}"
