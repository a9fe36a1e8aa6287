"""Models fitted to a block: a statsmodels model by formula, or a user-defined function."""

from __future__ import annotations

import inspect
import io
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import cloudpickle
import numpy as np
import pandas as pd
import statsmodels
from patsy import EvalEnvironment
from statsmodels.discrete.discrete_model import Logit, MNLogit, Poisson
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.regression.linear_model import OLS

from dpinfer.checks import of_type
from dpinfer.errors import FormulaError, NotProvedError, OptionError, SchemaError, UnknownColumnError, type_of
from dpinfer.kernel.price import check_columns
from dpinfer.kernel.rows.blocks import OwnEstimator, called, packed
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.columns import Boolean, Category, Integer
from dpinfer.schema.formula import CompiledFormula, DesignColumn, FormulaDesign, compile_formula
from dpinfer.schema.nodes import Expression
from dpinfer.schema.region import Region, region_names, region_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

    Formula = str | tuple[str, ...]


Link = Literal["identity", "logit", "probit", "log"]

_LINKS: dict[str, Link] = {
    "Logit": "logit",
    "Probit": "probit",
    "Poisson": "log",
    **dict.fromkeys(("OLS", "WLS", "GLS", "RLM", "QuantReg"), "identity"),
}

_NATIVE: dict[str, frozenset[str]] = {
    **dict.fromkeys(("OLS", "Logit", "Probit", "QuantReg", "RLM"), frozenset()),
    "Poisson": frozenset({"offset", "exposure"}),
    "GLM": frozenset({"family", "offset", "exposure"}),
}
"""Models that are regressions of the library's own too, and the options of these that it has."""

_NATIVE_FAMILIES: dict[Link | None, tuple[str, ...]] = {
    "identity": ("None", "Gaussian"),
    "logit": ("Binomial",),
    "probit": ("Binomial",),
    "log": ("Poisson", "Gamma", "NegativeBinomial"),
}
"""Families of `glm` by link, as a release stores them."""

_PLAIN = (type(None), bool, int, float, str)
"""Types of options that a release stores in full."""

COLUMN_OPTIONS = ("status", "entry", "strata", "offset", "exposure", "weights", "freq_weights", "var_weights")
"""Arguments of statsmodels' models that hold a value for each row: here the name of a column."""

_DEFAULTS: dict[type, dict[str, Any]] = {OrderedModel: {"method": "bfgs", "skip_hessian": True}}
"""Options of ``fit`` where statsmodels' own default does not converge in small blocks, or computes what is not used."""

_NAMES: Any = {"np": np}
"""What a formula that statsmodels reads may name beside columns."""
if statsmodels.__version__.startswith("0.14."):  # which takes patsy's kind; later versions warn of it
    _NAMES = EvalEnvironment([_NAMES])

_PROBE_ROWS = 1000
_STEPS = 35
_TOLERANCE = 1e-9
_FIRTH_STEPS, _FARTHEST = 100, 3.0
"""Steps to Firth's estimate, which converge linearly, and by how much one may change a linear predictor."""

_DEPENDENT = 1e-10
"""Least eigenvalue of the scaled cross-products below which regressors count as dependent."""

_RIGHT = (
    "a statsmodels model class or formula function, such as smf.logit or OrderedModel, or a function of a DataFrame "
    "that returns a vector"
)


def model_class(model: object) -> type | None:
    """Return the statsmodels class behind a class or formula function; None for another callable.

    Raises
    ------
    OptionError
        If it is a class that takes no formula, or is not callable.
    """
    owner = model if inspect.isclass(model) else getattr(model, "__self__", None)
    if inspect.isclass(model) and not callable(getattr(model, "from_formula", None)):
        raise OptionError("model", model.__name__, _RIGHT + "; this class has no formula interface")
    if inspect.isclass(owner) and (owner is model or getattr(model, "__name__", "") == "from_formula"):
        return owner
    if not callable(model):
        raise OptionError("model", model, _RIGHT)
    return None


_OWN = (Logit, Poisson, OLS)
"""Models that `NewtonEstimator` fits."""


