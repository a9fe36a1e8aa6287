"""The privacy kernel: the only code that reads rows or draws noise."""

from dpinfer.kernel.data import Data, PrivateData, PublicData
from dpinfer.kernel.run import run

__all__ = ["Data", "PrivateData", "PublicData", "run"]
