"""Tests: sizes, powers, effect sizes and their intervals."""