@dataclass(frozen=True, eq=False)
class FormulaEstimator:
    """Fits a statsmodels model to a frame and returns its parameters as one vector.

    Attributes
    ----------
    model : type
        Class of the model.
    formula : str
    schema : Schema
        The columns used.
    compiled : CompiledFormula or None
        The formula compiled row by row; None if statsmodels has to evaluate it in every block.
    response : str or None
        The column with the response levels, for models of several outcomes.
    options, fit_options : mapping
        Of the model and of its ``fit``; a string in one of `COLUMN_OPTIONS` is a column.
    """

    model: type
    formula: str
    schema: Schema
    compiled: CompiledFormula | None
    response: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    fit_options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, frame: pd.DataFrame) -> Array:
        """Return the parameters (p,), outcome by outcome if there are several."""
        return np.ravel(np.asarray(self.results(frame).params, dtype=np.float64), order="F")

    def results(self, frame: pd.DataFrame) -> Any:
        """Fit, and return statsmodels' results."""
        model = self.made(frame)
        chosen = {**_DEFAULTS.get(self.model, {}), **self.fit_options}
        if "disp" in inspect.signature(model.fit).parameters:
            chosen.setdefault("disp", 0)
        return model.fit(**chosen)

    def made(self, frame: pd.DataFrame) -> Any:
        """Return the unfitted statsmodels model of a frame."""
        options = {
            name: frame[value].to_numpy() if name in COLUMN_OPTIONS and isinstance(value, str) else value
            for name, value in self.options.items()
        }
        if self.compiled is None:
            return self.model.from_formula(self.formula, frame, eval_env=_NAMES, **options)  # type: ignore[attr-defined]
        endog, exog = self.design(frame)
        if np.linalg.matrix_rank(exog.to_numpy()) < exog.shape[1]:
            raise ValueError("a coefficient is not determined")  # statsmodels may return one of many solutions
        return self.model(endog, exog, **options)

    def design(self, frame: pd.DataFrame) -> tuple[pd.Series, pd.DataFrame]:
        """Return response (m,) and regressors (m, q) of a frame."""
        assert self.compiled is not None
        values: dict[str, Array] = {}
        for name, column in self.schema.items():
            cells = frame[name].cat.codes if isinstance(column, Category) else frame[name]
            values[name] = np.asarray(cells, dtype=np.float64)
        intercept = self.model not in (PHReg, OrderedModel)
        parts = tuple(part for part in self.compiled.design if intercept or part.name != "Intercept")
        rows = FormulaDesign(self.schema, parts).rows(values, len(frame))
        exog = pd.DataFrame(dict(zip((part.name for part in parts), rows.T, strict=True)), index=frame.index)
        if self.response is None:
            assert self.compiled.response is not None
            found = np.broadcast_to(self.compiled.response.expression.evaluate(values), (len(frame),))
            return pd.Series(found, name=self.compiled.response.name), exog
        labels = pd.Index(LevelsAxis(self.schema, self.response).labels)
        levels = self.schema[self.response].level_index(values[self.response])
        codes: Any = pd.Categorical.from_codes(levels, categories=labels, ordered=True)
        return pd.Series(codes, name=self.response), exog


