"""Networks with their probabilities from BIF text, in linear time.

The grammar is that of the Interchange Format for Bayesian Networks 0.15 (Cozman 1996) as its writers use it: quoted
names, levels between commas or blanks, tables by rows, with a ``default``, or whole, the own levels slowest. A header
is checked before its table takes memory.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dpgraph.files.limits import excerpt
from dpgraph.privacy.errors import DPGraphError, FileError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import MAX_FAMILY, Family, Network, check_cells
from dpgraph.structure.tables import Probabilities

#: The most variables of a file, and the most cells of all its tables together.
MAX_VARIABLES = 10_000
MAX_CELLS = 4_000_000
#: The longest name of a variable or a level, the longest list of parents or of their levels, and the longest number,
#: in characters.
MAX_NAME = 200
MAX_HEADER = MAX_FAMILY * (MAX_NAME + 2)
MAX_NUMBER = 64
#: How far from 1 the probabilities of a variable's levels may sum: rounding of the text, not another law.
TOLERANCE = 1e-6
#: How each block is written.
FORMS = {
    "network": "network NAME { property TEXT; }",
    "variable": "variable NAME { type discrete [ 2 ] { no, yes }; }",
    "probability": "probability ( CHILD | PARENT ) { (LEVEL) 0.2, 0.8; }",
}
#: Marks and blanks of a quoted name are read as lone surrogates, which no file holds, and its begin as another.
_QUOTED = "\udfff"
_SHIELDS = {ord(mark): 0xDC00 + ord(mark) for mark in "{}()[];|," + string.whitespace}
_SHOWN = {shield: mark for mark, shield in _SHIELDS.items()} | {ord(_QUOTED): None}
# No repetition gives back what another could take, so that no character is read more than twice. (No group is repeated
# possessively: Python before 3.11.5 then reads on where the group does not match.)
_QUOTE_OR_COMMENT = re.compile(r'"([^"\n]*+)"|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/|"|/\*')
_PROPERTY = re.compile(r"(?<=[{;])\s*+property\b[^{};]*+(?:\{[^{};]*+\}[^{};]*+)*;")
_TEXT = r"[^{}()\[\];|]*+"
_BLOCK = re.compile(
    rf"(?:(network|probability)\b([^{{}}]*+)\{{\s*+([^{{}}]*+)\}}|variable\b(?P<name>{_TEXT})"
    rf"\{{\s*+type\s++discrete\s*+\[(?P<size>{_TEXT})\]\s*+\{{(?P<levels>{_TEXT})\}}\s*+;\s*+\}}"
    r"|(?P<broken>network|variable|probability)\b)\s*+"
)
_HEADER = re.compile(rf"\s*+\(({_TEXT})(?:\|({_TEXT}))?\)\s*+")
_ROW = re.compile(rf"(?:\(({_TEXT})\)|(table|default)\s)({_TEXT});\s*+")
_DECIMALS = re.compile(r"[0-9eE.+\-,\s]*+", re.ASCII)


def read_bif(text: str) -> Probabilities:
    """Reads BIF text; the rounding of a row's sum, 1e-6 at most, is divided out."""
    source, declared = _Source(text), _Declared()
    try:
        _read(source, declared)
    except DPGraphError as error:
        raise type(error)(f"line {_line(source.text, source.at)}: {error}") from None
    return declared.probabilities()


class _Source:
    """The text of a file without comments and properties, its quoted names shielded; and the place that is read."""

    def __init__(self, text: str) -> None:
        def plain(found: re.Match[str]) -> str:
            if found[1] is not None:
                return f" {_QUOTED}{found[1].strip().translate(_SHIELDS)} "
            if found[0] in ('"', "/*"):
                what = "a comment has no end" if found[0] == "/*" else "a quoted name has no end on its line"
                raise FileError(f"line {_line(text, found.start())}: {what}")
            return " " + _line_breaks(found)

        self.text = _PROPERTY.sub(_line_breaks, _QUOTE_OR_COMMENT.sub(plain, text))
        self.at = 0

    def matches(self, pattern: re.Pattern[str], at: int, end: int, expected: str) -> Iterator[re.Match[str]]:
        """The matches from one place to another; nothing may stand between them."""
        while at < end:
            self.at = at
            if (match := pattern.match(self.text, at, end)) is None:
                seen = self.text[at : at + MAX_NAME].splitlines()[0]
                raise FileError(f"{expected}, and there is {excerpt(_name(seen))}")
            yield match
            at = match.end()


