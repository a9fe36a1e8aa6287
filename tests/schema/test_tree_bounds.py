"""Bounds of the tree that is evaluated are those of the text that it was compiled from."""

import math

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.schema.expressions import compile_expression
from dpinfer.schema.intervals import Interval, tree_bounds
from dpinfer.schema.nodes import Node

SCHEMA = dpi.Schema(x=dpi.Real(-1.3, 2.7), y=dpi.Real(0.1, 9.2), b=dpi.Boolean(), g=dpi.Category(["a", "b", "c"]))
COLUMNS = {"x": Interval(-1.3, 2.7), "y": Interval(0.1, 9.2), "b": Interval(0.0, 1.0)}
TEXTS = [
    "x", "3", "-x", "x + y", "2 - b", "x * x * x", "x / 3", "1e300 * x", "x**2", "x**3", "(x - .3)**4", "b**3",
    "y**-2", "y**.5", "1 / (x**2 + 1)", "sqrt(y) / y", "log(y)", "log(2 + x)", "log1p(y) * x", "exp(x) - exp(-x)",
    "expm1(x)", "abs(x)", "abs(b - 1)", "minimum(x, y)", "maximum(x, .5)", "minimum(b, x > 0)", "clip(x, 0, 1)",
    "x > 1", "(x > 1) & b", "(x > 1) | b", "~b", "b == 1", "b == 0", "g == 'a'", "g in ['a', 'b']",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_bounds_of_a_tree_are_those_of_its_text(text):
    compiled = compile_expression(text, SCHEMA)
    assert tree_bounds(compiled.node, COLUMNS) == Interval(compiled.lower, compiled.upper)


@pytest.mark.parametrize("text", [text for text in TEXTS if "g" not in text.replace("log", "")])
def test_values_are_within_the_bounds_of_a_piece(text):
    tree = compile_expression(text, SCHEMA).node
    piece = {"x": Interval(0.2, 0.4), "y": Interval(3.0, 3.1), "b": Interval(0.0, 1.0)}
    rng = np.random.default_rng(1)
    values = {name: rng.uniform(one.lower, one.upper, 500) for name, one in piece.items()}
    values["b"] = np.round(values["b"])
    found = compile_expression(text, SCHEMA).evaluate(values)
    bounds = tree_bounds(tree, piece)
    assert ((found >= bounds.lower) & (found <= bounds.upper)).all()


COLUMN, ZERO = Node("column", name="x"), Node("constant", value=0.0)


@pytest.mark.parametrize(
    "tree",
    [
        Node("/", (COLUMN, ZERO)),
        Node("log", (ZERO,)),
        Node("log", (COLUMN,)),
        Node("+", (Node("column", name="unknown"), COLUMN)),
        Node("unknown", (COLUMN,)),
        Node("+", (COLUMN,) * 3),
        Node("*", (Node("constant", value=1e300), Node("constant", value=1e300))),
        Node("constant", value=math.nan),
    ],
)
def test_a_tree_without_bounds_is_anywhere(tree):
    assert tree_bounds(tree, COLUMNS) == Interval(-math.inf, math.inf)
