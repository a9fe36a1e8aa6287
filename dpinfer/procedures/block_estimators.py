"""What is fitted to a block: statsmodels by formula, or a function of the user's own."""

from __future__ import annotations

import inspect
import io
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from statsmodels.discrete.discrete_model import Logit, MNLogit, Poisson
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.regression.linear_model import OLS

from dpinfer.errors import FormulaError, NotProvedError, OptionError, SchemaError, UnknownColumnError, type_of
from dpinfer.kernel.rows.blocks import OwnEstimator
from dpinfer.kernel.sealing import check_columns
from dpinfer.schema.algebra import Expression
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.columns import Boolean, Category, Integer
from dpinfer.schema.formula import CompiledFormula, DesignColumn, compile_formula

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["FormulaEstimator", "NewtonEstimator", "formula_estimator", "model_class", "probe_names"]

COLUMN_OPTIONS = ("status", "entry", "strata", "offset", "exposure", "weights", "freq_weights", "var_weights")
"""Arguments of statsmodels' models that hold a value for each row: here the name of a column."""

_DEFAULTS: dict[type, dict[str, Any]] = {OrderedModel: {"method": "bfgs", "skip_hessian": True}}
"""Options of ``fit`` where statsmodels' own default does not converge in small blocks, or computes what is not used."""

_LEVELS = (MNLogit, OrderedModel)
_PROBE_ROWS = 1000
_STEPS = 35
_TOLERANCE = 1e-9
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
        If it is a class that takes no formula, or nothing that can be called.
    """
    if inspect.isclass(model):
        if not callable(getattr(model, "from_formula", None)):
            raise OptionError("model", model.__name__, _RIGHT + "; this class has no formula interface")
        return model
    owner = getattr(model, "__self__", None)
    if inspect.isclass(owner) and getattr(model, "__name__", "") == "from_formula":
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
        The columns that are read.
    compiled : CompiledFormula or None
        The formula row by row; None where statsmodels has to read it, block by block.
    response : str or None
        A column whose levels are the response, for models of several outcomes.
    options, fit_options : mapping
        Of the model and of its ``fit``; a text in one of `COLUMN_OPTIONS` is a column.
    """

    model: type
    formula: str
    schema: Schema
    compiled: CompiledFormula | None
    response: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    fit_options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, frame: pd.DataFrame) -> Array:
        """Return the parameters (p,); those of several outcomes one outcome after the other."""
        return np.ravel(np.asarray(self.results(frame).params, dtype=np.float64), order="F")

    def results(self, frame: pd.DataFrame) -> Any:
        """Fit, and return statsmodels' results."""
        model = self.made(frame)
        chosen = {**_DEFAULTS.get(self.model, {}), **self.fit_options}
        if "disp" in inspect.signature(model.fit).parameters:
            chosen.setdefault("disp", 0)
        return model.fit(**chosen)

    def made(self, frame: pd.DataFrame) -> Any:
        """Return the statsmodels model of a frame, not yet fitted."""
        options = {
            name: frame[value].to_numpy() if name in COLUMN_OPTIONS and isinstance(value, str) else value
            for name, value in self.options.items()
        }
        if self.compiled is None:
            return self.model.from_formula(self.formula, frame, eval_env={"np": np}, **options)  # type: ignore[attr-defined]
        endog, exog = self.design(frame)
        if np.linalg.matrix_rank(exog.to_numpy()) < exog.shape[1]:
            raise ValueError("a coefficient is not determined")  # statsmodels may return one of many solutions
        return self.model(endog, exog, **options)

    def design(self, frame: pd.DataFrame) -> tuple[pd.Series, pd.DataFrame]:
        """Return response (m,) and regressors (m, q) of a frame."""
        assert self.compiled is not None
        values, levels = {}, {}
        for name, column in self.schema.items():
            if isinstance(column, Category):
                levels[name] = np.asarray(frame[name].cat.codes, dtype=np.intp)
                values[name] = levels[name].astype(np.float64)
            else:
                values[name] = frame[name].to_numpy(dtype=np.float64)
                if column.level_texts:
                    levels[name] = column.level_index(values[name])
        exog = {}
        for part in self.compiled.design:
            if part.name == "Intercept" and self.model in (PHReg, OrderedModel):
                continue
            value = np.broadcast_to(part.expression.evaluate(values), (len(frame),))
            for name, weights in part.codings:
                value = value * np.asarray(weights)[levels[name]]
            exog[part.name] = value
        if self.response is None:
            assert self.compiled.response is not None
            found = np.broadcast_to(self.compiled.response.expression.evaluate(values), (len(frame),))
            return pd.Series(found, name=self.compiled.response.name), pd.DataFrame(exog, index=frame.index)
        labels = LevelsAxis(self.schema, self.response).labels
        codes: Any = pd.Categorical.from_codes(levels[self.response], categories=pd.Index(labels), ordered=True)
        return pd.Series(codes, name=self.response), pd.DataFrame(exog, index=frame.index)


