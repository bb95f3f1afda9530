"""The names to write a family or a mechanism outside the package with: two protocols, plain values, three registries.

docs/extending.md shows each; ``tests/test_extension.py`` is a family and two mechanisms written with these names alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dpgraph.files.documents  # noqa: F401  # registers the package's kinds before any other
from dpgraph.lazy import lazy_names

if TYPE_CHECKING:  # the one list of names
    # isort: off
    from dpgraph.files.arrays import integers_of as integers_of
    from dpgraph.files.codecs import Codec as Codec, register_codecs as register_codecs
    from dpgraph.files.releases import check_total as check_total
    from dpgraph.inference.draws import Draws as Draws
    from dpgraph.inference.posterior import posterior_given as posterior_given
    from dpgraph.mechanisms.additive.gaussian import gaussian_measurements as gaussian_measurements
    from dpgraph.mechanisms.additive.laplace import laplace_measurements as laplace_measurements
    from dpgraph.mechanisms.reproduction import register_mechanism as register_mechanism
    from dpgraph.privacy.measurements import Block as Block, Description as Description
    from dpgraph.privacy.measurements import DiscreteGaussian as DiscreteGaussian, DiscreteLaplace as DiscreteLaplace
    from dpgraph.privacy.measurements import Joint as Joint, Measurement as Measurement, Movement as Movement
    from dpgraph.privacy.measurements import NoiseLaw as NoiseLaw, Selection as Selection, Statistics as Statistics
    from dpgraph.privacy.measurements import SumZeroLaplace as SumZeroLaplace, noisy_value as noisy_value
    from dpgraph.privacy.measurements import partition_movement as partition_movement
    from dpgraph.privacy.noise import Noise as Noise, calibrated_gaussian_scale as calibrated_gaussian_scale
    from dpgraph.privacy.noise import calibrated_scale as calibrated_scale, selection_scale as selection_scale
    from dpgraph.privacy.records import Event as Event, Provenance as Provenance, exact as exact
    from dpgraph.privacy.release import Mechanism as Mechanism
    from dpgraph.privacy.structural import law_of as law_of, plain_law as plain_law, register_law as register_law
    from dpgraph.structure.frozen import FrozenMap as FrozenMap

__getattr__, __dir__ = lazy_names(__name__)
