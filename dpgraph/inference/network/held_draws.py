"""Where draws of tables are held, and what they take: memory in doubles, or a temporary file in single precision.

Draws that would take more memory than they may (``dpgraph.memory``) go to a file without a name, mapped into memory and
gone with the draws; a question reads the tables it needs. The figure is known before any draw.
"""

from __future__ import annotations

import shutil
import tempfile

import numpy as np

from dpgraph import memory
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Reals

#: Bytes of a number in memory and in a file, and of all that one variable has besides.
IN_MEMORY, IN_FILE, BYTES_PER_VARIABLE = 8, 4, 6000
#: Numbers that are held at once while draws are made, for each number of the part that is made: drawn counts, their
#: concentrations and their Dirichlet draws on the way.
WORKING = 9


def draws_bytes(network: Network, draws: int, at_once: int) -> tuple[int, int]:
    """About how much draws take in memory: what is kept of them, and what is held besides while they are made.

    Args:
        network: The DAG over its domain.
        draws: How many, of all chains.
        at_once: How many numbers are made at once.
    """
    kept = network.cell_count * draws * IN_MEMORY
    return kept, at_once * WORKING * IN_MEMORY + len(network.families) * BYTES_PER_VARIABLE


class HeldDraws:
    """Arrays for the draws of every table, axes (chain, draw, variable, *parents), to be filled and then frozen.

    Raises:
        InferenceError: If neither memory nor the temporary folder has room for them; nothing is allocated then.
    """

    def __init__(self, network: Network, draws: int, at_once: int) -> None:
        self.on_disk = check_draws(network, draws, at_once)
        names = network.domain.names
        shapes = [(1, draws, *network.shape(network.family(name))) for name in names]
        if not self.on_disk:
            self._tables = {name: np.empty(shape) for name, shape in zip(names, shapes, strict=True)}
            return
        with tempfile.TemporaryFile() as file:  # the mapping keeps it
            whole = np.memmap(file, np.float32, "w+", shape=(network.cell_count * draws,))
        self._tables, start = {}, 0
        for name, shape in zip(names, shapes, strict=True):
            size = int(np.prod(shape))
            self._tables[name] = whole[start : start + size].reshape(shape)
            start += size

    def put(self, name: str, start: int, values: Reals) -> None:
        """Keeps some draws of one table, axes (draw, variable, *parents), from the given draw on."""
        self._tables[name][0, start : start + len(values)] = values

    def finished(self) -> FrozenMap[str, Reals]:
        """All tables, read-only."""
        for table in self._tables.values():
            table.setflags(write=False)
        return FrozenMap(self._tables)


def check_draws(network: Network, draws: int, at_once: int) -> bool:
    """Refuses draws that neither memory nor the temporary folder has room for; whoever spends before drawing asks this.

    Args:
        network: The DAG over its domain.
        draws: How many, of all chains.
        at_once: How many numbers are made at once.

    Returns:
        Whether they go to a file.

    Raises:
        InferenceError: With the figure.
    """
    kept, working = draws_bytes(network, draws, at_once)
    memory.check(working, "each step of these draws", "ask for fewer draws", InferenceError)
    on_disk = not memory.fits(kept + working, InferenceError)
    if on_disk:
        _check_room(network.cell_count * draws * IN_FILE, kept)
    return on_disk


def _check_room(needed: int, kept: int) -> None:
    """Refuses draws that fit neither memory nor the temporary folder.

    Raises:
        InferenceError: With what they take, and no word of how much room there is.
    """
    room = shutil.disk_usage(tempfile.gettempdir()).free
    if needed > room:
        raise InferenceError(
            f"these draws would take about {memory.size(kept)} of memory or {memory.size(needed)} of the temporary "
            f"folder, which has less free: ask for fewer draws, or set {memory.VARIABLE} or TMPDIR"
        )


def doubles(table: Reals) -> Reals:
    """A table of draws in doubles, its columns summing to 1: as it is, or read from a file."""
    if not isinstance(table, np.memmap):
        return table
    read = np.asarray(table, np.float64)
    return read / read.sum(axis=2, keepdims=True)


def read_only(table: Reals) -> bool:
    """Whether an array can be kept as it is: on disk, or its own and read-only."""
    mine = table.flags.owndata and table.dtype == np.float64 and table.flags.c_contiguous
    return isinstance(table, np.memmap) or (isinstance(table, np.ndarray) and mine and not table.flags.writeable)
