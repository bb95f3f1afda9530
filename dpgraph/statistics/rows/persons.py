"""A cap on the rows of each person, who is identified by a column.

Every row of a person has a pseudo-random number, from the key, the person's name, the row's contents and how many such
rows of that person come before it; the lowest are kept, and nothing tells how many were dropped. So nobody affects
which rows of another are counted, nor does order or place (proofs.md P86). A cap holds for the rows of one call.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.privacy.checks import Flags, Integers, Words, check_whole
from dpgraph.privacy.scope import RowCap
from dpgraph.statistics.rows.arrow import UNREADABLE, batches
from dpgraph.statistics.rows.batches import Batch, Columns, Declared, is_string, person_name, value_type
from dpgraph.statistics.rows.codes import Codes, encode_batch, mended
from dpgraph.structure.conversion import OURS, PublicWords
from dpgraph.structure.domain import Domain, DomainError
from dpgraph.structure.frozen import FrozenMap

#: The multipliers and shifts of splitmix64 (Steele, Lea and Flood 2014), a bijection of 64-bit words.
_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
#: Bytes of a key.
KEY_BYTES = 16


@dataclass(frozen=True)
class PersonCap:
    """One choice of at most so many rows of each person: column, number, and a key that nobody keeps or shows."""

    person: str
    rows_per_person: int
    key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES), repr=False)
    draw: str = field(default_factory=lambda: secrets.token_hex(8), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.person, str):
            raise DomainError(f"person must name a column that is not a declared variable; got {self.person!r}")
        check_whole("rows_per_person", self.rows_per_person, error=DomainError)

    def columns(self, declared: Declared) -> Columns:
        """The declared columns and that of persons."""
        if self.person in declared.names:
            raise DomainError(f"person must name a column that is not a declared variable; got {self.person!r}")
        return Columns({**declared.variables, self.person: None}, declared.strict)

    def record(self, strict: bool, parts: frozenset[str] = frozenset()) -> RowCap:
        """The public description of the kept rows."""
        return RowCap(self.person, self.rows_per_person, parts, drops=strict, draw=self.draw)

    def names(self, batch: Batch, strict: bool) -> pa.Array:
        """The text by which each row's person is known, whatever the type of the column. Sensitive."""
        array, person = batch[self.person], self.person
        if pa.types.is_nested(value_type(array)):
            raise DomainError(f"column {person!r} must hold text, numbers or dates, by which persons are told apart")
        with PublicWords(f"column {person!r} cannot tell persons apart", quiet=False):
            names = _person_names(array)
        if not strict and names.null_count:
            raise DomainError(f"column {person!r} holds nulls; every row needs its person")
        return names

    def kept(self, names: Sequence[pa.Array], held: Sequence[npt.NDArray[Any]]) -> Flags:
        """The rows that count, of all rows of their persons; a row without a name does not."""
        text = pa.large_string()
        words = pa.chunked_array([part.cast(text) for part in names], text).combine_chunks().dictionary_encode()
        persons = words.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return kept_rows(persons, words.dictionary.to_pylist(), held, self.rows_per_person, self.key)


def cap_of(person: Any, rows_per_person: Any) -> PersonCap | None:
    """The cap of public arguments: a column, or a cap with its key; None without a person."""
    if isinstance(person, PersonCap):
        return person
    if person is not None:
        return PersonCap(person, rows_per_person)
    check_whole("rows_per_person", rows_per_person, error=DomainError)
    if rows_per_person != 1:
        raise DomainError(
            f"rows_per_person={rows_per_person} needs person=..., the column that says whose row it is; where nobody "
            "has more rows, leave it out and say so in the PrivacyUnit"
        )
    return None


def refuse_group(where: Any, cap: PersonCap | None, advice: str) -> None:
    """Refuses a cap within a group: groups capped one by one could hold more rows of a person than the cap in all."""
    if where is not None and cap is not None:
        raise DomainError(
            "where and person do not go together: groups that are capped apart have up to rows_per_person rows of a "
            f"person each. {advice}"
        )


def cap_rows(rows: Any, domain: Domain, person: str, rows_per_person: int, *, part: str | None = None) -> Codes:
    """Encodes some rows of each person, chosen by a fresh secret key whatever the rows of others, and drops the rest.

    Give it the whole log. For the groups of ``Budget.parallel`` cap first and then count with ``where=``.

    Args:
        rows: As ``dg.count`` takes them, but for ``Codes`` and tables on a cluster.
        domain: The declared variables, without the person.
        person: The column that identifies the person; its values are compared as text, never kept. A null, or text that
            is blank, refuses the table; in a strict domain such a row is dropped, so the number of rows is private.
        rows_per_person: How many rows of one person count.
        part: A name, if these rows are one of several parts of a log and no person has rows in two of them, which
            dpgraph takes on trust. Counts of parts with different names then add; parts by time or place have none.

    Returns:
        Codes, sensitive like the rows. They and their counts remember the cap, so that ``release`` refuses a budget
        whose unit does not cover it.

    Raises:
        DomainError: If the rows do not fit the domain, ``person`` is declared in it or no column, or holds nulls,
            ``rows_per_person`` is not a whole number, at least 1, or ``part`` is not a name.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"who": [7, 7, 8], "kind": ["a", "b", "b"]})
    >>> cap_rows(log, Domain.of({"kind": ["a", "b"]}), "who", 1).sensitive_rows
    2
    """
    cap = PersonCap(person, rows_per_person)
    if part is not None and (not isinstance(part, str) or not part):
        raise DomainError(f"part must be a name, text that is not empty; got {part!r}")
    if isinstance(rows, Codes):
        raise DomainError("codes hold no person column; give the rows themselves")
    return capped_codes(rows, domain, cap, frozenset() if part is None else frozenset([part]))