@dataclass(frozen=True, eq=False)
class NewtonEstimator(FormulaEstimator, OwnEstimator):
    """Logit, Poisson or least squares without statsmodels' surroundings; the same parameters.

    Newton's steps from a block's own rows. A block in which they do not converge, as where outcomes are separated, has
    no estimate; statsmodels would return the last step and warn.
    """

    def __post_init__(self) -> None:
        """Refuse parts that are not the library's own: they would see the rows of blocks."""
        check_columns(self.schema)
        read = self.compiled
        if type(read) is not CompiledFormula:
            raise OptionError("formula", type_of(read), "a compiled formula")
        for part in (*read.design, read.response):
            if type(part) is not DesignColumn or type(part.expression) is not Expression:
                raise OptionError("formula", type_of(part), "a compiled formula")

    def remade(self, schema: Schema) -> NewtonEstimator:
        """Return a new one of the model and the text of the formula.

        Raises
        ------
        OptionError
            If they are none of those that the library fits itself.
        """
        model = next((one for one in _OWN if one is self.model), None)
        made = None
        if model is not None and type(self.formula) is str:
            made = formula_estimator(model, self.formula, schema, options={}, fit_options={})
        if not isinstance(made, NewtonEstimator):
            raise OptionError("model", type_of(self.model), "Logit, Poisson or OLS, with a formula")
        return made

    def __call__(self, frame: pd.DataFrame) -> Array:
        """Return the parameters (p,), NaN where the steps do not converge."""
        endog, exog = self.design(frame)
        found = newton(self.model, endog.to_numpy(dtype=np.float64), np.ascontiguousarray(exog.to_numpy()))
        return np.full(exog.shape[1], np.nan) if found is None else found


def newton(model: type, y: Array, x: Array) -> Array | None:
    """Fit Logit, Poisson or OLS to a response (m,) and regressors (m, p); None where the steps do not converge."""
    rows, size = x.shape
    finite = np.isfinite(x).all() and np.isfinite(y).all()  # LAPACK complains on standard error of what is not
    if rows < size or not finite or (model is Poisson and (y < 0).any()):
        return None
    if model is OLS:
        found, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
        return np.asarray(found) if rank == size else None
    params = np.zeros(size)
    if model is Poisson:
        # The first step of weighted least squares from the data themselves.
        mean = (y + y.mean()) / 2 + 1e-3
        params = _step(x, np.sqrt(mean), np.sqrt(mean) * (np.log(mean) + (y - mean) / mean))
    for _ in range(_STEPS):
        eta = x @ params
        if not np.isfinite(eta).all() or np.abs(eta).max(initial=0.0) > 500:
            return None
        mean = np.exp(eta) if model is Poisson else 1 / (1 + np.exp(-eta))
        weight = mean if model is Poisson else mean * (1 - mean)
        information = (x.T * weight) @ x
        step = _solved(information, x.T @ (y - mean))
        params = params + step
        if np.abs(step).max() <= _TOLERANCE * max(1.0, float(np.abs(params).max())):
            return None if _dependent(information) else params
    return None


def _dependent(information: Array) -> bool:
    """Whether a coefficient is not determined, as that of a level that no row of the block has."""
    scale = np.sqrt(np.diag(information))
    if not (scale > 0).all():
        return True
    return bool(np.linalg.eigvalsh(information / np.outer(scale, scale))[0] < _DEPENDENT)


