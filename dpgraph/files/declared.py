"""Variables and tables as BIF declares them, checked one by one, and the network that they make.

What a header claims is checked before its table takes memory.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from dpgraph.files.limits import excerpt
from dpgraph.privacy.errors import DPGraphError, FileError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network, check_cells
from dpgraph.structure.tables import Probabilities

#: The most variables of a file, and the most cells of all its tables together.
MAX_VARIABLES = 10_000
MAX_CELLS = 4_000_000
#: The longest name of a variable or a level, in characters.
MAX_NAME = 200
#: The longest number, in characters.
MAX_NUMBER = 64
#: How far from 1 the probabilities of a variable's levels may sum: rounding of the text, not another law.
TOLERANCE = 1e-6

_DECIMALS = re.compile(r"[0-9eE.+\-,\s]*+", re.ASCII)


class Declared:
    """The variables of a file, in order, with their levels; nothing is declared twice."""

    def __init__(self, *, cases_differ: bool) -> None:
        self._key = str if cases_differ else _folded
        self._with_table: set[str] = set()
        self.levels: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, str] = {}
        self._cells = 0

    def add(self, name: str, levels: Sequence[str]) -> None:
        """Declares a variable."""
        for word in (name, *levels):
            check_name(word)
        if (key := self._key(name)) in self._names:
            raise FileError(f"variable {excerpt(name)} is declared twice")
        if not levels or len(set(levels)) < len(levels):
            raise FileError(f"variable {excerpt(name)} has no levels, or one of them twice")
        if len(self.levels) == MAX_VARIABLES:
            raise FileError(f"there are more than {MAX_VARIABLES:,} variables")
        self._names[key] = name
        self.levels[name] = tuple(levels)

    def find(self, text: str) -> str | None:
        """The variable of a name; None if there is none."""
        return text if text in self.levels else self._names.get(self._key(text))

    def family(self, names: Sequence[str]) -> Family:
        """A variable and its parents, whose table may take its memory."""
        found = [self.find(name) for name in names]
        for name, known in zip(names, found, strict=True):
            if known is None:
                raise FileError(f"no variable is called {excerpt(name)}")
        family = tuple(name for name in found if name is not None)
        if len(set(family)) < len(family):
            raise FileError(f"the probability table of {excerpt(family[0])} names a variable twice")
        if family[0] in self._with_table:
            raise FileError(f"{excerpt(family[0])} has a second probability table")
        self._with_table.add(family[0])
        cells = math.prod(len(self.levels[name]) for name in family)
        check_cells(family, cells)
        self._cells += cells
        if self._cells > MAX_CELLS:
            raise FileError(f"the probability tables have more than {MAX_CELLS:,} cells together")
        return family

    def probabilities(self, tables: Mapping[Family, npt.NDArray[np.float64]]) -> Probabilities:
        """The network with its probabilities, each table an array of axes (variable, *parents) that sums to 1."""
        if not self.levels:
            raise FileError("no variable is declared; is the file of this format, and whole?")
        parents = {name: above for name, *above in tables}
        if bare := [name for name in self.levels if name not in parents]:
            raise FileError(f"no probability table for {excerpt(', '.join(bare[:12]))}; is the file cut short?")
        network = Network.of(self.levels, parents)
        return Probabilities(network, FrozenMap((name, table) for (name, *_), table in tables.items()))


@contextmanager
def located(line: Callable[[], int]) -> Iterator[None]:
    """Puts the line before the words of a refusal; it is counted only then."""
    try:
        yield
    except DPGraphError as error:
        raise type(error)(f"line {line()}: {error}") from None


def check_name(name: str) -> None:
    """Refuses a name that is empty, too long, or has characters that nobody sees, such as line breaks."""
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise FileError(f"a name has 1 to {MAX_NAME} printable characters; got {excerpt(name)}")


def checked_table(name: str, table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The probabilities of a variable, axes (variable, *parents), with the rounding of their text divided out."""
    if not np.isfinite(table).all() or (table < 0).any():
        raise FileError(f"the probability table of {excerpt(name)} has an entry that is no probability")
    sums = table.sum(axis=0)
    worst = np.abs(sums - 1).max()
    if worst > TOLERANCE:
        raise FileError(
            f"the probability table of {excerpt(name)} does not sum to 1 over its own levels: one sum is off by "
            f"{worst:.2g}, and rounding to {TOLERANCE:g} is allowed"
        )
    return table / sums


def decimals(text: str, words: list[str]) -> list[float] | None:
    """The numbers that a text was cut into; None if one is no decimal number of ASCII digits, or absurdly long.

    >>> decimals("0.2 8e-1", ["0.2", "8e-1"]), decimals("nan", ["nan"])
    ([0.2, 0.8], None)
    """
    if not _DECIMALS.fullmatch(text) or max(map(len, words), default=0) > MAX_NUMBER:
        return None
    try:
        return list(map(float, words))
    except ValueError:
        return None


def _folded(name: str) -> str:
    """What two names share that are told apart by case, width or composition alone."""
    return unicodedata.normalize("NFKC", name).casefold()