def _line_breaks(found: re.Match[str]) -> str:
    """The line breaks of a comment, so that lines keep their numbers."""
    return "\n" * found[0].count("\n")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _name(text: str) -> str:
    return text.strip() if text.isascii() else text.translate(_SHOWN).strip()


def _listed(text: str) -> list[str]:
    """The names of a list, between commas or, without any, between blanks."""
    return list(map(_name, text.split(",") if "," in text else text.split()))


class _Declared:
    """The variables and tables of a file, in order; no name twice, by case, width and composition."""

    def __init__(self) -> None:
        self._with_table: set[str] = set()
        self._names: dict[str, str] = {}
        self._cells = 0
        self.levels: dict[str, tuple[str, ...]] = {}
        self.tables: dict[Family, npt.NDArray[np.float64]] = {}

    def add(self, name: str, levels: Sequence[str]) -> None:
        """Declares a variable; its name and its levels are printable, so that no line break hides in them."""
        for word in (name, *levels):
            if not word or len(word) > MAX_NAME or not word.isprintable():
                raise FileError(f"a name has 1 to {MAX_NAME} printable characters; got {excerpt(word)}")
        if (key := _folded(name)) in self._names:
            raise FileError(f"variable {excerpt(name)} is declared twice")
        if not levels or len(set(levels)) < len(levels):
            raise FileError(f"variable {excerpt(name)} has no levels, or one of them twice")
        if len(self.levels) == MAX_VARIABLES:
            raise FileError(f"there are more than {MAX_VARIABLES:,} variables")
        self._names[key] = name
        self.levels[name] = tuple(levels)

    def find(self, text: str) -> str | None:
        """The variable of a name; None if there is none."""
        return text if text in self.levels else self._names.get(_folded(text))

    def family(self, names: Sequence[str]) -> Family:
        """A variable and its parents, whose table may take its memory."""
        known: list[str] = []
        for name in names:
            if (found := self.find(name)) is None:
                raise FileError(f"no variable is called {excerpt(name)}")
            known.append(found)
        family = tuple(known)
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

    def probabilities(self) -> Probabilities:
        """The network with its probabilities."""
        if not self.levels:
            raise FileError("no variable is declared; is the file of this format, and whole?")
        parents = {name: above for name, *above in self.tables}
        if bare := [name for name in self.levels if name not in parents]:
            raise FileError(f"no probability table for {excerpt(', '.join(bare[:12]))}; is the file cut short?")
        network = Network.of(self.levels, parents)
        return Probabilities(network, FrozenMap((name, table) for (name, *_), table in self.tables.items()))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _read(source: _Source, declared: _Declared) -> None:
    networks = 0
    tables: list[re.Match[str]] = []
    begin = len(source.text) - len(source.text.lstrip())
    for block in source.matches(
        _BLOCK, begin, len(source.text), "one network, variables and probabilities are expected"
    ):
        if broken := block["broken"]:
            raise FileError(f"a block of this form is expected, whole: {FORMS[broken]}")
        networks += block[1] == "network"
        if networks > 1:
            raise FileError("one network is expected, and there is a second")
        if block[1] == "probability":
            tables.append(block)
        elif block[1] is None:
            name, levels, size = _name(block["name"]), _listed(block["levels"]), block["size"].strip()
            if size != str(len(levels)):
                raise FileError(f"{len(levels)} levels are listed where {excerpt(size)} are declared")
            declared.add(name, levels)
    for block in tables:
        source.at = block.start()
        family = declared.family(_header(block[2], declared))
        rows = _Rows(family, declared)
        for row in source.matches(_ROW, block.start(3), block.end(3), "a row ( , table, default or } is expected"):
            rows.add(*row.groups())
        source.at = block.start()
        declared.tables[family] = _checked(family[0], rows.table())


