"""What came out: noise laws, and releases that remember them."""

from dpinfer.release.laws import NoiseLaw, StageRelease
from dpinfer.release.release import Release, read_release

__all__ = ["NoiseLaw", "Release", "StageRelease", "read_release"]
