"""Procedures: questions, their measurement and their inference. The classes; the functions are in `dpinfer`."""

from dpinfer.procedures.bounds import Bounds
from dpinfer.procedures.expfam import ExpFam
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.quality import DataQuality

__all__ = [
    "Bounds",
    "DataQuality",
    "ExpFam",
    "Procedure",
]
