"""What came out: noise laws, and releases that remember them."""

from dpinfer.release.laws import NoiseLaw
from dpinfer.release.release import Release, read_release
from dpinfer.release.stage import StageRelease

__all__ = ["NoiseLaw", "Release", "StageRelease", "read_release"]
