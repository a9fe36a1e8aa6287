"""Statistical inference under differential privacy, on statsmodels.

Typical use is ``import dpinfer as dpi``: declare a `Schema`, open a `Ledger`, wrap the rows in `PrivateData`,
ask a question such as `ols`, and ``fit`` it at a price.
"""

from dpinfer import errors
from dpinfer._version import __version__
from dpinfer.inference.families import Binomial, Family
from dpinfer.kernel.data import PrivateData, PublicData
from dpinfer.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpinfer.procedures import (
    Procedure,
    corr,
    count,
    cov,
    expfam,
    gram,
    histogram,
    mean,
    ols,
    proportion,
    table,
    total,
    variance,
)
from dpinfer.release import Release, read_release
from dpinfer.results import PrivateResults
from dpinfer.results.side_by_side import summary_table
from dpinfer.schema import Ball, Boolean, Category, Integer, Real, Schema

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Ball",
    "Binomial",
    "Boolean",
    "Category",
    "Family",
    "Integer",
    "Ledger",
    "PrivateData",
    "PrivateResults",
    "Procedure",
    "PublicData",
    "PureDP",
    "Real",
    "Release",
    "Schema",
    "__version__",
    "corr",
    "count",
    "cov",
    "errors",
    "expfam",
    "gram",
    "histogram",
    "mean",
    "ols",
    "proportion",
    "read_release",
    "summary_table",
    "table",
    "total",
    "variance",
]
