"""The privacy kernel: the only code that reads rows or draws noise."""

from dpinfer.mechanisms.data import Data, PrivateData, PublicData
from dpinfer.mechanisms.kernel import run

__all__ = ["Data", "PrivateData", "PublicData", "run"]