@dataclass(frozen=True, eq=False)
class NewtonEstimator(FormulaEstimator, OwnEstimator):
    """Logit, Poisson or least squares without the overhead of statsmodels; the parameters are the same.

    It takes Newton steps on a block's own rows. A block without convergence, for instance under separation, has no
    estimate; statsmodels would return the last step and warn.

    Attributes
    ----------
    reduced : bool
        Whether a logit is fitted by Firth's penalised likelihood, if maximum likelihood has an estimate.
    half : bool
        Whether the rows are half a block. A reduced logit then needs as many rows of the rarer outcome as parameters:
        with fewer, the bias does not have the order that half-blocks are to remove.
    """

    reduced: bool = False
    half: bool = False

    @property
    def of_halves(self) -> NewtonEstimator:
        """The same for half a block."""
        return replace(self, half=True)

    def __post_init__(self) -> None:
        """Refuse parts that are not the library's own, since they would see the rows of blocks."""
        check_columns(self.schema)
        read = self.compiled
        if type(read) is not CompiledFormula:
            raise OptionError("formula", type_of(read), "a compiled formula")
        for part in (*read.design, read.response):
            if type(part) is not DesignColumn or type(part.expression) is not Expression:
                raise OptionError("formula", type_of(part), "a compiled formula")

    def __call__(self, frame: pd.DataFrame) -> Array:
        """Return the parameters (p,), NaN without convergence."""
        endog, exog = self.design(frame)
        y, x = endog.to_numpy(dtype=np.float64), np.ascontiguousarray(exog.to_numpy())
        found = newton(self.model, y, x)
        if found is not None and self.reduced and self.model is Logit:
            sparse = self.half and min(y.sum(), (1 - y).sum()) < len(found)
            found = None if sparse else firth(y, x)
        return np.full(exog.shape[1], np.nan) if found is None else found


def newton(model: type, y: Array, x: Array) -> Array | None:
    """Fit Logit, Poisson or OLS to a response (m,) and regressors (m, p); None without convergence."""
    rows, size = x.shape
    finite = np.isfinite(x).all() and np.isfinite(y).all()  # LAPACK complains on standard error of what is not
    if rows < size or not finite or (model is Poisson and (y < 0).any()):
        return None
    if model is OLS:
        found, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
        return np.asarray(found) if rank == size else None
    params = np.zeros(size)
    if model is Poisson:  # the first step of weighted least squares from the data themselves
        mean = (y + y.mean()) / 2 + 1e-3
        root = np.sqrt(mean)
        scaled, target = x * root[:, None], root * (np.log(mean) + (y - mean) / mean)
        if not (np.isfinite(scaled).all() and np.isfinite(target).all()):
            return None
        params = np.linalg.lstsq(scaled, target, rcond=None)[0]
    for _ in range(_STEPS):
        eta = x @ params
        if not np.isfinite(eta).all() or np.abs(eta).max(initial=0.0) > 500:
            break
        mean = np.exp(eta) if model is Poisson else 1 / (1 + np.exp(-eta))
        information = (x.T * (mean if model is Poisson else mean * (1 - mean))) @ x
        try:
            step = np.linalg.solve(information, x.T @ (y - mean))
        except np.linalg.LinAlgError:
            break
        params = params + step
        if np.abs(step).max() <= _TOLERANCE * max(1.0, float(np.abs(params).max())):
            # Not determined is, for one, the coefficient of a level that no row of the block has.
            scale = np.sqrt(np.diag(information))
            determined = (scale > 0).all()
            determined = determined and np.linalg.eigvalsh(information / np.outer(scale, scale))[0] >= _DEPENDENT
            return params if determined else None
    return None


def firth(y: Array, x: Array) -> Array | None:
    """Fit a logit to a response (m,) and regressors (m, p) by Firth's (1993) penalised likelihood.

    The score is that of ``y`` with h (1/2 - mean) added, h the leverages of the weighted regression. It removes the
    bias of order 1/m of a correctly specified model. None without convergence.
    """
    params = np.zeros(x.shape[1])
    for _ in range(_FIRTH_STEPS):
        mean = 1 / (1 + np.exp(-(x @ params)))
        weight = mean * (1 - mean)
        information = (x.T * weight) @ x
        try:
            leverage = weight * (x.T * np.linalg.solve(information, x.T)).sum(axis=0)
            step = np.linalg.solve(information, x.T @ (y - mean + leverage * (0.5 - mean)))
        except np.linalg.LinAlgError:
            return None
        step = step * min(1.0, _FARTHEST / max(float(np.abs(x @ step).max()), _FARTHEST))
        params = params + step
        if not np.isfinite(params).all():
            return None
        if np.abs(step).max() <= _TOLERANCE * max(1.0, float(np.abs(params).max())):
            return params
    return None


