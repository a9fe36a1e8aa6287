"""The stated bounds against adversarial neighbours, on the noise-free integers, in exact arithmetic.

Sums add over rows, so what one unit does to them is seen on single rows z and pairs (z, w) alone.
`attained_ratios` returns how much of each bound they attain.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from dpinfer.errors import CollinearDesignError, FormulaError, NotProvedError, OptionError
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.sensitivity import RowBounds, gram_sensitivity, joint_sensitivity
from dpinfer.privacy.units import GDP, NEIGHBORS, ZCDP, ApproxDP, PureDP
from dpinfer.regression.gram import GramDesign
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.grid import UNIT
from tests.sum_privacy import allowed, frame_of, keeping_schema, loss

COLUMNS = {
    "x": Real(-3, 11),
    "u": Real(0, 1),
    "k": Integer(0, 16),
    "b": Boolean(),
    "c2": Category(["m", "f"]),
    "c3": Category(["a", "b", "c"]),
    "c5": Category([1, 2, 3, 4, 5]),
    "c6": Category(list("pqrstu")),
    "y": Real(0, 50),
}
DROPPING = Schema(COLUMNS)
KEEPING = keeping_schema(COLUMNS, (0, 1, 16, True, "f", "c", 5, "u", 0))
TERMS = ["x", "k", "b", "c2", "C(c3, contr.helmert)", "C(c5, contr.sum)", "C(c6, contr.poly)", "C(c3, contr.diff)"]
TERMS += [
    "x:c3",
    "b:c5",
    "c2:c3",
    "c2:c3:u",
    "I(x**2)",
    "I(x * u)",
    "log(1 + u)",
    "exp(-k)",
    "I(x > 3)",
    "minimum(x, 2)",
]
RESPONSES = ["y", "I(y > 10)", "log(1 + y)", "y:u"]
WHERES = [None, "x > 0", "c3 == 'a'", "b & (k >= 3)"]
CLIPS = [(None, "l2"), (1.0, "l2"), (1.7, "l2"), (0.01, "l2"), (40.0, "l2"), (1.3, "l1"), (3.0, "l1")]
SPLITS = [None, None, (0.5, 0.3, 0.2), (0.9, 0.05, 0.05)]
SHARES = [0.0, 0.0, 0.1, 0.31, 1e-6]
PRICES = [ZCDP(0.1), ZCDP(0.37), GDP(1.3), ApproxDP(1.0, 1e-6), PureDP(0.7), PureDP(0.1)]
CELLS = {
    "x": [-3.0, 11.0, 4.0, 0.0, 1.234567, -1e308, 1e308, float("nan"), float("inf"), "oops", "5", None],
    "u": [0.0, 1.0, 0.5, 5e-324, 2.0, -float("inf"), True, object],
    "k": [0, 16, 7, 3.5, 2**80, None, "16"],
    "b": [True, False, 1.0, 2, None],
    "c2": ["m", "f", "x", None, 1e9],
    "c3": ["a", "b", "c", "d", float("nan")],
    "c5": [1, 2, 3, 4, 5, 6, "5", 2.0],
    "c6": [*"pqrstu", "v"],
    "y": [0.0, 50.0, 25.0, 13.37, -1.0, 1e300, float("nan"), 10.0],
}


def questions():
    """Regressions over all options of the row function."""
    return st.builds(
        lambda terms, response, where, clip, share, keeping: GramDesign(
            KEEPING if keeping else DROPPING,
            formula=f"{response} ~ " + " + ".join(terms),
            where=where,
            row_norm=clip[0],
            norm=clip[1],
            clamped_share=share,
        ),
        st.lists(st.sampled_from(TERMS), min_size=1, max_size=4, unique=True),
        st.sampled_from(RESPONSES),
        st.sampled_from(WHERES),
        st.sampled_from(CLIPS),
        st.sampled_from(SHARES),
        st.booleans(),
    )


def single_rows():
    """One row: extreme, inside, or impossible in every column."""
    return st.fixed_dictionaries({name: st.sampled_from(cells) for name, cells in CELLS.items()})


def interior_rows():
    """One row anywhere within the bounds."""
    cells = {name: st.sampled_from(CELLS[name][:2]) for name in ("b", "c2", "c3", "c5", "c6", "k")}
    cells |= {"x": st.floats(-3, 11), "u": st.floats(0, 1), "y": st.floats(0, 50)}
    return st.fixed_dictionaries(cells)


ANY_ROWS = st.one_of(single_rows(), interior_rows())


def sums_of(question, row):
    """Return the exact sums of the frame that holds one row."""
    return np.array(exact_sums(GramSum(question.rows), open_source(frame_of(row)), threads=1), dtype=object)


def measure(question, price, neighbors, split=None):
    """Price the cross-products, with shares of the price for their parts where there are several."""
    rows, marks = GramSum(question.rows, split=split is not None), question.clamped_share
    shares = [share * (1 - marks) for share in split or (1.0,)] + [marks] * (marks > 0)
    stage = Stage(Sum(rows, shares=tuple(shares) if len(shares) > 1 else None))
    return price_stage(stage, price, Context(rows.schema, neighbors, price))


def norm_of(change, width, norm):
    """Squared weighted L2 norm, or L1 norm, of a change of the upper triangle."""
    row, column = np.triu_indices(width)
    moves = change[: len(row)]
    if norm == "l1":
        return sum(abs(m) for m in moves)
    return sum(m * m * (1 if i == j else 2) for m, i, j in zip(moves, row, column, strict=True))


def compiled(question):
    """Compile, and leave out what is refused for public reasons."""
    try:
        _ = question.rows.bounds
    except (CollinearDesignError, NotProvedError):
        reject()
    return question


@given(questions(), ANY_ROWS, ANY_ROWS)
def test_no_neighbour_moves_the_sums_further_than_the_bound(question, first, second):
    compiled(question)
    width = question.basis.width
    z, w = sums_of(question, first), sums_of(question, second)
    for norm, power in (("l2", 2), ("l1", 1)):
        one = gram_sensitivity(question.rows.bounds, neighbors="add_remove", norm=norm)
        two = gram_sensitivity(question.rows.bounds, neighbors="replace_one", norm=norm)
        assert norm_of(z, width, norm) <= one**power
        assert norm_of(z - w, width, norm) <= two**power


@given(
    questions(),
    single_rows(),
    single_rows(),
    st.sampled_from(PRICES),
    st.sampled_from(NEIGHBORS),
    st.sampled_from(SPLITS),
)
def test_the_scales_pay_for_every_change(question, first, second, price, neighbors, split):
    compiled(question)
    measurement = measure(question, price, neighbors, split)
    change = sums_of(question, first)
    if neighbors == "replace_one":
        change = change - sums_of(question, second)
    assert loss(change, measurement.law) <= allowed(measurement)


@pytest.mark.parametrize("price", [ZCDP(0.3), PureDP(0.3)])
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@given(
    st.floats(1e-9, 0.4999),
    st.tuples(*[st.floats(0.01, 1)] * 3).map(lambda s: (s[0] / sum(s), s[1] / sum(s), s[2] / sum(s))),
    st.booleans(),
)
def test_rounded_weights_never_underpay(price, neighbors, share, split, with_split):
    """Rows at which several bounds are attained exactly, with shares that no float holds exactly."""
    question = GramDesign(Schema(x=Real(0, 1), y=Real(0, 1)), formula="y ~ x", clamped_share=share)
    measurement = measure(question, price, neighbors, split if with_split else None)
    change = sums_of(question, {"x": 1.5, "y": 1.5})
    if neighbors == "replace_one":
        change = change - sums_of(question, {"x": 0.0, "y": 1.0})
    assert loss(change, measurement.law) <= allowed(measurement)


def extreme_rows(question):
    """All rows whose columns are at a bound or a level; under a clip also between the bounds."""
    names = question.rows.columns
    choices = []
    for name in names:
        column = question.schema[name]
        if isinstance(column, Category):
            choices.append(list(column.levels))
        elif isinstance(column, Boolean):
            choices.append([False, True])
        else:
            points = 2 if question.row_norm is None or name == "y" else 11
            choices.append(np.linspace(column.lower, column.upper, points).tolist())
    return [dict(zip(names, row, strict=True)) for row in product(*choices)]


DESIGNS = {
    "y ~ 1": {},
    "y ~ x": {},
    "y ~ x + k + b": {},
    "y ~ x + c3": {},
    "y ~ x + c5": {},
    "y ~ C(c6, contr.sum) + b": {},
    "y ~ c2 * c3": {},
    "y ~ x * c3": {},
    "y ~ x + I(x**2)": {},
    "y ~ x + u": {"where": "b"},
    "y ~ x + u + b": {"clamped_share": 0.1},
    "y ~ x + b": {"split": (0.5, 0.3, 0.2)},
    "y ~ x + c2": {"row_norm": 1.5},
    "y ~ x + u ": {"row_norm": 1.6, "norm": "l1"},
}
"""Formulas with their options; a trailing space tells two apart."""


def attained_ratios(designs=DESIGNS, schema=DROPPING):
    """Share of the bound that extreme rows attain, by design, relation and noise.

    The attained norm over its bound, each coordinate divided by its weight: sqrt(loss/rho) or loss/epsilon.

    Returns
    -------
    DataFrame
        A row per design; columns (relation, norm).

    Notes
    -----
    ========================================  ===========  ===========  ===========  ===========
    design                                    add L2       replace L2   add L1       replace L1
    ========================================  ===========  ===========  ===========  ===========
    y ~ 1                                     1.000        1.000        1.000        0.500
    y ~ x                                     1.000        1.000        1.000        0.500
    y ~ x + k + b                             1.000        1.000        1.000        0.500
    y ~ x + c3                                1.000        1.000        1.000        0.522
    y ~ x + c5                                1.000        1.000        1.000        0.550
    y ~ C(c6, contr.sum) + b                  1.000        1.000        1.000        0.553
    y ~ c2 * c3                               1.000        1.000        1.000        0.592
    y ~ x * c3                                1.000        1.000        1.000        0.592
    y ~ x + I(x**2)                           1.000        0.965        1.000        0.500
    y ~ x + u; where=b                        1.000        1.000        1.000        0.500
    y ~ x + u + b; clamped_share=0.1          1.000        1.000        1.000        0.550
    y ~ x + b; split=(0.5, 0.3, 0.2)          1.000        0.803        1.000        0.600
    y ~ x + c2; row_norm=1.5                  0.986        0.968        -            -
    y ~ x + u; row_norm=1.6 norm=l1           -            -            0.884        0.553
    ========================================  ===========  ===========  ===========  ===========
    """
    table = {}
    for formula, given_options in designs.items():
        options = dict(given_options)
        split = options.pop("split", None)
        clipped = "row_norm" in options
        question = GramDesign(schema, formula=formula, **options)
        clamped = question.clamped_share > 0
        rows = extreme_rows(question)
        if clamped:
            rows += [{**row, "y": 60.0} for row in rows if row["y"] == 50.0]
        singles = [sums_of(question, row) for row in rows]
        entry = {}
        for neighbors, price in product(NEIGHBORS, (ZCDP(0.5), PureDP(1.0))):
            measurement = measure(question, price, neighbors, split)
            worst = max(loss(change, measurement.law) for change in changes(singles, neighbors))
            assert worst <= allowed(measurement)
            share = float(worst / allowed(measurement))
            gaussian = measurement.law.family == "gaussian"
            if clipped and gaussian != (question.norm == "l2"):
                continue  # such a clip is for noise of its own norm
            entry[neighbors, "l2" if gaussian else "l1"] = share**0.5 if gaussian else share
        table[formula] = entry
    return pd.DataFrame(table).T


def changes(singles, neighbors, most=400):
    """Changes of the sums between neighbours that differ in these rows, thinned to so many pairs a row."""
    if neighbors == "add_remove":
        return list(singles)
    step = max(1, len(singles) ** 2 // (2 * most))
    pairs = [(z, w) for i, z in enumerate(singles) for w in singles[:i]]
    return list(singles) + [z - w for z, w in pairs[::step]]


def test_bounds_are_attained():
    ratios = attained_ratios()
    boxes = ratios.iloc[:-2]
    assert ratios.max().max() <= 1
    assert (boxes["add_remove"] >= 0.9).all(axis=None)
    assert (boxes["replace_one"] > 0.49).all(axis=None)
    assert (boxes["replace_one", "l2"] > 0.8).all()
    assert ratios.loc["y ~ x + c2", ("add_remove", "l2")] >= 0.9
    assert ratios.loc["y ~ x + u ", ("add_remove", "l1")] >= 0.85


def test_the_count_goes_without_noise_only_where_every_row_counts():
    for neighbors, schema, options, exact in [
        ("replace_one", KEEPING, {}, True),
        ("replace_one", DROPPING, {}, False),
        ("replace_one", KEEPING, {"where": "x > 0"}, False),
        ("replace_one", KEEPING, {"row_norm": 1.2}, False),
        ("add_remove", KEEPING, {}, False),
    ]:
        for price in (ZCDP(0.1), PureDP(0.1)):
            question = GramDesign(schema, formula="y ~ x + c3", **options)
            measurement = measure(question, price, neighbors)
            assert (measurement.law.scales[0] == 0) == exact
            assert all(scale > 0 for scale in measurement.law.scales[1:])
            assert measurement.names[0] == "1 * 1"


@given(single_rows())
def test_where_policies_are_constants_every_row_counts_as_one(row):
    question = GramDesign(KEEPING, formula="y ~ x + k + b + c3 + c5:u")
    assert question.rows.keeps_every_row
    assert sums_of(question, row)[0] == UNIT * UNIT


def test_bounds_that_are_too_close_are_refused():
    """UNIT over the half width would overflow, and a row would be dropped for its value, past the policies."""
    response = Real(0, 1, missing=0, impossible=0)
    for upper in (1e-310, 5e-324, 1e-295):
        schema = Schema(x=Real(0, upper, missing=0, impossible=0), y=response)
        with pytest.raises(FormulaError, match="too close"):
            _ = GramDesign(schema, formula="y ~ x").basis
    for lower, upper in [(0, 1e-280), (1e138, 1.7e138), (-1e-200, 1e-250)]:
        schema = Schema(x=Real(lower, upper, missing=lower, impossible=lower), y=response)
        question = GramDesign(schema, terms=("x", "y"))
        middle = 0.5 * lower + 0.5 * upper
        for x in (lower, upper, middle, float("nan"), float("inf"), -1e308, 1e308):
            assert sums_of(question, {"x": x, "y": 0.5})[0] == UNIT * UNIT
    with pytest.raises(FormulaError, match="too close"):
        _ = GramDesign(DROPPING, formula="y ~ minimum(u, 0)").basis
    with pytest.raises(FormulaError, match="rescale"):
        _ = GramDesign(Schema(x=Real(1e308, 1.7e308), y=response), formula="y ~ x").basis


@pytest.mark.slow
def test_replacement_in_a_box_is_bounded_in_l1():
    """Corners and interior points of boxes of 2 to 7 entries never exceed the bound, and corners come near it."""
    rng = np.random.default_rng(3)
    for width in range(2, 8):
        unit = 8
        bounds = RowBounds(width * unit**2, width * unit, box=width, side=unit)
        bound = gram_sensitivity(bounds, neighbors="replace_one", norm="l1")
        upper = np.triu_indices(width)
        largest = 0
        for kind in range(4000):
            pair = rng.integers(-unit, unit + 1, (2, width)) if kind % 2 else unit * rng.choice([-1, 0, 1], (2, width))
            pair[:, 0] = unit
            if kind % 5 == 0:
                pair[1] = 0
            change = np.outer(pair[0], pair[0]) - np.outer(pair[1], pair[1])
            largest = max(largest, int(np.abs(change[upper]).sum()))
        assert largest <= bound < 2 * gram_sensitivity(bounds, neighbors="add_remove", norm="l1")
        assert largest >= 0.75 * bound


def test_a_split_needs_a_numeric_response_that_is_measured_last():
    """Such a formula is refused as collinear; the plan does not rely on that."""
    question = GramDesign(DROPPING, terms=("y", "y:c3"))
    with pytest.raises(NotProvedError, match="response"):
        measure(question, ZCDP(0.1), "add_remove", (0.5, 0.3, 0.2))
    question = GramDesign(DROPPING, terms=("x", "c2"))
    with pytest.raises(NotProvedError, match="response"):
        measure(question, ZCDP(0.1), "add_remove", (0.5, 0.3, 0.2))


SMALL = st.lists(
    st.tuples(st.just(4), st.integers(-4, 4), st.integers(-4, 4), st.sampled_from([(3, 0), (-1, 2), (-1, -2)])),
    min_size=2,
    max_size=6,
).map(lambda rows: [np.array([*row[:3], *row[3]], dtype=object) for row in rows])


@given(SMALL)
def test_gram_sensitivity_is_the_frobenius_bound(rows):
    """On a small grid, with the least product left out and put in, against all pairs of rows."""
    squared, absolute = 16 * 3 + 9, 4 * 3 + 3
    codes = [(3, 0), (-1, 2), (-1, -2)]
    inner = {a * c + b * d for a, b in codes for c, d in codes}
    least = min(abs(16 + s + t + i) for s in (-16, 16) for t in (-16, 16) for i in inner)
    bounds = RowBounds(squared, absolute, least)
    for z, w in product(rows, rows):
        change = np.outer(z, z) - np.outer(w, w)
        triangle = np.abs(np.triu(change)).sum()
        assert (change**2).sum() <= gram_sensitivity(bounds, neighbors="replace_one", norm="l2") ** 2
        assert triangle <= gram_sensitivity(bounds, neighbors="replace_one", norm="l1")
        assert (np.outer(z, z) ** 2).sum() <= gram_sensitivity(bounds, neighbors="add_remove", norm="l2") ** 2
        assert np.triu(np.abs(np.outer(z, z))).sum() <= gram_sensitivity(bounds, neighbors="add_remove", norm="l1")


def test_gram_sensitivity_in_closed_form():
    bounds = RowBounds(100, 14)
    assert gram_sensitivity(bounds, neighbors="add_remove", norm="l2") == 100
    assert gram_sensitivity(bounds, neighbors="replace_one", norm="l2") == 142
    assert gram_sensitivity(bounds, neighbors="add_remove", norm="l1") == Fraction(196 + 100, 2)
    assert gram_sensitivity(bounds, neighbors="replace_one", norm="l1") == 296
    assert gram_sensitivity(RowBounds(100, 14, 100), neighbors="replace_one", norm="l2") == 100
    with pytest.raises(OptionError, match="neighbors"):
        gram_sensitivity(bounds, neighbors="add", norm="l2")


@given(st.lists(st.tuples(st.fractions(0, 10**9), st.floats(1e-3, 1e3)), min_size=1, max_size=5))
def test_joint_bound_is_never_below_the_root_of_the_sum_of_squares(parts):
    scaled = [bound / Fraction(weight) for bound, weight in parts]
    joint = joint_sensitivity(parts, norm="l2")
    assert joint**2 >= sum(one**2 for one in scaled)
    assert joint <= sum(scaled) + Fraction(1, 2**39)
    assert joint_sensitivity(parts, norm="l1") == sum(scaled)
