"""Procedures: questions, their measurement and their inference. The classes; the functions are in `dpinfer`."""

from dpinfer.procedures.procedure import Procedure

__all__ = ["Procedure"]
