"""The model of sample-and-aggregate: what runs on the rows of a block. A release holds its name alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import cloudpickle
import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.pickling import called, packed
from dpinfer.procedures.block_estimators import formula_estimator, model_class, probe_names
from dpinfer.schema.balls import region_names, region_of

if TYPE_CHECKING:
    from dpinfer.schema.region import Region
    from dpinfer.schema.schema import Schema

    Formula = str | tuple[str, ...]

__all__ = ["BlockModel", "Link", "PreparedModel", "check_picklable", "native", "own_options", "told_options"]

Link = Literal["identity", "logit", "probit", "log"]

_LINKS: dict[str, Link] = {
    "Logit": "logit",
    "Probit": "probit",
    "Poisson": "log",
    **dict.fromkeys(("OLS", "WLS", "GLS", "RLM", "QuantReg"), "identity"),
}
_NATIVE: dict[str, tuple[str, frozenset[str]]] = {
    "OLS": ("ols", frozenset()),
    "Logit": ("logit", frozenset()),
    "Probit": ("probit", frozenset()),
    "Poisson": ("poisson", frozenset({"offset", "exposure"})),
    "QuantReg": ("quantreg", frozenset()),
    "RLM": ("rlm", frozenset()),
    "GLM": ("glm", frozenset({"family", "offset", "exposure"})),
}
"""By model: the library's own regression, and the options of the model that it has, too."""

_NATIVE_FAMILIES = {
    ("None", "identity"),
    ("Gaussian", "identity"),
    ("Binomial", "logit"),
    ("Binomial", "probit"),
    ("Poisson", "log"),
    ("Gamma", "log"),
    ("NegativeBinomial", "log"),
}
"""Families and links of `glm`, by what a release holds of them."""

_FAMILY_LINKS: dict[str, Link] = {**{link: link for link in get_args(Link)}, "nonetype": "identity"}


@dataclass(frozen=True, eq=False, slots=True)
class PreparedModel:
    """A model, ready for the columns of a schema.

    Attributes
    ----------
    estimator : callable
        ``estimator(frame) -> array_like (p,)``.
    schema : Schema
        The columns that it reads.
    region : Region
        In which its parameters are declared to lie.
    response : str
    link : str or None
        None where the parameters are not the coefficients of one linear predictor.
    """

    estimator: Any
    schema: Schema
    region: Region
    response: str
    link: Link | None


@dataclass(frozen=True, eq=False)
class BlockModel:
    """What is fitted to each block, as the user gave it.

    Attributes
    ----------
    model : statsmodels model class or formula function, or callable
    bounds : Ball, (lower, upper), or mapping
        Of the parameters; see `region_of`.
    names : tuple of str, optional
        Of the parameters.
    model_options, fit_options : mapping
    """

    model: Any
    bounds: Any = None
    names: tuple[str, ...] | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    fit_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model_class(self.model)
        if self.bounds is None:
            region_of(None, ())

    @property
    def called(self) -> str:
        """Name of the model."""
        return str(getattr(model_class(self.model) or self.model, "__name__", type(self.model).__name__))

    @property
    def unidentified(self) -> str:
        """What of it a release does not hold in full, in words."""
        kind = model_class(self.model)
        if kind is None or not kind.__module__.startswith("statsmodels."):
            return f"the model {self.called}"
        objects = [
            name for name, value in {**self.model_options, **self.fit_options}.items() if not _is_plain(_plain(value))
        ]
        return f"the objects {', '.join(objects)}" if objects else ""

    @cached_property
    def _prepared(self) -> dict[tuple[Formula, Schema], PreparedModel]:
        return {}

    def prepared(self, formula: Formula, schema: Schema) -> PreparedModel:
        """Return the model for the columns of a schema; the same object whenever these are the same.

        Raises
        ------
        DPInferError
            If the formula, the region or the names do not suit the model or the schema.
        """
        if (formula, schema) not in self._prepared:
            kind = model_class(self.model)
            found = self._function(formula, schema) if kind is None else self._statsmodels(kind, formula, schema)
            self._prepared[formula, schema] = found
        return self._prepared[formula, schema]

    def _statsmodels(self, kind: type, formula: Formula, schema: Schema) -> PreparedModel:
        estimator = formula_estimator(kind, formula, schema, options=self.model_options, fit_options=self.fit_options)
        names, _ = probe_names(estimator, self.names)
        return PreparedModel(
            estimator,
            estimator.schema,
            region_of(self.bounds, names),
            str(formula).split("~", 1)[0].strip(),
            _link(kind, self.model_options),
        )

    def _function(self, formula: Formula, schema: Schema) -> PreparedModel:
        columns = schema.select((formula,) if isinstance(formula, str) else formula)
        names = self.names if self.names is not None else region_names(self.bounds)
        if not names:
            right = f"the names of what {self.called} returns, or bounds by name: its length must be known"
            raise OptionError("names", None, right)
        if self.model_options or self.fit_options:
            raise OptionError("model_options", "given", "none with a function of your own: use functools.partial")
        return PreparedModel(self.model, columns, region_of(self.bounds, names), self.called, None)


def _link(kind: type, options: Mapping[str, Any]) -> Link | None:
    if kind.__name__ != "GLM":
        return _LINKS.get(kind.__name__)
    return _FAMILY_LINKS.get(type(getattr(options.get("family"), "link", None)).__name__.lower())


def native(model: str, options: Mapping[str, str], link: Link | None) -> str | None:
    """Return the name of the library's own regression that fits a model with such options, if there is one."""
    name, known = _NATIVE.get(model, ("", frozenset()))
    if not name or not set(options) <= known:
        return None
    if model == "GLM" and (options.get("family", "None"), link) not in _NATIVE_FAMILIES:
        return None
    return name


def own_options(name: str, options: object) -> dict[str, Any]:
    """Return a copy of options, so that later changes by the caller do not change the model.

    Raises
    ------
    OptionError
        If they are no mapping.
    """
    if not isinstance(options, Mapping | None):
        raise OptionError(name, type_of(options), "a mapping of argument names to values")
    return dict(options or {})


def told_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as a release stores them: numbers and texts in full, other objects by their type.

    A text that would read as a number, as None, True or False, or as a text in quotes is stored in quotes.
    """
    return {str(name): _told(value) for name, value in options.items()}


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _told(value: object) -> str:
    plain = _plain(value)
    if not _is_plain(plain):
        return str(getattr(value, "__name__", type(value).__name__))
    return repr(str(plain)) if isinstance(plain, str) and _reads_otherwise(plain) else str(plain)


def _reads_otherwise(text: str) -> bool:
    """Whether a text looks like another value, or like a text in quotes."""
    if text in ("None", "True", "False") or text[:1] in ("'", '"'):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_picklable(estimator: Callable[[Any], Any]) -> None:
    """Refuse a model that cannot be sent to another process; call it before anything is spent.

    Raises
    ------
    OptionError
    """
    sent = packed(estimator)
    try:
        cloudpickle.loads(sent)
    except Exception as error:
        right = f"a function that another process can load; here that raised {type(error).__name__}"
        raise OptionError("model", called(estimator), right) from error
