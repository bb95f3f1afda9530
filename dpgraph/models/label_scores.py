"""Log scores of every label for many rows: sums of one table for each feature, as naive Bayes has them.

Features are packed into groups whose levels, taken together, are few: the sums over a group stand in one joint table,
and a row looks up one number for each group and label instead of one for each feature and label.

Law: a row's scores depend on that row alone, to the last bit (promise.md S24): the groups are public, and so is the
order of the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network.queries import code_columns, row_count
from dpgraph.structure.tables import Reals

Codes = npt.NDArray[np.integer[Any]]

#: Joint levels of a group, whatever the number of rows: their table takes hardly longer than one row's scores.
JOINT_LEVELS = 256

#: Numbers in one group's joint table, and scores that are worked on at once.
JOINT_CELLS, BLOCK_CELLS = 1 << 20, 1 << 15


def label_scores(start: Reals, tables: Mapping[str, Reals], codes: Mapping[str, Any]) -> Iterator[tuple[slice, Reals]]:
    """start + the sum over features f of tables[f][code of f, :], a block of rows at a time.

    >>> blocks = label_scores(np.zeros(2), {"f": np.array([[1.0, 2], [3, 4]])}, {"f": [1, 0]})
    >>> [scores[:, :2].tolist() for _, scores in blocks]
    [[[3.0, 1.0], [4.0, 2.0]]]
    """
    rows = row_count(codes)
    levels = {name: len(table) for name, table in tables.items()}
    columns = code_columns(codes, levels)
    groups = _groups(levels, min(JOINT_LEVELS, JOINT_CELLS // max(1, len(start))))
    joint = [(sizes, _joint_table([tables[name] for name in sizes])) for sizes in groups]
    return _blocks(start, joint, columns, rows)


def _blocks(
    start: Reals, joint: list[tuple[dict[str, int], Reals]], columns: Mapping[str, Codes], rows: int
) -> Iterator[tuple[slice, Reals]]:
    length = max(256, BLOCK_CELLS // max(1, len(start)))
    scores, looked_up = np.zeros((len(start), length)), np.empty(length)
    for first in range(0, rows, length):
        block = slice(first, min(rows, first + length))
        part, one = scores[:, : block.stop - first], looked_up[: block.stop - first]
        part[:] = start[:, None]
        for sizes, table in joint:
            position = _positions({name: columns[name][block] for name in sizes}, sizes)
            for label, values in enumerate(table):
                part[label] += np.take(values, position, out=one, mode="clip")
        yield block, scores


def _groups(sizes: Mapping[str, int], most: int) -> list[dict[str, int]]:
    """Features in order, with their levels, in groups of at most so many joint levels, or of one feature."""
    groups: list[dict[str, int]] = []
    joint = 0
    for name, size in sizes.items():
        if groups and joint * size <= most:
            groups[-1][name] = size
            joint *= size
        else:
            groups.append({name: size})
            joint = size
    return groups


def _joint_table(tables: list[Reals]) -> Reals:
    """The sums of some features' numbers, shape (labels, joint levels), the last feature running fastest."""
    joint = np.ascontiguousarray(tables[0].T)
    for table in tables[1:]:
        joint = (joint[:, :, None] + table.T[:, None, :]).reshape(len(joint), -1)
    return joint


def _positions(columns: Mapping[str, Codes], sizes: Mapping[str, int]) -> npt.NDArray[np.intp]:
    (_, first), *others = columns.items()
    if not others:
        return first.astype(np.intp)
    position = first.astype(np.uint16)
    for name, column in others:
        position *= np.uint16(sizes[name])
        position += column.astype(np.uint16)
    return position.astype(np.intp)
