"""Audits of procedures: whether what a price states is true, as far as it can be tried."""

from dpinfer.studies.auditing.audit import audit
from dpinfer.studies.auditing.result import Audit, Finding

__all__ = ["Audit", "Finding", "audit"]
