"""Mutations of files: of their bytes, of their words, and of the values in a JSON document."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.files.edits import edited

#: Words that a reader may stumble over, whatever the format.
NASTY = (
    b"1e999", b"-1e999", b"nan", b"NaN", b"inf", b"Infinity", b"1e-5", b"-1", b"0", b"-0.0", b"1e308", b"1_0", b"0x10",
    b"9" * 30, b"9" * 400, b"9" * 5000, b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\r\n", b"\n", b"\t", b" ",
    "\u0430".encode(), "\u212a".encode(), "\u202e".encode(), "\uff11".encode(), "\u2028".encode(), b"\xf0\x9f\x92\xa9",
    b"/*", b"*/", b"//", b'"', b"'", b"\\", b"\\u0000", b"\\ud800", b"{", b"}", b"(", b")", b"[", b"]", b"|", b",",
    b";", b".", b"=", b":", b"#", b"<", b">", b"&", b"null", b"true", b"false",
)  # fmt: skip

#: Values that a JSON document may hold where another is expected.
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, 5e-324, 2**31, 2**53, 2**63, 2**64, 10**30, 10**400, "", "x", "0",
    "1/3", "1/0", "-1", "1e999", "nan", "0e99999999999", "1e-99999999", "1e30000000", "9" * 90,
    "\u0000", "\ud800", "x" * 5000,
    [], {}, [[]], [0], [1.5], [[[[[1]]]]], ["a"], [None], {"a": 1}, {"": []}, [0.5, [0.5]],
    [1, "x" * 5000], "__class__",
)  # fmt: skip

_WORD = re.compile(rb"[A-Za-z0-9_.+-]+|\s+|[^A-Za-z0-9_.+\-\s]")

#: No mutation makes a file longer than this.
MOST = 200_000


def mutated(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """A file with one to six changes of its bytes or words."""
    for _ in range(rng.choice((1, 1, 1, 1, 2, 4))):
        data = rng.choice(_CHANGES)(data, seeds, rng)[:MOST]
    return data


def mutated_document(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """A JSON document with one to four other values in it and a right digest; one in four as other files."""
    if rng.random() < 0.25:
        return mutated(data, seeds, rng)
    plain = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if places := _places(plain):
            _replace(*rng.choice(places), plain, json.loads(rng.choice(seeds)), rng)
    try:
        return edited(plain).encode()
    except (UnicodeEncodeError, RecursionError):
        return data


def _places(plain: Any, most: int = 2000) -> list[tuple[Any, Any]]:
    """Where values stand: a container and a key or an index."""
    places: list[tuple[Any, Any]] = []
    level = [plain]
    while level and len(places) < most:
        inner: list[Any] = []
        for at in level:
            keys = list(at) if isinstance(at, dict) else range(min(len(at), 20)) if isinstance(at, list) else ()
            places += [(at, key) for key in keys]
            inner += [at[key] for key in keys]
        level = inner
    return places


def _replace(at: Any, key: Any, plain: Any, other: Any, rng: random.Random) -> None:
    """Another value in one place: junk, one from elsewhere, a number nearby, twice, or none."""
    chance = rng.random()
    if chance < 0.4:
        at[key] = copy.deepcopy(rng.choice(JUNK))
    elif chance < 0.6 and _places(other):
        source, name = rng.choice(_places(rng.choice((plain, other))))
        at[key] = copy.deepcopy(source[name])
    elif chance < 0.8 and isinstance(at.get(key) if isinstance(at, dict) else at[key], int | float):
        if abs(at[key]) < 1e300:
            at[key] = at[key] * rng.choice((2, 0.5, -1)) + rng.choice((0, 1, -1, 1e-9))
    elif chance < 0.9 and isinstance(at, list):
        at.insert(key, copy.deepcopy(at[key]))
    else:
        del at[key]


def _flip(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _byte(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + rng.randrange(2) :]


def _drop(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data) + 1), rng.choice((1, 2, 5, 20, 100))
    return data[:at] + data[at + size :]


def _double(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data) + 1), rng.choice((1, 5, 20, 100, 1000))
    return data[: at + size] + data[at:]


def _cut(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _splice(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(seeds)
    begin = rng.randrange(len(other) + 1)
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[begin : begin + rng.choice((5, 50, 500))] + data[at + rng.choice((0, 50)) :]


def _nasty(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(NASTY) + data[at + rng.choice((0, 0, 1, 3)) :]


def _word(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Swaps two words, or puts a nasty one in a word's place."""
    words = _WORD.findall(data)
    if not words:
        return data
    one, two = rng.randrange(len(words)), rng.randrange(len(words))
    if rng.random() < 0.5:
        words[one], words[two] = words[two], words[one]
    else:
        words[one] = rng.choice((*NASTY, words[two]))
    return b"".join(words)


def _many(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """A few words many times over, where they stand or at the end."""
    words = _WORD.findall(data) or [b"x"]
    at = rng.randrange(len(words))
    unit = b"".join(words[at : at + rng.choice((1, 2, 4, 8))])
    return b"".join(
        [*words[:at], unit * rng.choice((2, 10, 300, 300, 20_000)), *words[at if rng.random() < 0.7 else len(words) :]]
    )


_CHANGES: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flip, _byte, _drop, _double, _cut, _splice, _nasty, _nasty, _word, _word, _many,
)  # fmt: skip
