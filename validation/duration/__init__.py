"""Survival analysis."""
