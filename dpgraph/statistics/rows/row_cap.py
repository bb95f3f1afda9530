"""Which rows of a person are kept: a function of a key and of that person's rows, and of nothing else.

Every row of a person is given a pseudo-random number, from a key, the person's name, what the row holds and how many
rows of that person hold the same before it; the rows with the lowest numbers are kept. Rows that hold the same are
interchangeable, so which rows are kept, as a multiset, depends neither on the order of rows, nor on how they were split
among files and machines, nor on anybody else (proofs.md P86).

Arrays in, arrays out. The numbers need no cryptographic strength: the promise holds for every fixed key, and a fresh
one keeps rows from being made to be kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

#: The multipliers and shifts of splitmix64 (Steele, Lea and Flood 2014), a bijection of 64-bit words.
_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def kept_rows(persons: Integers, names: Sequence[Any], held: Sequence[npt.NDArray[Any]], cap: int, key: bytes) -> Flags:
    """Flags of the rows that count, at most ``cap`` of each person.

    ``persons`` holds for each row the position of its person's name, -1 for a row of nobody, which never counts;
    ``held`` for each variable an array of integers, one a row; ``key`` 1 to 64 bytes.

    >>> kept_rows(np.array([0, 0, 1, -1]), ["ann", "bob"], [np.array([7, 7, 7, 7])], 2, b"key").tolist()
    [True, True, True, False]
    """
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
    """The positions of the rows with the lowest numbers of their persons."""
    digest = _digest(start, held)
    order = np.lexsort((digest, whose))
    again = _equal(whose[order]) & _equal(digest[order])
    if any((again & ~_equal(array[order])).any() for array in held):  # two contents of one digest: compared in full
        order = np.lexsort((*held, digest, whose))
    before = _places(~again).astype(np.uint64)
    lowest = np.lexsort((_number(digest[order], before, key), whose[order]))
    return order[lowest[_places(~_equal(whose[order][lowest])) < cap]]


def _digest(start: Words, held: Sequence[npt.NDArray[Any]]) -> Words:
    """A word for what each row holds and whose it is, from a word for the person."""
    digest = start
    for array in held:
        digest = _mixed(digest ^ array.astype(np.uint64))
    return digest


def _number(digest: Words, before: Words, key: bytes) -> Words:
    """The pseudo-random number of each row, ``before`` being how many rows hold the same before it."""
    return _mixed(_mixed(digest + _STEP * (before + np.uint64(1))) ^ _word(b"number", key))


def _equal(ordered: npt.NDArray[Any]) -> Flags:
    """Whether each entry is equal to the one before it."""
    return np.concatenate([[False], ordered[1:] == ordered[:-1]])


def _places(first: Flags) -> Integers:
    """Each entry's place in its run, from 0; ``first`` says where runs begin."""
    starts = np.flatnonzero(first)
    return np.arange(len(first)) - np.repeat(starts, np.diff(np.append(starts, len(first))))


def _mixed(words: Words) -> Words:
    """The words put through splitmix64."""
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
    """A keyed hash, BLAKE2b, as a word."""
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key, person=purpose).digest(), "little"))
