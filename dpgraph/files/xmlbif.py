"""Networks with their probabilities from XMLBIF 0.3 (Cozman 1998), in linear time.

A table holds the numbers of one parent configuration after the other, the last parent fastest, the variable's own
levels fastest of all. The text may declare no entities, so that it cannot expand, and refers to no other file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from dpgraph.files.declared import Declared, checked_table, decimals, located
from dpgraph.files.limits import excerpt
from dpgraph.privacy.errors import FileError
from dpgraph.structure.network import Family
from dpgraph.structure.tables import Probabilities

#: How deep elements may lie in one another; those that are read lie four deep.
MAX_DEPTH = 16
#: The most attributes that the text may declare; XMLBIF's own declaration has two.
MAX_ATTRIBUTES = 16

#: What is read, by what it lies in.
_LEAVES = {
    ("VARIABLE", "NAME"),
    ("VARIABLE", "OUTCOME"),
    ("DEFINITION", "FOR"),
    ("DEFINITION", "GIVEN"),
    ("DEFINITION", "TABLE"),
}


@dataclass
class _Block:
    """A variable or a definition: the texts in it by their element."""

    kind: str
    line: int
    texts: dict[str, list[str]] = field(default_factory=dict)

    def one(self, element: str) -> str:
        """The only text of an element."""
        found = self.texts.get(element, [])
        if len(found) != 1:
            raise FileError(f"a {self.kind.lower()} has one {element}, not {len(found)}")
        return found[0]


def read_xmlbif(text: str) -> Probabilities:
    """Reads XMLBIF text.

    Raises:
        FileError: With the line, if it is not XMLBIF, is cut short, declares something twice, or is too large.
        NetworkError: If a table is too large, or the graph has a cycle.

    >>> variable = "<VARIABLE><NAME>rain</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>"
    >>> definition = "<DEFINITION><FOR>rain</FOR><TABLE>0.8 0.2</TABLE></DEFINITION>"
    >>> read_xmlbif(f"<BIF><NETWORK>{variable}{definition}</NETWORK></BIF>").table("rain")
    array([0.8, 0.2])
    """
    blocks = _Document(text).blocks
    declared = Declared(cases_differ=True)
    for block in blocks:
        if block.kind == "VARIABLE":
            with located(lambda block=block: block.line):
                declared.add(block.one("NAME"), block.texts.get("OUTCOME", []))
    tables: dict[Family, npt.NDArray[np.float64]] = {}
    for block in blocks:
        if block.kind == "DEFINITION":
            with located(lambda block=block: block.line):
                family = declared.family([block.one("FOR"), *block.texts.get("GIVEN", [])])
                tables[family] = _table(block.one("TABLE"), family, declared)
    return declared.probabilities(tables)


def _table(text: str, family: Family, declared: Declared) -> npt.NDArray[np.float64]:
    """A table of axes (variable, *parents) from its numbers."""
    own, *parents = (len(declared.levels[name]) for name in family)
    words = text.split()
    if len(words) != math.prod((own, *parents)):
        raise FileError(f"{len(words)} numbers stand where {math.prod((own, *parents))} belong")
    if (numbers := decimals(text, words)) is None:
        raise FileError(f"the probability table of {excerpt(family[0])} has an entry that is no decimal number")
    return checked_table(family[0], np.moveaxis(np.array(numbers).reshape(*parents, own), -1, 0))


class _Document:
    """The variables and definitions of a text, in order, with the text of their elements."""

    def __init__(self, text: str) -> None:
        self.blocks: list[_Block] = []
        self._path: list[str] = []
        self._networks, self._attributes, self._parts = 0, 0, list[str]()
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self._parser.CharacterDataHandler = self._parts.append
        self._parser.EntityDeclHandler, self._parser.AttlistDeclHandler = self._entity, self._attribute
        try:
            self._parser.Parse(text.encode(), True)
        except expat.ExpatError as error:
            raise FileError(f"line {error.lineno}: the XML text is not well-formed, or cut short") from None
        if self._networks != 1:
            raise FileError(f"an XMLBIF file has one network, not {self._networks}")

    def _start(self, name: str, attributes: Any) -> None:
        self._path.append(name)
        self._parts.clear()
        if len(self._path) > MAX_DEPTH:
            raise FileError(f"line {self._parser.CurrentLineNumber}: elements lie more than {MAX_DEPTH} deep")
        self._networks += self._path[1:] == ["NETWORK"]
        if self._path[1:-1] == ["NETWORK"] and name in ("VARIABLE", "DEFINITION"):
            self.blocks.append(_Block(name, self._parser.CurrentLineNumber))

    def _end(self, name: str) -> None:
        if len(self._path) == 4 and self._path[1] == "NETWORK" and (self._path[2], name) in _LEAVES:
            self.blocks[-1].texts.setdefault(name, []).append("".join(self._parts).strip())
        self._path.pop()
        self._parts.clear()

    def _entity(self, *declaration: Any) -> None:
        raise FileError(f"line {self._parser.CurrentLineNumber}: an entity is declared, which XMLBIF has no use for")

    def _attribute(self, *declaration: Any) -> None:
        self._attributes += 1
        if self._attributes > MAX_ATTRIBUTES:
            raise FileError(
                f"line {self._parser.CurrentLineNumber}: more than {MAX_ATTRIBUTES} attributes are declared"
            )
