"""Exact decimals and directed rounding, by hand."""

from fractions import Fraction

import pytest

from dpinfer.errors import PrivacyUnitError
from dpinfer.privacy.accounting import Cost, choice_epsilon
from dpinfer.privacy.exact import binary, decimal, digits_below, float_above, float_below, fraction_of
from dpinfer.privacy.units import ZCDP, PureDP, privacy_from_dict


def test_a_float_is_the_decimal_that_it_prints_as_or_its_binary_value():
    assert decimal(0.1) == Fraction(1, 10)
    assert binary(0.5) == Fraction(1, 2)
    assert binary(0.1) != decimal(0.1)


def test_digits_are_cut_toward_zero():
    assert digits_below(2 / 3, 3) == 0.666
    assert digits_below(2 / 3) <= 2 / 3


def test_floats_next_to_a_fraction():
    third = Fraction(1, 3)
    assert decimal(float_below(third)) < third < decimal(float_above(third))
    assert float_below(Fraction(1, 10)) == float_above(Fraction(1, 10)) == 0.1


def test_stored_fractions():
    assert fraction_of("1/4") == Fraction(1, 4)
    for text in ("1e9", "-1", "1/-4", 3, None):
        with pytest.raises(ValueError, match="stored"):
            fraction_of(text)


def test_amounts_and_costs_by_hand():
    assert privacy_from_dict({"unit": "ZCDP", "rho": 0.1}) == ZCDP(0.1)
    with pytest.raises(PrivacyUnitError):
        privacy_from_dict({"unit": "ZCDP", "epsilon": 0.1})
    selection = Cost(PureDP(1.0), pure_epsilon=Fraction(1), rho=Fraction(1, 8))
    assert selection.describe() == "1-DP (pure); also 0.125-zCDP"
    assert float(choice_epsilon(ZCDP(0.125), "gumbel")) == pytest.approx(1.0, abs=1e-9)
