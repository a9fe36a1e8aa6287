"""Why a claim does not hold, in words; what it measured stands beside it on the page of claims."""

from __future__ import annotations

__all__ = ["REASONS"]

REASONS: dict[str, str] = {}
"""By the claim; a claim that holds has none."""
