"""What was measured and what came out: measurements, noise laws, releases."""

from dpinfer.release.laws import NoiseLaw
from dpinfer.release.measurement import Measurement
from dpinfer.release.registry import register_inference
from dpinfer.release.release import Release, read_release

__all__ = ["Measurement", "NoiseLaw", "Release", "read_release", "register_inference"]