def formula_estimator(
    model: type, formula: object, schema: Schema, *, options: Mapping[str, Any], fit_options: Mapping[str, Any]
) -> FormulaEstimator:
    """Prepare a statsmodels model and a formula for blocks; Logit, Poisson and OLS use Newton steps.

    Raises
    ------
    OptionError, FormulaError, UnknownColumnError
        If the formula is invalid, or it or an option names an undeclared column.
    NotProvedError
        For models of groups of rows, since their rows would be spread over the blocks.
    """
    if not isinstance(formula, str) or "~" not in formula:
        raise OptionError("formula", formula, 'a formula such as "y ~ x" with a statsmodels model')
    grouped = "groups" in inspect.signature(model).parameters or "groups" in options
    if grouped or model.__name__.startswith(("Conditional", "GLSAR", "Recursive", "Rolling")):
        raise NotProvedError(
            f"{model.__name__} needs groups of rows, or their order, but blocks assign rows individually: it is "
            "not available"
        )
    by_row = {name: value for name, value in options.items() if name in COLUMN_OPTIONS}
    for name, value in by_row.items():
        of_type(str, name, value, "the name of a declared column: it has a value for each row", hidden=True)
        if isinstance(schema[value], Category):
            raise OptionError(name, value, "a column of numbers")
    left, right = formula.split("~", 1)
    response = left.strip().strip("`")
    if model in (MNLogit, OrderedModel) and response in schema:
        if not schema[response].level_texts:
            raise SchemaError(
                f"{model.__name__} needs a response with declared levels: declare {response} as Category([...]), "
                "Boolean() or Integer(lower, upper) with at most a hundred values"
            )
        compiled, levels = compile_formula(f"~ {right}", schema), response
        used = {*compiled.columns, response}
    else:
        levels = None
        try:
            compiled = compile_formula(formula, schema)
            used = set(compiled.columns)
        except (FormulaError, UnknownColumnError):
            quoted = re.findall(r"""Q\(\s*["']([^"']+)["']\s*\)|`([^`]+)`""", formula)
            named = {name for pair in quoted for name in pair} | set(re.findall(r"[^\W\d]\w*", formula))
            compiled, used = None, {name for name in schema if name in named}
            if not used:
                right = f"names no declared column; these are {', '.join(schema)}"
                raise FormulaError(formula, right) from None
    columns = schema.select([name for name in schema if name in used | set(by_row.values())])
    plain = compiled is not None and model in _OWN and not options and not fit_options
    kind = NewtonEstimator if plain else FormulaEstimator
    return kind(model, formula, columns, compiled, levels, dict(options), dict(fit_options))


