"""One result, private or ordinary, as a column of a table of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from statsmodels.base.model import LikelihoodModelResults
from statsmodels.base.wrapper import ResultsWrapper

from dpinfer.errors import OptionError, type_of
from dpinfer.results.adapter import DataFreeResults
from dpinfer.results.estimates import PrivateEstimates
from dpinfer.results.wording import format_nobs, short_guarantee

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["KINDS", "Column", "one_line", "read_column"]

KINDS = "results of dpinfer or of statsmodels, with params and bse"
"""What may stand in a table of several results."""


@dataclass(frozen=True, slots=True)
class Column:
    """One result: estimates (p,), what stands below (p,) or (p, 2), p-values (p,), facts; the result if private."""

    label: str
    terms: tuple[str, ...]
    estimates: Array
    below: Array
    pvalues: Array
    facts: dict[str, str]
    private: PrivateEstimates | None


def read_column(one: object, place: str, show: str, alpha: float, stars: bool) -> Column:
    """Read a result.

    Raises
    ------
    OptionError
        If it is none, or lacks what is to be shown.
    """
    right = isinstance(one, (ResultsWrapper, LikelihoodModelResults)) and not isinstance(one, DataFreeResults)
    if not right or any(getattr(one, name, None) is None for name in ("params", "bse")):
        raise OptionError(place, type_of(one), KINDS)
    result: Any = one
    try:
        below = result.bse if show == "std err" else result.conf_int(alpha)
        pvalues = result.pvalues if stars else None
    except (AttributeError, NotImplementedError) as error:
        wanted = "results with standard errors, with intervals to show them and with p-values for stars"
        raise OptionError(place, type_of(one), wanted) from error
    private = one if isinstance(one, PrivateEstimates) else None
    terms = private.inference.names if private else _ordinary_terms(result)
    size, width = len(terms), 1 + (show == "conf_int")
    estimates = _by_equation(result.params)
    limits = np.asarray(below, dtype=np.float64).reshape(-1, 2) if width == 2 else _by_equation(below)
    chances = np.full(size, np.nan) if pvalues is None else _by_equation(pvalues)
    if len(set(terms)) != size or not len(estimates) == len(limits) == len(chances) == size:
        raise OptionError(place, type_of(one), "results with a number for every term, and no term twice")
    label = (private.response or private.model_name) if private else _ordinary_label(result)
    facts = _private_facts(private) if private else _ordinary_facts(result)
    return Column(one_line(label) or "y", terms, estimates, limits, chances, facts, private)


def _by_equation(values: object) -> Array:
    """Return numbers (p,), those of models with several equations (terms, equations) one equation after another."""
    return np.asarray(values, dtype=np.float64).ravel(order="F")


def _ordinary_terms(result: Any) -> tuple[str, ...]:
    params, model = result.params, result.model
    if isinstance(params, pd.Series):
        return tuple(map(str, params.index))
    data = getattr(model, "data", None)
    terms = list(params.index) if isinstance(params, pd.DataFrame) else list(getattr(data, "param_names", ()))
    if np.ndim(params) < 2:
        return tuple(map(str, terms))
    equations = list(params.columns) if isinstance(params, pd.DataFrame) else list(range(np.shape(params)[1]))
    outcomes = getattr(model, "_ynames_map", None)
    if outcomes:  # MNLogit: the first outcome is the base
        equations = [outcomes[place + 1] for place in range(len(equations))]
    return tuple(f"{equation}: {term}" for equation in equations for term in terms)


def _ordinary_label(result: Any) -> str:
    names = getattr(result.model, "endog_names", "")
    return names if isinstance(names, str) else ", ".join(map(str, names))


def _ordinary_facts(result: Any) -> dict[str, str]:
    nobs, rsquared = getattr(result, "nobs", None), getattr(result, "rsquared", None)
    return {
        "Model": type(result.model).__name__,
        "N": "" if nobs is None else f"{nobs:,.0f}",
        "Guarantee": "none (ordinary)",
        "Inference": "wald",
        "R-squared": "" if rsquared is None else f"{rsquared:.3f}",
    }


def _private_facts(result: PrivateEstimates) -> dict[str, str]:
    inference, shares = result.inference, result.noise_share
    ends = dict.fromkeys(_percent(float(share)) for share in (shares.min(), shares.max()))
    return {
        "Model": result.model_name,
        "N": format_nobs(inference),
        "Guarantee": short_guarantee(result.release),
        "Neighbours": str(result.release.neighbors),
        "Noise share": ("-" if all(end[0].isdigit() for end in ends) else " to ").join(ends),
        "Inference": inference.method,
        "R-squared": "" if inference.rsquared is None else f"{inference.rsquared:.3f}",
    }


def _percent(share: float) -> str:
    """Write a share as a whole percentage; neither "0%" of something nor "100%" of less than all."""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 - 1e-12 else f"{share:.0%}"


def one_line(text: object) -> str:
    """Return a text with every run of white space as one blank."""
    return " ".join(str(text).split())
