"""Scores by which a table is chosen to be measured, in whole numbers, and how far one person moves them.

*Fixed*: half the L1 distance of an exact table from public counts, such as those of independent variables or of a
public model. A row adds one to one cell, so the distance moves by at most one: the score by 1/2, by 1 where a row is
replaced (proofs.md P113).

*Half-fixed*: half the L1 distance of the exact table of a child and its parents from the child's public margin times
the exact table of the parents. A row of level x takes the distance by at most 2 (1 - p_x) (proofs.md P114).

Both estimate how many rows a measurement would put right; less half the noise that it would bring, which is public.
Neither has a denominator that rows move: mutual information, a normalised score and BDeu have, and their sensitivity
grows with the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.arrays import Integers, Reals
from dpgraph.privacy.checks import is_number
from dpgraph.privacy.noise import selection_scale
from dpgraph.privacy.records import Event, Number, PrivacyUnit, ReleaseError, Selection, SelectionLaw, exact, rounded
from dpgraph.statistics.table_counts import KEPT_CELLS
from dpgraph.structure.candidate_tables import PARTS, OneWays

#: Public counts are rounded to whole multiples of one part in this many of a row.
GRID = 1 << 16

#: Bytes that a choice takes for each candidate and for each exact table that is kept beside it, as measured.
BYTES_PER_CANDIDATE, BYTES_PER_TABLE = 250, 250


def fixed_score(table: Integers, expected: Reals) -> int:
    """The L1 distance of exact counts from public ones, in parts of ``GRID``: twice the score in rows.

    >>> fixed_score(np.array([[3, 0], [0, 3]]), np.full((2, 2), 1.5)) / (2 * GRID)
    3.0
    """
    return int(np.abs(table * GRID - np.rint(expected * GRID).astype(np.int64)).sum())


def half_fixed_score(table: Integers, weights: Integers) -> int:
    """The L1 distance of a child's table, axes (child, *parents), from its margin's share of the parents' table.

    In parts of ``PARTS``: twice the score in rows.

    >>> half_fixed_score(np.array([[3, 0], [0, 3]]), np.array([PARTS // 2, PARTS // 2])) / (2 * PARTS)
    3.0
    """
    flat = table.reshape(len(table), -1)
    return int(np.abs(flat * PARTS - weights[:, None] * flat.sum(axis=0)).sum())


def choice_bytes(sizes: Iterable[int], widths: Iterable[int]) -> int:
    """About how much memory a choice among all tables of so many variables takes.

    >>> choice_bytes([2, 2, 3], [2]) == 3 * (BYTES_PER_CANDIDATE + BYTES_PER_TABLE) + 8 * (4 + 6 + 6)
    True
    """
    wanted, every = set(widths), list(sizes)
    cells = [1, *[0] * max(wanted, default=0)]  # of all tables of each width together
    for size in every:
        cells = [1, *(here + size * below for below, here in pairwise(cells))]
    candidates = sum(math.comb(len(every), width) for width in wanted)
    kept = min(KEPT_CELLS, sum(cells[width] for width in wanted))
    return candidates * (BYTES_PER_CANDIDATE + BYTES_PER_TABLE) + 8 * kept


def fixed_range(unit: PrivacyUnit) -> int:
    """The length of an interval that holds what one person adds to any fixed scores, in parts of ``GRID``.

    A candidate may gain what another loses, and "stop" stays: [-1, 1] cells, [-2, 2] where a row is replaced.
    """
    return 2 * GRID * _moves(unit)


def half_fixed_range(margins: OneWays, unit: PrivacyUnit) -> int:
    """The same of half-fixed scores, in parts of ``PARTS``: twice 2 (1 - p), p the least share of any level."""
    least = min((min(shares) for shares in margins.weights.values()), default=0)
    return 4 * (PARTS - least) * _moves(unit)


def choices_event(name: str, epsilon: Fraction, law: SelectionLaw, draws: int) -> Event:
    """The event of choices that share epsilon: each is a share of it in epsilon, and that squared / 8 in rho."""
    share = share_of(epsilon, draws)
    rho = rounded(draws * share**2 / 8, up=True)
    return Event(name, epsilon, rho=rho, selections=(Selection(law, share, draws),))


@lru_cache(maxsize=256)
def choice_scale(length: int, epsilon: Fraction) -> float:
    """What scores are divided by, so that scores that move within an interval of this length cost epsilon."""
    return selection_scale(length, epsilon)


def penalty(cells: int, noise: float, parts: int) -> int:
    """The expected L1 norm of the noise of so many cells, in parts of a row, as scores are: twice its half."""
    return math.floor(cells * noise * parts)


def as_scores(scores: Iterable[int]) -> npt.NDArray[Any]:
    """Scores of candidates after "stop", whose score is 0; Python's own integers, which do not overflow."""
    return np.array([0, *scores], dtype=object)


def check_noise(noise: object) -> None:
    """Refuses an expected noise that is no finite number of at least 0."""
    if not is_number(noise) or not 0 <= noise <= 2.0**40:
        raise ReleaseError(f"noise must be a number of rows, at least 0 and at most 2^40; got {noise!r:.60}")


def share_of(epsilon: Number, draws: int) -> Fraction:
    """What each of several choices may cost."""
    return exact(epsilon) / max(1, draws)


def _moves(unit: PrivacyUnit) -> int:
    """How many rows one person adds or takes away."""
    return unit.rows_per_person * (2 if unit.n_is_public else 1)
