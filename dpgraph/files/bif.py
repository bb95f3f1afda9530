"""Networks with their probabilities from BIF text, in linear time.

The grammar is that of the Interchange Format for Bayesian Networks 0.15 (Cozman 1996) as its writers use it: names may
be quoted; levels are separated by commas or, without any, by blanks; a table is given row by row, with a ``default``
for the rows left out, or whole after ``table`` with the variable's own levels slowest. Comments and properties are
skipped. Nothing else may stand between blocks or after the last. A header is checked before its table takes memory.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

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

#: One token: a mark, a quoted name, a comment, or the text up to the next of these, with the blanks before it. No two
#: alternatives begin alike and no repetition gives back, so that no character is read more than twice. (No group is
#: repeated possessively: Python before 3.11.5 then reads on where the group does not match.)
_TOKEN = re.compile(r'\s*+([{}()\[\];|]|"[^"\n]*+"|//[^\n]*+|/\*|(?:[^{}()\[\];|"/]++|/(?![/*]))+|"|\Z)')
#: The rest of a row as nearly all are: three times as fast as by tokens, which read the same.
_ROW = re.compile(r'([^{}()\[\];|"/]*+)\)([0-9eE.+\-,\s]*+);', re.ASCII)
_MARKS = frozenset("{}()[];|")
_DECIMALS = re.compile(r"[0-9eE.+\-,\s]*+", re.ASCII)


def read_bif(text: str) -> Probabilities:
    """Reads BIF text; the rounding of a row's sum, 1e-6 at most, is divided out.

    >>> text = "variable rain { type discrete [ 2 ] { no, yes }; } probability ( rain ) { table 0.8, 0.2; }"
    >>> read_bif(text).table("rain")
    array([0.8, 0.2])
    """
    declared = _Declared()
    later: list[int] = []
    tokens = _Tokens(text)
    for kind, begin in _blocks(tokens):
        if kind == "variable":
            _read_variable(tokens, begin, declared)
        elif not _read_table(tokens, begin, declared):
            _skip_block(tokens, depth=1)
            later.append(begin.at)
    for at in later:  # tables that stand before one of their variables
        tokens = _Tokens(text, at)
        begin = tokens.take()
        if not _read_table(tokens, begin, declared):
            with tokens.located(begin):
                declared.family(_header(_Tokens(text, at + len("probability")), declared))
    return declared.probabilities()


class _Declared:
    """The variables and tables of a file, in order; nothing is declared twice.

    Names that differ in case, width or composition alone are the same.
    """

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


class Token(NamedTuple):
    """A mark, ``"text"``, ``"quoted"`` or ``"end"``; its text; where it begins."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The first word of a text."""
        return self.text.split(None, 1)[0] if self.kind == "text" and self.text else ""


