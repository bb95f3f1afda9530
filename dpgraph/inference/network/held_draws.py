"""Storage of draws of tables: memory in doubles, or a temporary file in single precision.

Draws that would take more memory than they may (``dpgraph.memory``) go to a file without a name, mapped into memory and
gone with the draws; a question reads the tables it needs. The figure is known before any draw.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from typing import Any

import numpy as np

from dpgraph import memory
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Reals

#: Bytes of a number in memory and in a file, and of all that one variable has besides.
IN_MEMORY, IN_FILE, BYTES_PER_VARIABLE = 8, 4, 6000
#: Numbers that are held at once while draws are made, for each number of the part that is made: drawn counts, their
#: concentrations and their Dirichlet draws on the way.
WORKING = 9


def draws_bytes(network: Network, draws: int, at_once: int) -> tuple[int, int]:
    """About how much so many draws take in memory: the draws, and ``at_once`` numbers in work while they are made."""
    kept = network.cell_count * draws * IN_MEMORY
    return kept, at_once * WORKING * IN_MEMORY + len(network.families) * BYTES_PER_VARIABLE


class HeldDraws:
    """Draws of every table given counts, axes (chain, draw, variable, *parents), and the tables' means."""

    def __init__(self, network: Network, draws: int, at_once: int) -> None:
        self.on_disk = check_draws(network, draws, at_once)
        self._network, self._draws, self._means = network, draws, dict[str, Any]()
        self._tables: dict[str, Any] = {}
        shapes = {name: (1, draws, *network.shape(network.family(name))) for name in network.domain.names}
        if not self.on_disk:
            self._tables = {name: np.empty(shape) for name, shape in shapes.items()}
            return
        with tempfile.TemporaryFile() as file:  # the mapping keeps it
            whole = np.memmap(file, np.float32, "w+", shape=(network.cell_count * draws,))
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
        parts = zip(shapes.items(), np.split(whole, ends), strict=True)
        self._tables = {name: part.reshape(shape) for (name, shape), part in parts}

    def draw(self, name: str, start: int, concentration: Reals, rng: np.random.Generator) -> None:
        """Draws one table, from draw ``start`` on, given prior plus counts, axes (draw, variable, *parents)."""
        values = dirichlet_draws(concentration, rng)
        self._tables[name][0, start : start + len(values)] = values
        mean = (concentration / concentration.sum(axis=1, keepdims=True)).sum(axis=0)
        self._means[name] = self._means.get(name, 0.0) + mean / self._draws

    def finished(self, method: str) -> PosteriorDraws:
        """All draws, read-only."""
        for table in self._tables.values():
            table.setflags(write=False)
        return PosteriorDraws(self._network, FrozenMap(self._tables), method, means=FrozenMap(self._means))


def check_draws(network: Network, draws: int, at_once: int) -> bool:
    """Refuses draws without room in memory or on disk, before anything is charged; True if they go to a file."""
    kept, working = draws_bytes(network, draws, at_once)
    memory.check(working, "each step of these draws", "ask for fewer draws", InferenceError)
    if memory.fits(kept + working, InferenceError):
        return False
    needed = network.cell_count * draws * IN_FILE
    if needed > shutil.disk_usage(tempfile.gettempdir()).free:
        raise InferenceError(
            f"these draws would take about {memory.size(kept)} of memory or {memory.size(needed)} of the temporary "
            f"folder, which has less free: ask for fewer draws, or set {memory.VARIABLE} or TMPDIR"
        )
    return True
