"""Sweeps: a run asks a share of their cases, and twelve runs in a row ask them all."""

import zlib

from tests.conftest import in_turn

CASES = [f"test_of_a_kind[{place}]" for place in range(600)]


def test_every_case_has_its_turn_and_a_turn_asks_a_share_alone():
    for shares in (2, 3, 4, 6, 12):
        asked = [[case for case in CASES if in_turn(case, shares, str(turn))] for turn in range(12)]
        assert set().union(*asked) == set(CASES), shares
        assert all(0.6 < shares * len(one) / len(CASES) < 1.4 for one in asked), shares
    assert all(in_turn(case, 6, "all") for case in CASES)


def test_a_turn_is_the_number_of_the_commit_whatever_its_size():
    case = CASES[7]
    assert in_turn(case, 4, str(zlib.crc32(case.encode()) + 4 * 10**9))