class _Tokens:
    """The tokens of a text from a place on, comments left out, and errors that name the line of the last."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self._at = text, at
        self.last = Token("end", "", at)

    def take(self) -> Token:
        """The next token; at the end of the text always ``"end"``."""
        while (token := self._token()) is None:
            pass
        self.last = token
        return token

    def _token(self) -> Token | None:
        """The next token, or None for a comment, which is passed over."""
        match = _TOKEN.match(self.text, self._at)
        assert match is not None  # one of the alternatives fits any character and the end
        found, begin = match[1], match.start(1)
        self._at = match.end()
        if found in _MARKS:
            return Token(found, found, begin)
        if not found:
            return Token("end", "", begin)
        if found == "/*":
            self._at = self.text.find("*/", self._at) + 2
            if self._at == 1:
                raise FileError(f"line {_line(self.text, begin)}: a comment has no end")
        elif found == '"':
            raise FileError(f"line {_line(self.text, begin)}: a quoted name has no end on its line")
        elif found[0] == '"':
            return Token("quoted", found[1:-1].strip(), begin)
        elif not found.startswith("//"):
            return Token("text", found.rstrip(), begin)
        return None

    def plain_row(self) -> tuple[str, str] | None:
        """The levels and the numbers of a row of which ``(`` was taken, if it has no quotes and no comments."""
        match = _ROW.match(self.text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return match[1], match[2]

    def expect(self, kind: str) -> None:
        """Takes a mark."""
        if self.take().kind != kind:
            raise self.error(f"{kind} is expected")

    def texts(self, end: str) -> list[Token]:
        """The texts and quoted names up to a mark, which is taken too."""
        found: list[Token] = []
        while self.take().kind in ("text", "quoted"):
            found.append(self.last)
        if self.last.kind != end:
            raise self.error(f"{end} is expected")
        return found

    def skip(self, end: str) -> None:
        """Passes over everything up to a mark, which is taken too."""
        begin = self.last
        while self.take().kind != end:
            if self.last.kind == "end":
                raise self.error(f"what begins here has no {end}", begin)

    def error(self, problem: str, token: Token | None = None) -> FileError:
        """A refusal that names the line and a few words of it."""
        at = self.last if token is None else token
        seen = "the text ends" if at.kind == "end" else f"there is {excerpt(at.text)}"
        return FileError(f"line {_line(self.text, at.at)}: {problem}, and {seen}")

    @contextmanager
    def located(self, token: Token) -> Iterator[None]:
        """Puts the line of a token before the words of a refusal; it is counted only then."""
        try:
            yield
        except DPGraphError as error:
            raise type(error)(f"line {_line(self.text, token.at)}: {error}") from None


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _blocks(tokens: _Tokens) -> Iterator[tuple[str, Token]]:
    """The kind of each block and where it begins; the networks are passed over."""
    networks = 0
    while (token := tokens.take()).kind != "end":
        kind = token.word
        if kind == "network":
            networks += 1
            _skip_block(tokens)
        if kind not in ("network", "variable", "probability") or networks > 1:
            raise tokens.error("one network, variables and probabilities are expected", token)
        if kind != "network":
            yield kind, token


def _skip_block(tokens: _Tokens, depth: int = 0) -> None:
    """Passes over the rest of a block, so many braces deep, whatever it holds."""
    begin = tokens.last
    while (token := tokens.take()).kind != "}" or depth > 1:
        depth += (token.kind == "{") - (token.kind == "}")
        if token.kind == "end":
            raise tokens.error("a block begins that has no end", begin)
        if token.word == "property":
            tokens.skip(";")


def _read_variable(tokens: _Tokens, begin: Token, declared: _Declared) -> None:
    """Declares a variable with its levels."""
    first = Token("text", begin.text.removeprefix("variable").strip(), begin.at)
    name = _whole([first, *tokens.texts("{")])
    levels: list[str] | None = None
    while (token := tokens.take()).kind != "}":
        if token.word == "property":
            tokens.skip(";")
        elif token.word == "type" and levels is None:
            levels = _typed(tokens, token)
        else:
            raise tokens.error("a variable has one type, properties and }")
    if levels is None:
        raise tokens.error("a variable begins that has no type", begin)
    with tokens.located(begin):
        declared.add(name, levels)


def _typed(tokens: _Tokens, token: Token) -> list[str]:
    """The levels of ``type discrete [ 2 ] { no, yes };``."""
    if token.text.split() != ["type", "discrete"]:
        raise tokens.error("type discrete is expected")
    tokens.expect("[")
    size = _whole(tokens.texts("]"))
    tokens.expect("{")
    levels = _listed(tokens.texts("}"))
    tokens.expect(";")
    if size != str(len(levels)):
        raise tokens.error(f"{len(levels)} levels are listed where {excerpt(size)} are declared", token)
    return levels


def _whole(pieces: list[Token]) -> str:
    """One name, quoted or not."""
    return " ".join(piece.text for piece in pieces if piece.text)


def _groups(pieces: list[Token]) -> list[list[Token]]:
    """Texts and quoted names between commas."""
    groups: list[list[Token]] = [[]]
    for piece in pieces:
        if piece.kind == "quoted":
            groups[-1].append(piece)
            continue
        for place, part in enumerate(piece.text.split(",")):
            if place:
                groups.append([])
            if part := part.strip():
                groups[-1].append(Token("text", part, piece.at))
    return groups


def _words(group: list[Token]) -> list[str]:
    """The names of a list without commas."""
    return [word for piece in group for word in ([piece.text] if piece.kind == "quoted" else piece.text.split())]


def _listed(pieces: list[Token]) -> list[str]:
    """The names of a list, between commas or, without any, between blanks."""
    groups = _groups(pieces)
    return _words(groups[0]) if len(groups) == 1 else [_whole(group) for group in groups]


def _read_table(tokens: _Tokens, begin: Token, declared: _Declared) -> bool:
    """Reads the table of a family, axes (variable, *parents); or its header alone, if a name is not declared yet."""
    if begin.text != "probability":
        raise tokens.error("probability ( is expected", begin)
    names = _header(tokens, declared)
    if any(declared.find(name) is None for name in names):
        return False
    with tokens.located(begin):
        family = declared.family(names)
    rows = _Rows(family, declared)
    rows.read(tokens)
    with tokens.located(begin):
        declared.tables[family] = _checked(family[0], rows.table())
    return True


def _checked(name: str, table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
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


def _header(tokens: _Tokens, declared: _Declared) -> list[str]:
    """The names in ``( rain | sky, month )`` or, as the oldest files have it, ``( rain sky month )``."""
    tokens.expect("(")
    own: list[Token] = []
    while tokens.take().kind in ("text", "quoted"):
        own.append(tokens.last)
    if tokens.last.kind == "|":
        names = [_whole(own), *_resolved(tokens, tokens.texts(")"), declared)]
    elif tokens.last.kind == ")":
        names = _resolved(tokens, own, declared)
    else:
        raise tokens.error(") is expected")
    tokens.expect("{")
    return names


def _resolved(tokens: _Tokens, pieces: list[Token], declared: _Declared) -> list[str]:
    """Names between commas; where one is not declared, the words in it."""
    if sum(len(piece.text) for piece in pieces) > MAX_HEADER:
        raise tokens.error("a table has too many parents", pieces[0])
    names: list[str] = []
    for group in _groups(pieces):
        name = _whole(group)
        names += [name] if declared.find(name) is not None else _words(group) or [""]
    return names


class _Rows:
    """The numbers of one probability table, in the order of the file, and the columns that they are of."""

    def __init__(self, family: Family, declared: _Declared) -> None:
        own, *parents = (declared.levels[name] for name in family)
        self.name, self.size, self.shape = family[0], len(own), tuple(map(len, (own, *parents)))
        self.positions = [{level: place for place, level in enumerate(levels)} for levels in parents]
        self.columns = int(np.prod(self.shape[1:], dtype=np.int64))
        self.given, self.places = bytearray(self.columns), array("q")
        self.numbers = array("d")
        self.default: list[float] | None = None
        self.whole: list[float] | None = None

    def read(self, tokens: _Tokens) -> None:
        """Reads the body of a block up to its end."""
        while (token := tokens.take()).kind != "}":
            word = token.word
            if token.kind == "(":
                self._row(tokens, token)
            elif word == "property":
                tokens.skip(";")
            elif word in ("table", "default"):
                self._unnamed(tokens, token, word)
            else:
                raise tokens.error("a row ( , table, default or } is expected")

    def _row(self, tokens: _Tokens, token: Token) -> None:
        """``(low, dry) 0.2, 0.8;``"""
        row = tokens.plain_row()
        names = self._names([Token("text", row[0].strip(), token.at)] if row else tokens.texts(")"), tokens)
        column = self._column(names, tokens)
        if self.given[column]:
            raise tokens.error("the row of these levels is there twice", token)
        self.given[column] = 1
        self.places.append(column)
        self.numbers.extend(_numbers(tokens, self.size) if row is None else _split(row[1], self.size, tokens, token))

    def _names(self, pieces: list[Token], tokens: _Tokens) -> list[str]:
        """The levels of the parents that a row names."""
        if sum(len(piece.text) for piece in pieces) > MAX_HEADER:
            raise tokens.error("a row names too many levels", pieces[0])
        if len(pieces) == 1 and pieces[0].kind == "text" and "," in pieces[0].text:
            return [name.strip() for name in pieces[0].text.split(",")]
        return _listed(pieces) if len(self.positions) > 1 else [_whole(pieces)]

    def _column(self, names: list[str], tokens: _Tokens) -> int:
        """The place of a row among the columns of the table."""
        if not self.positions or len(names) != len(self.positions):
            raise tokens.error(f"a row names a level of each of the {len(self.positions)} parents")
        column = 0
        for name, places in zip(names, self.positions, strict=True):
            if name not in places:
                raise tokens.error(f"{excerpt(name)} is not a level of its parent")
            column = column * len(places) + places[name]
        return column

    def _unnamed(self, tokens: _Tokens, token: Token, word: str) -> None:
        """``table`` and all numbers, or ``default`` and those of the rows left out."""
        taken = self.whole if word == "table" else self.default
        first = Token("text", token.text[len(word) :], token.at)
        numbers = _numbers(tokens, self.size if word == "default" else self.size * self.columns, first)
        if taken is not None:
            raise tokens.error(f"there is a second {word}", token)
        if word == "table":
            self.whole = numbers
        else:
            self.default = numbers

    def table(self) -> npt.NDArray[np.float64]:
        """The numbers, axes (variable, *parents); memory is taken for rows that are there, or for a default."""
        if self.whole is not None:
            if self.places or self.default is not None:
                raise FileError(f"the probability table of {excerpt(self.name)} is given whole and by rows")
            return np.array(self.whole).reshape(self.shape)
        if self.default is None and len(self.places) < self.columns:
            missing = self.columns - len(self.places)
            raise FileError(f"the probability table of {excerpt(self.name)} lacks {missing:,} of its rows")
        table = np.empty((self.size, self.columns))
        if self.default is not None:
            table[:] = np.array(self.default)[:, None]
        table[:, np.asarray(self.places)] = np.asarray(self.numbers).reshape(-1, self.size).T
        return table.reshape(self.shape)


def _numbers(tokens: _Tokens, size: int, first: Token | None = None) -> list[float]:
    """So many numbers, between commas or blanks, up to the end of a statement."""
    pieces = tokens.texts(";") if first is None else [first, *tokens.texts(";")]
    return _split(" ".join(piece.text for piece in pieces), size, tokens, pieces[0] if pieces else None)


def _split(text: str, size: int, tokens: _Tokens, at: Token | None) -> list[float]:
    """So many decimal numbers of ASCII digits, none absurdly long."""
    words = text.split(",") if "," in text else text.split()
    if len(words) != size:
        raise tokens.error(f"{len(words)} numbers stand where {size} belong", at)
    try:
        if _DECIMALS.fullmatch(text) and max(map(len, words), default=0) <= MAX_NUMBER:
            return list(map(float, words))
    except ValueError:
        pass
    raise tokens.error("decimal numbers are expected", at)
