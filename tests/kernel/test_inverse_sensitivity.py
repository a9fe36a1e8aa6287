"""The score of a point is how many rows have to change until it is a quantile: by enumeration of all small tables."""

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement
from math import ceil

import numpy as np
import pytest

from dpinfer.kernel.quantiles import RankScores
from dpinfer.kernel.rows.tree import RANK

POINTS, MOST = 3, 7
PROBABILITIES = [Fraction(1, 2), Fraction(1, 4), Fraction(3, 4), Fraction(1, 8), Fraction(13, 16)]
TABLES = [rows for size in range(MOST + 1) for rows in combinations_with_replacement(range(POINTS), size)]


def distances(rows, p):
    """Distances in rank of all points of the grid, by the kernel's own scores, as fractions of a row."""
    scores = RankScores(np.array(rows, dtype=np.int32), POINTS, p)
    return [Fraction(-int(one), RANK) for one in scores.scores(scores.stretch(np.arange(POINTS)))]


def is_quantile(rows, point, p):
    """Whether no more than p N rows are below a point, and p N at least are not above it."""
    return sum(row < point for row in rows) <= p * len(rows) <= sum(row <= point for row in rows)


def changes(one, other, neighbors):
    """Rows that have to be added, removed or replaced from a table to another; None where there is no way."""
    left, right = Counter(one), Counter(other)
    gone, come = (left - right).total(), (right - left).total()
    if neighbors == "add_remove":
        return gone + come
    return gone if len(one) == len(other) else None


def fewest(rows, point, p, neighbors):
    """Fewest changes until a point is a quantile."""
    found = (changes(rows, one, neighbors) for one in TABLES if is_quantile(one, point, p))
    return min((one for one in found if one is not None), default=None)


@pytest.mark.parametrize("p", PROBABILITIES, ids=str)
def test_where_rows_are_replaced_the_distance_in_rank_rounded_up_is_how_many(p):
    for rows in TABLES[1:]:
        found = [fewest(rows, point, p, "replace_one") for point in range(POINTS)]
        assert found == [ceil(one) for one in distances(rows, p)]


@pytest.mark.parametrize("p", PROBABILITIES, ids=str)
def test_where_rows_are_added_and_removed_it_is_in_units_of_the_larger_of_p_and_one_minus_p(p):
    """One more may be needed, but not for the median. Tables of at most three rows: none enumerated is too far."""
    more = set()
    for rows in (one for one in TABLES if len(one) <= 3):
        expected = [ceil(one / max(p, 1 - p)) for one in distances(rows, p)]
        for point, least in enumerate(expected):
            if least < MOST - len(rows):
                more.add(fewest(rows, point, p, "add_remove") - least)
    assert more == ({0} if p == Fraction(1, 2) else {0, 1})