def probe_names(estimator: FormulaEstimator, given: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return the names of the parameters, from a fit to rows drawn from the schema.

    If names are given, the model only needs to be built from such rows.

    Raises
    ------
    FormulaError
        If the model cannot be fitted to such rows.
    OptionError
        If ``given`` are too many or too few.
    """
    sample = estimator.schema.sample(_PROBE_ROWS, np.random.default_rng(0))
    for name, column in estimator.schema.items():
        if isinstance(column, Category):
            sample[name] = pd.Categorical(sample[name], categories=list(column.levels), ordered=True)
        else:
            values = column.coerce(sample[name].to_numpy())
            sample[name] = values.astype(np.int64) if isinstance(column, Integer | Boolean) else values
    shown = io.StringIO()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(shown), redirect_stderr(shown):
            warnings.simplefilter("ignore")
            estimator.made(sample)
            try:
                found = _parameter_names(estimator.results(sample))
            except Exception:
                if given is None:
                    raise
                found = given
    except Exception as error:
        model, instead = estimator.model.__name__, "check the formula, or name the parameters yourself: names=[...]"
        reason = f"{model} cannot be fitted to rows drawn from the schema ({type(error).__name__}: {error})"
        raise FormulaError(estimator.formula, reason, instead) from None
    if given is not None and len(given) != len(found):
        raise OptionError("names", list(given), f"{len(found)} names, of {', '.join(found)}")
    return given or found


def _parameter_names(results: Any) -> tuple[str, ...]:
    params, model = results.params, results.model
    if isinstance(params, pd.DataFrame):
        levels = list(model._ynames_map.values())[1:]
        return tuple(f"{level}: {term}" for level in levels for term in params.index)
    listed = isinstance(params, pd.Series)
    return tuple(map(str, params.index if listed else getattr(model, "param_names", None) or model.exog_names))


class PreparedModel(NamedTuple):
    """A model, ready for the columns of a schema.

    Attributes
    ----------
    estimator : callable
        ``estimator(frame) -> array_like (p,)``.
    schema : Schema
        Its columns.
    region : Region
        The declared region of its parameters.
    response : str
    link : str or None
        None if the parameters are not the coefficients of one linear predictor.
    """

    estimator: Any
    schema: Schema
    region: Region
    response: str
    link: Link | None


@dataclass(frozen=True, eq=False)
class BlockModel:
    """The model for each block, as given by the user.

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
        """Description of the parts that a release does not store in full."""
        kind = model_class(self.model)
        if kind is None or not kind.__module__.startswith("statsmodels."):
            return f"the model {self.called}"
        given = {**self.model_options, **self.fit_options}
        objects = [name for name, value in given.items() if not isinstance(_plain(value), _PLAIN)]
        return f"the objects {', '.join(objects)}" if objects else ""

    @cached_property
    def _prepared(self) -> dict[tuple[Formula, Schema], PreparedModel]:
        return {}

    def prepared(self, formula: Formula, schema: Schema) -> PreparedModel:
        """Return the model for the columns of a schema; cached by the columns.

        Raises
        ------
        DPInferError
            If the formula, the region or the names do not suit the model or the schema.
        """
        if (formula, schema) not in self._prepared:
            self._prepared[formula, schema] = self._made(formula, schema)
        return self._prepared[formula, schema]

    def _made(self, formula: Formula, schema: Schema) -> PreparedModel:
        kind = model_class(self.model)
        if kind is None:
            columns = schema.select((formula,) if isinstance(formula, str) else formula)
            names = self.names if self.names is not None else region_names(self.bounds)
            if not names:
                right = f"the names of what {self.called} returns, or bounds by name: its length must be known"
                raise OptionError("names", None, right)
            if self.model_options or self.fit_options:
                raise OptionError("model_options", "given", "none with a function of your own: use functools.partial")
            return PreparedModel(self.model, columns, region_of(self.bounds, names), self.called, None)
        estimator = formula_estimator(kind, formula, schema, options=self.model_options, fit_options=self.fit_options)
        region = region_of(self.bounds, probe_names(estimator, self.names))
        link = _LINKS.get(kind.__name__)
        if kind.__name__ == "GLM":
            of_family = type(getattr(self.model_options.get("family"), "link", None)).__name__.lower()
            link = {**{one: one for one in get_args(Link)}, "nonetype": "identity"}.get(of_family)
        return PreparedModel(estimator, estimator.schema, region, str(formula).split("~", 1)[0].strip(), link)


def native_notes(formula: Formula, model: str, options: Mapping[str, str], link: Link | None) -> list[str]:
    """Return a sentence on the library's own regression for a model with stored options, if there is one."""
    fits = isinstance(formula, str) and model in _NATIVE and set(options) <= _NATIVE[model]
    if not fits or (model == "GLM" and options.get("family", "None") not in _NATIVE_FAMILIES.get(link, ())):
        return []
    return [f"dpi.{model.lower()} fits this model to all rows at once, usually with a third of the error or less."]


def stored_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as a release stores them: numbers and strings in full, other objects by their type.

    A string that looks like a number, None, True, False or a quoted string is stored in quotes.
    """
    return {str(name): _stored(value) for name, value in options.items()}


def _stored(value: object) -> str:
    plain = _plain(value)
    if not isinstance(plain, _PLAIN):
        return str(getattr(value, "__name__", type(value).__name__))
    if not isinstance(plain, str):
        return str(plain)
    try:
        float(plain)
    except ValueError:
        if plain not in ("None", "True", "False") and plain[:1] not in ("'", '"'):
            return str(plain)
    return repr(str(plain))


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def check_picklable(estimator: Callable[[Any], Any]) -> None:
    """Refuse a model that cannot be sent to another process; call it before any budget is spent.

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
