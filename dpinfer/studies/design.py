"""The design of a coverage study: what is drawn, what is asked, what is true."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from dpinfer._version import __version__
from dpinfer.errors import OptionError
from dpinfer.kernel.measurement import Measurement, price_procedure
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS, Neighbors, Privacy
from dpinfer.schema.schema import Schema

__all__ = ["BLOCK", "Design", "Task"]

COLUMNS = 2
"""Version of the columns that blocks are kept with."""

BLOCK = 250
"""Replicates that are drawn from one stream; the same whatever the number of workers."""


@dataclass(frozen=True)
class Task:
    """A block of replicates of one number of rows: the same data serve every price.

    Attributes
    ----------
    size : int
        Index into the numbers of rows.
    block : int
    replicates : int
    """

    size: int
    block: int
    replicates: int

    @property
    def name(self) -> str:
        """Name of its checkpoint."""
        return f"n{self.size}-block{self.block:05d}"


@dataclass(frozen=True, eq=False)
class Design:
    """Everything that determines the numbers of a study.

    Attributes
    ----------
    generate : callable
        ``generate(rng, n)`` returns a dict of arrays of length n, or a DataFrame.
    procedure : Procedure, or anything with ``bind(data)`` and ``fit(price)``
    schema : Schema
    truth : mapping of str to float, or None
    n : tuple of int
    privacy : tuple of Privacy
    neighbors : {"add_remove", "replace_one"}
    replicates : int
    level : float
    seed : int
    baseline : callable, optional
        Maps the same data, as a DataFrame, to fitted results of statsmodels.
    contrasts : mapping of name to weights by coefficient
        Further quantities that are studied like coefficients.
    """

    generate: Callable[[np.random.Generator, int], Any]
    procedure: Any
    schema: Schema
    truth: Mapping[str, float] | None
    n: tuple[int, ...]
    privacy: tuple[Privacy, ...]
    neighbors: Neighbors
    replicates: int
    level: float
    seed: int
    baseline: Callable[[Any], Any] | None = None
    contrasts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.generate):
            raise OptionError("generate", self.generate, "a function of (rng, n) that returns columns")
        if not hasattr(self.procedure, "fit") or not hasattr(self.procedure, "bind"):
            raise OptionError("procedure", self.procedure, 'a procedure such as dpinfer.ols("y ~ x")')
        if not isinstance(self.schema, Schema):
            raise OptionError("schema", self.schema, "a Schema")
        if not self.n or not all(isinstance(size, int) and size > 0 for size in self.n):
            raise OptionError("n", self.n, "one or more positive whole numbers of rows")
        if not self.privacy or not all(isinstance(price, Privacy) for price in self.privacy):
            raise OptionError("privacy", self.privacy, "one or more prices such as ZCDP(0.1)")
        if self.neighbors not in NEIGHBORS:
            raise OptionError("neighbors", self.neighbors, NEIGHBORS)
        if not (isinstance(self.replicates, int) and self.replicates > 0):
            raise OptionError("replicates", self.replicates, "a positive whole number")
        if not (isinstance(self.level, float) and 0 < self.level < 1):
            raise OptionError("level", self.level, "a number between 0 and 1, such as 0.95")
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise OptionError("seed", self.seed, "a whole number, not negative")
        if not all(isinstance(weights, Mapping) for weights in self.contrasts.values()):
            raise OptionError("contrasts", self.contrasts, 'such as {"x - z": {"x": 1, "z": -1}}')
        if self.baseline is not None and not callable(self.baseline):
            raise OptionError("baseline", self.baseline, "a function of a DataFrame, or None")

    @property
    def estimates_many(self) -> bool:
        """Whether the procedure infers from many releases at once; what has only bind and fit does not."""
        return bool(getattr(self.procedure, "estimates_many", False))

    def measured(self, price: Privacy, n: int) -> Measurement:
        """Return what the procedure measures of n rows at a price."""
        public = n if self.neighbors == "replace_one" and self.schema.people is None else None
        context = Context(self.schema, self.neighbors, price, public, public=True)
        return price_procedure(self.procedure.resolve(context), context)

    @property
    def tasks(self) -> list[Task]:
        """All blocks, in order."""
        blocks = range(-(-self.replicates // BLOCK))
        return [
            Task(size, block, min(BLOCK, self.replicates - block * BLOCK))
            for size, block in product(range(len(self.n)), blocks)
        ]

    def stream(self, task: Task, purpose: int) -> np.random.Generator:
        """Return the random stream of a block: 0 for the data, 1 + i for the noise at price i."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(task.size, task.block, purpose)))

    def describe(self) -> dict[str, Any]:
        """Return the design as a JSON-ready mapping, with a digest of the code of its functions."""
        return {
            "generate": _digest(self.generate),
            "procedure": repr(self.procedure),
            "schema": self.schema.to_dict(),
            "truth": None if self.truth is None else {str(one): float(value) for one, value in self.truth.items()},
            "n": list(self.n),
            "privacy": [price.to_dict() for price in self.privacy],
            "neighbors": self.neighbors,
            "replicates": self.replicates,
            "level": self.level,
            "seed": self.seed,
            "block": BLOCK,
            "columns": COLUMNS,
            "contrasts": {name: dict(weights) for name, weights in self.contrasts.items()},
            "baseline": None if self.baseline is None else _digest(self.baseline),
            "version": __version__,
        }

    def fingerprint(self) -> str:
        """Return `describe` as one line of text, to tell designs apart."""
        return json.dumps(self.describe(), sort_keys=True)


def _digest(function: Callable[..., Any]) -> str:
    """Name a function by its name, code and data; two functions of one name differ if their code does."""
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{type(function).__module__}.{type(function).__qualname__}: {function!r}"
    parts = (code.co_code, repr(code.co_names), repr([c for c in code.co_consts if not hasattr(c, "co_code")]))
    digest = hashlib.sha256(repr((parts, repr(function.__defaults__))).encode()).hexdigest()[:16]
    return f"{function.__qualname__}: {digest}"


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple, and a single value as a tuple of one."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
