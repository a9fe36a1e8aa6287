"""Public metadata: columns and bounds, and what formulas and expressions become under them."""

from dpinfer.schema.cells import Coded
from dpinfer.schema.columns import Boolean, Category, Column, Date, Integer, Real, column_from_dict
from dpinfer.schema.declared import Mismatch, TypeCheck
from dpinfer.schema.expressions import compile_expression, product
from dpinfer.schema.formula import CompiledFormula, DesignColumn, compile_formula, compile_terms
from dpinfer.schema.nodes import Expression
from dpinfer.schema.region import Ball
from dpinfer.schema.schema import People, Schema

__all__ = [
    "Ball",
    "Boolean",
    "Category",
    "Coded",
    "Column",
    "CompiledFormula",
    "Date",
    "DesignColumn",
    "Expression",
    "Integer",
    "Mismatch",
    "People",
    "Real",
    "Schema",
    "TypeCheck",
    "column_from_dict",
    "compile_expression",
    "compile_formula",
    "compile_terms",
    "product",
]
