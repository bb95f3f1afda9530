"""Counts of words whose list is not public: the levels are as sensitive as their counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from dpgraph.privacy.checks import Integers
from dpgraph.privacy.scope import RowCap, RowGroup
from dpgraph.statistics.rows.arrow import UNREADABLE, Held
from dpgraph.statistics.rows.batches import TEXT_NULLS, batch_length, is_number, is_string, value_type
from dpgraph.statistics.rows.codes import mended, text_words
from dpgraph.structure.conversion import OURS, PublicWords
from dpgraph.structure.domain import DomainError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.partial import MISSING, OTHER, OpenLevels


@dataclass(frozen=True, eq=False, repr=False)
class LevelCounts:
    """The count of each word of some variables: sensitive, and so are the words. It shows nothing, and does not add."""

    description: OpenLevels
    sensitive_counts: FrozenMap[str, FrozenMap[str, int]]
    sensitive_rows: int
    group: RowGroup | None = None
    cap: RowCap | None = None

    def sensitive_block(self, name: str, unit: Any) -> Integers:
        """The counts of a variable's words, in the order of the alphabet."""
        return np.array([many for _, many in sorted(self.sensitive_counts[name].items())], np.int64)

    def __repr__(self) -> str:
        return f"LevelCounts({len(self.description.names)} variables, sensitive)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("counts of words are sensitive and are not pickled; release them")


def count_words(rows: Held, names: Mapping[str, bool], group: RowGroup | None, cap: RowCap | None) -> LevelCounts:
    """The counts of each word of variables (nulls declared or not), but for ``other``, ``missing`` and nulls."""
    with PublicWords(UNREADABLE, passing=OURS, quiet=False):
        counts = {name: _counted(rows, name, missing) for name, missing in names.items()}
        many = sum(batch_length(batch) for batch, _ in rows.parts)
    return LevelCounts(OpenLevels(tuple(names)), FrozenMap(counts), many, group, cap)


def _counted(rows: Held, name: str, missing: bool) -> FrozenMap[str, int]:
    """The words of a column and their counts."""
    found: Counter[str] = Counter()
    for batch, is_text in rows.parts:
        words, indices = _words(batch[name], name)
        places = indices.cast(pa.int64()).fill_null(len(words)).to_numpy()
        met = np.bincount(places, minlength=len(words) + 1)
        nulls = int(met[-1])
        for word, many in zip(words, met.tolist(), strict=False):
            if word is None or (is_text and word in TEXT_NULLS):
                nulls += many
            elif many and word not in (OTHER, MISSING):
                found[word] += many
        if nulls and not missing:
            raise DomainError(f"column {name!r} holds nulls; declare missing=True to give them a level of their own")
    return FrozenMap(found)


def _words(array: pa.Array, name: str) -> tuple[list[str | None], pa.Array]:
    """A column as words and the place of each row's among them; of numbers and booleans the text that spells them."""
    kind = value_type(array)
    readable = is_string(kind) or is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    if not (readable or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        bare = re.split(r"\W", str(kind))[0]  # the fields of a struct are contents of rows
        raise DomainError(f"column {name!r} of type {bare} holds no words, numbers or booleans: make text of it")
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words, indices = coded.dictionary, mended(coded.indices, len(coded.dictionary))
    if is_number(kind) or pa.types.is_boolean(kind):
        return [None if value is None or value != value else _spelled(value) for value in words.to_pylist()], indices
    return [] if pa.types.is_null(kind) else text_words(words), indices


def _spelled(value: float | bool) -> str:
    """The text of a number or a boolean."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