def rows_within(rows: Any, cap: PersonCap, strict: bool) -> Flags:
    """Flags of the rows that a cap keeps, by the key and each person's own rows in their order."""
    columns = Columns({cap.person: None}, strict)
    with PublicWords(UNREADABLE, passing=OURS, quiet=False):
        found = [cap.names(batch, strict) for batch, _ in batches(rows, columns)]
    return cap.kept(found, []) if found else np.zeros(0, bool)


def capped_codes(rows: Any, domain: Domain, cap: PersonCap, parts: frozenset[str] = frozenset()) -> Codes:
    """As ``cap_rows``, by a cap with its key."""
    columns: dict[str, list[Any]] = {name: [] for name in domain.names}
    persons: list[pa.Array] = []
    with PublicWords(UNREADABLE, passing=OURS, quiet=False):
        for batch, is_text in batches(rows, cap.columns(domain)):
            for name, codes in encode_batch(batch, domain, is_text).items():
                columns[name].append(codes)
            persons.append(cap.names(batch, domain.strict))
    record = cap.record(domain.strict, parts)
    if not persons:
        return Codes(domain, Codes.empty(domain).columns, record)
    whole = {name: np.concatenate(found) for name, found in columns.items()}
    kept = cap.kept(persons, list(whole.values()))
    return Codes(domain, FrozenMap((name, column[kept]) for name, column in whole.items()), record)


def _person_names(array: pa.Array) -> pa.Array:
    words = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    kind, found = value_type(array), words.dictionary
    if pa.types.is_binary(kind) or is_string(kind):
        names = [_written(word) for word in found.cast(pa.large_binary()).to_pylist()]
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        names = [person_name(value) for value in found.to_pylist()]
    elif pa.types.is_decimal(kind):
        names = [None if value is None else _shortest(f"{value:f}") for value in found.to_pylist()]
    else:
        names = [None if text is None else _shortest(text) for text in found.cast(pa.large_string()).to_pylist()]
    return pa.array(names, pa.large_string()).take(mended(words.indices, len(names)))


def _written(word: bytes | None) -> str | None:
    """A name from its bytes; None for blanks, which name nobody. Bytes that are no UTF-8 are told apart."""
    if word is None or not word.strip():
        return None
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return f"\0{word.hex()}"


def _shortest(text: str) -> str:
    """A decimal number, or a time, without the zeros that its column's type puts at the end of its decimal places."""
    short = re.sub(r"\.(\d*?)0*(?!\d)", lambda found: f".{found[1]}" if found[1] else "", text, count=1)
    return "0" if short == "-0" else short


def kept_rows(persons: Integers, names: Sequence[Any], held: Sequence[npt.NDArray[Any]], cap: int, key: bytes) -> Flags:
    """Flags of at most ``cap`` rows of each person (-1 is nobody), by ``key`` and the rows as integers ``held``."""
    kept = persons >= 0
    many = np.append(np.bincount(persons[kept], minlength=len(names)), 0)  # the last one is nobody's, at -1
    over = np.flatnonzero(kept & (many[persons] > cap))
    if len(over):
        kept[over] = False
        whose = persons[over]
        start = _person_words(names, np.flatnonzero(many > cap), key)[whose]
        kept[over[_lowest(whose, start, [array[over] for array in held], cap, key)]] = True
    return kept


def _lowest(whose: Integers, start: Words, held: Sequence[npt.NDArray[Any]], cap: int, key: bytes) -> Integers:
    digest = _digest(start, held)
    order = np.lexsort((digest, whose))
    again = _equal(whose[order]) & _equal(digest[order])
    if any((again & ~_equal(array[order])).any() for array in held):  # two contents of one digest: compared in full
        order = np.lexsort((*held, digest, whose))
    before = _places(~again).astype(np.uint64)
    lowest = np.lexsort((_number(digest[order], before, key), whose[order]))
    return order[lowest[_places(~_equal(whose[order][lowest])) < cap]]


def _digest(start: Words, held: Sequence[npt.NDArray[Any]]) -> Words:
    digest = start
    for array in held:
        digest = _mixed(digest ^ array.astype(np.uint64))
    return digest


def _number(digest: Words, before: Words, key: bytes) -> Words:
    """The pseudo-random number of each row, ``before`` being how many rows hold the same before it."""
    return _mixed(_mixed(digest + _STEP * (before + np.uint64(1))) ^ _word(b"number", key))


def _equal(ordered: npt.NDArray[Any]) -> Flags:
    return np.concatenate([[False], ordered[1:] == ordered[:-1]])


def _places(first: Flags) -> Integers:
    """Each entry's place in its run, from 0; ``first`` says where runs begin."""
    starts = np.flatnonzero(first)
    return np.arange(len(first)) - np.repeat(starts, np.diff(np.append(starts, len(first))))


def _mixed(words: Words) -> Words:
    words = words + _STEP
    words = (words ^ (words >> _SHIFTS[0])) * _FIRST
    words = (words ^ (words >> _SHIFTS[1])) * _SECOND
    return words ^ (words >> _SHIFTS[2])


def _person_words(names: Sequence[Any], wanted: Integers, key: bytes) -> Words:
    """A word for each person that is wanted, by position; 0 for others."""
    words = np.zeros(len(names), np.uint64)
    words[wanted] = [_word(names[position].encode("utf-8", "surrogatepass"), key, b"person") for position in wanted]
    return words


def _word(text: bytes, key: bytes, purpose: bytes = b"") -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key, person=purpose).digest(), "little"))
