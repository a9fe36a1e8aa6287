"""What a change of noise-free sums costs, exactly: shared by the tests that noise pays for every neighbour."""

from fractions import Fraction
from itertools import groupby

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
    for scale, group in groupby(sorted(zip(law.scales, change, strict=False)), key=lambda pair: pair[0]):
        moves = [int(moved) for _, moved in group]
        if scale == 0:
            assert not any(moves), "a sum without noise moved"
        elif law.family == "gaussian":
            total += sum(moved * moved for moved in moves) / (2 * Fraction(scale) ** 2)
        else:
            total += sum(map(abs, moves)) / Fraction(scale)
    return total


def allowed(measurement):
    cost = measurement.cost
    return cost.rho if measurement.law.family == "gaussian" else cost.pure_epsilon
