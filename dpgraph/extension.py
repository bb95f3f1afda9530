"""What a family or a mechanism outside the package is written with: two protocols, plain values, three registries.

docs/extending.md shows each; ``tests/test_extension.py`` is a family and two mechanisms written with these names alone.
"""

from __future__ import annotations

from dpgraph.files import documents as _documents  # noqa: F401  # registers the package's kinds before any other
from dpgraph.files.arrays import integers_of
from dpgraph.files.codecs import Codec, register_codecs
from dpgraph.files.plain import law_of, plain_law, register_law
from dpgraph.files.totals import check_total
from dpgraph.inference.draws import diagnostics_of
from dpgraph.inference.posterior import posterior_given
from dpgraph.mechanisms.additive.gaussian import gaussian_measurements
from dpgraph.mechanisms.additive.laplace import laplace_measurements
from dpgraph.mechanisms.reproduction import register_mechanism
from dpgraph.privacy.descriptions import Block, Description, Statistics, noisy_value, partition_movement
from dpgraph.privacy.measurements import NoiseLaw
from dpgraph.privacy.noise import Noise, calibrated_gaussian_scale, calibrated_scale, selection_scale
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Joint,
    Measurement,
    Movement,
    Provenance,
    Selection,
    SumZeroLaplace,
    exact,
)
from dpgraph.privacy.release import Mechanism
from dpgraph.structure.frozen import FrozenMap

__all__ = [
    "Block",
    "Codec",
    "Description",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "FrozenMap",
    "Joint",
    "Measurement",
    "Mechanism",
    "Movement",
    "Noise",
    "NoiseLaw",
    "Provenance",
    "Selection",
    "Statistics",
    "SumZeroLaplace",
    "calibrated_gaussian_scale",
    "calibrated_scale",
    "check_total",
    "diagnostics_of",
    "exact",
    "gaussian_measurements",
    "integers_of",
    "laplace_measurements",
    "law_of",
    "noisy_value",
    "partition_movement",
    "plain_law",
    "posterior_given",
    "register_codecs",
    "register_law",
    "register_mechanism",
    "selection_scale",
]
