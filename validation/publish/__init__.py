"""Writes the measured sections of README and docs."""
