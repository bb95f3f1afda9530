"""Noise sources for tests and studies: reproducible noise, and a source that records its calls.

Neither is private. Releases made with them say so, and the release path cannot import this module.

>>> import dpgraph as dg
>>> noise = dg.testing.SeededNoise(7)
>>> noise.private
False
"""

from __future__ import annotations

from dpgraph.privacy.exact_loss import RecordingNoise
from dpgraph.privacy.seeded_noise import SeededNoise

__all__ = ["RecordingNoise", "SeededNoise"]
