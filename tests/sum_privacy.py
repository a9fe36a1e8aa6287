"""What a change of noise-free sums costs, exactly: shared by the tests that noise pays for every neighbour."""

from fractions import Fraction

import pandas as pd

import dpinfer as dpi
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums


def keeping_schema(columns, constants):
    """Return a schema of the same columns that leaves no row out: constants stand for what is missing or impossible."""
    return dpi.Schema(
        {
            name: type(column)(
                **{key: value for key, value in column.to_dict().items() if key in ("lower", "upper", "levels")},
                missing=constant,
                impossible=constant,
            )
            for (name, column), constant in zip(columns.items(), constants, strict=True)
        }
    )


def frame_of(*rows):
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in rows[0]})


def sums_of(measurement, *rows):
    sums = exact_sums(measurement.rows, open_source(frame_of(*rows)), threads=1)
    return [total * measurement.multiplier for total in sums]


def loss(change, law):
    """Privacy loss of a change of the sums, exactly: sum d^2/(2 s^2) or sum abs(d)/s."""
    total = Fraction(0)
    for scale, moved in zip(law.scales, change, strict=True):
        if scale == 0:
            assert moved == 0, "a sum without noise moved"
        elif moved and law.family == "gaussian":
            total += Fraction(moved * moved) / (2 * Fraction(scale) ** 2)
        elif moved:
            total += abs(moved) / Fraction(scale)
    return total


def allowed(measurement):
    cost = measurement.cost
    return cost.rho if measurement.law.family == "gaussian" else cost.pure_epsilon
