"""Codebooks: declarations from files that describe data, and back. No row is read."""

from dpinfer.codebooks.files import read_codebook, write_codebook

__all__ = ["read_codebook", "write_codebook"]
