"""From releases to estimates, intervals and tests: functions of released numbers alone."""

from dpinfer.inference.base import Inference
from dpinfer.inference.linear import LinearInference, linear_inference

__all__ = ["Inference", "LinearInference", "linear_inference"]