def _header(text: str, declared: _Declared) -> list[str]:
    """The names in ``( rain | sky, month )`` or, as the oldest files have it, ``( rain sky month )``."""
    found = _HEADER.fullmatch(text)
    if found is None:
        raise FileError(f"a block of this form is expected, whole: {FORMS['probability']}")
    if len(text) > MAX_HEADER:
        raise FileError("a table has too many parents")
    names = [] if found[2] is None else [_name(found[1])]
    for part in (found[1] if found[2] is None else found[2]).split(","):  # a name, or the words in it
        names += [_name(part)] if declared.find(_name(part)) is not None else list(map(_name, part.split())) or [""]
    return names


def _checked(name: str, table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The probabilities of a variable, axes (variable, *parents), with the rounding of their text divided out."""
    if not np.isfinite(table).all() or (table < 0).any():
        raise FileError(f"the probability table of {excerpt(name)} has an entry that is not a probability")
    sums = table.sum(axis=0)
    worst = np.abs(sums - 1).max()
    if worst > TOLERANCE:
        raise FileError(
            f"the probability table of {excerpt(name)} does not sum to 1 over its own levels: one sum is off by "
            f"{worst:.2g}, and rounding to {TOLERANCE:g} is allowed"
        )
    return table / sums


class _Rows:
    """The numbers of one probability table, in the order of the file, and the columns that they are of."""

    def __init__(self, family: Family, declared: _Declared) -> None:
        own, *parents = (declared.levels[name] for name in family)
        self.name, self.size, self.shape = family[0], len(own), tuple(map(len, (own, *parents)))
        self.positions = [{level: place for place, level in enumerate(levels)} for levels in parents]
        self.columns = math.prod(self.shape[1:])
        self.given, self.places = bytearray(self.columns), array("q")
        self.numbers = array("d")
        self.unnamed: dict[str, list[float]] = {}

    def add(self, levels: str | None, word: str, numbers: str) -> None:
        """``(low, dry) 0.2, 0.8;`` or, after a word, ``default 0.2, 0.8;`` and ``table 0.2, 0.8;``."""
        if levels is not None:
            column = self._column(levels)
            if self.given[column]:
                raise FileError("the row of these levels is there twice")
            self.given[column] = 1
            self.places.append(column)
            self.numbers.extend(_decimals(numbers, self.size))
        elif word in self.unnamed:
            raise FileError(f"there is a second {word}")
        else:
            self.unnamed[word] = _decimals(numbers, self.size if word == "default" else self.size * self.columns)

    def _column(self, levels: str) -> int:
        """The place of a row among the columns of the table."""
        if len(levels) > MAX_HEADER:
            raise FileError("a row names too many levels")
        names = _listed(levels) if len(self.positions) > 1 or "," in levels else [_name(levels)]
        if not self.positions or len(names) != len(self.positions):
            raise FileError(f"a row names a level of each of the {len(self.positions)} parents")
        column = 0
        for name, places in zip(names, self.positions, strict=True):
            if name not in places:
                raise FileError(f"{excerpt(name)} is not a level of its parent")
            column = column * len(places) + places[name]
        return column

    def table(self) -> npt.NDArray[np.float64]:
        """The numbers, axes (variable, *parents); memory is taken for rows that are there, or for a default."""
        if (whole := self.unnamed.get("table")) is not None:
            if self.places or len(self.unnamed) > 1:
                raise FileError(f"the probability table of {excerpt(self.name)} is given whole and by rows")
            return np.array(whole).reshape(self.shape)
        default = self.unnamed.get("default")
        if default is None and len(self.places) < self.columns:
            missing = self.columns - len(self.places)
            raise FileError(f"the probability table of {excerpt(self.name)} lacks {missing:,} of its rows")
        table = np.empty((self.size, self.columns))
        if default is not None:
            table[:] = np.array(default)[:, None]
        table[:, np.asarray(self.places)] = np.asarray(self.numbers).reshape(-1, self.size).T
        return table.reshape(self.shape)


def _decimals(text: str, size: int) -> list[float]:
    """So many decimal numbers of ASCII digits between commas or blanks, none absurdly long."""
    words = text.split(",") if "," in text else text.split()
    if len(words) != size:
        raise FileError(f"{len(words)} numbers stand where {size} belong")
    try:
        if _DECIMALS.fullmatch(text) and max(map(len, words), default=0) <= MAX_NUMBER:
            return list(map(float, words))
    except ValueError:
        pass
    raise FileError("decimal numbers are expected")
