"""Numerical functions on arrays that know nothing of privacy or of models."""
