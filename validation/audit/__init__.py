"""Audits of every procedure, and of planted bugs."""
