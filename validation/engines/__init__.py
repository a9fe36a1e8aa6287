"""Rows larger than memory, and engines: time, memory, and where the limits are."""