def _solved(matrix: Array, vector: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(matrix, vector))
    except np.linalg.LinAlgError:
        return np.full(len(vector), np.nan)


def _step(x: Array, root: Array, target: Array) -> Array:
    scaled = x * root[:, None]
    if not (np.isfinite(scaled).all() and np.isfinite(target).all()):
        return np.full(x.shape[1], np.nan)
    return np.asarray(np.linalg.lstsq(scaled, target, rcond=None)[0])


def formula_estimator(
    model: type, formula: object, schema: Schema, *, options: Mapping[str, Any], fit_options: Mapping[str, Any]
) -> FormulaEstimator:
    """Prepare a statsmodels model and a formula for blocks: Logit, Poisson and OLS without options by Newton's steps.

    Raises
    ------
    OptionError, FormulaError, UnknownColumnError
        If the formula is none, or it or an option names a column that is not declared.
    NotProvedError
        For models of groups of rows: their rows would be spread over the blocks.
    """
    if not isinstance(formula, str) or "~" not in formula:
        raise OptionError("formula", formula, 'a formula such as "y ~ x" with a statsmodels model')
    grouped = "groups" in inspect.signature(model).parameters or "groups" in options
    if grouped or model.__name__.startswith(("Conditional", "GLSAR", "Recursive", "Rolling")):
        raise NotProvedError(
            f"{model.__name__} needs rows that stay together, or their order, and blocks take rows one by one: it is "
            "not offered"
        )
    named = {name: value for name, value in options.items() if name in COLUMN_OPTIONS}
    for name, value in named.items():
        if not isinstance(value, str):
            raise OptionError(name, type_of(value), "the name of a declared column: it has a value for each row")
        if isinstance(schema[value], Category):
            raise OptionError(name, value, "a column of numbers")
    left, right = formula.split("~", 1)
    response = left.strip().strip("`")
    if model in _LEVELS and response in schema:
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
            compiled, used = None, _named_columns(formula, schema)
    columns = schema.select([name for name in schema if name in used | set(named.values())])
    plain = compiled is not None and model in _OWN and not options and not fit_options
    kind = NewtonEstimator if plain else FormulaEstimator
    return kind(model, formula, columns, compiled, levels, dict(options), dict(fit_options))


def _named_columns(formula: str, schema: Schema) -> set[str]:
    """Return the declared columns that a formula for statsmodels names.

    Raises
    ------
    FormulaError
        If there are none.
    """
    quoted = set(re.findall(r"""Q\(\s*["']([^"']+)["']\s*\)|`([^`]+)`""", formula))
    words = {name for pair in quoted for name in pair if name} | set(re.findall(r"[^\W\d]\w*", formula))
    used = {name for name in schema if name in words}
    if not used:
        raise FormulaError(formula, f"names no declared column; these are {', '.join(schema)}")
    return used


def probe_names(estimator: FormulaEstimator, given: tuple[str, ...] | None = None) -> tuple[tuple[str, ...], str]:
    """Return the names of the parameters, and the response, by a fit to rows drawn from the schema.

    Where names are given, it is enough that the model can be built from such rows.

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
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            response = str(estimator.made(sample).endog_names)
            try:
                found = _parameter_names(estimator.results(sample))
            except Exception:
                if given is None:
                    raise
                found = given
    except Exception as error:
        raise FormulaError(
            estimator.formula,
            f"{estimator.model.__name__} cannot be fitted to rows drawn from the schema "
            f"({type(error).__name__}: {error})",
            "check the formula, or name the parameters yourself: names=[...]",
        ) from None
    if given is not None and len(given) != len(found):
        raise OptionError("names", list(given), f"{len(found)} names, of {', '.join(found)}")
    return given or found, response


def _parameter_names(results: Any) -> tuple[str, ...]:
    params = results.params
    if isinstance(params, pd.DataFrame):
        levels = list(results.model._ynames_map.values())[1:]
        return tuple(f"{level}: {term}" for level in levels for term in params.index)
    if isinstance(params, pd.Series):
        return tuple(str(name) for name in params.index)
    names = getattr(results.model, "param_names", None) or results.model.exog_names
    return tuple(str(name) for name in names)
