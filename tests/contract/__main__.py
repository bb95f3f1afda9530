"""Prints the contract's tables: the largest loss over the claim, and which settings stay below .99 of it and why.

    python -m tests.contract [--every]

With ``--every`` a row for each setting; else a row for each mechanism, estimator and command, the least and the most
over its settings.
"""

from __future__ import annotations

import sys
import warnings
from fractions import Fraction
from types import SimpleNamespace

from dpgraph.privacy import accounts
from tests.contract import commands, estimators, mechanisms
from tests.contract.case import Case
from tests.contract.enumeration import UNITS

Shares = list[Fraction | float | None]
UNITS_NAMED = " | ".join(f"{unit.neighbours}, {unit.rows_per_person}" for unit in UNITS)
RULE = "---|" * len(UNITS)


def measured(case: Case) -> tuple[Shares, int]:
    """The largest share under each unit, None where it does not apply, and how many pairs were compared."""
    found = {unit: case.check(unit) for unit in case.units}
    shares: Shares = [found[unit].share if unit in found else None for unit in UNITS]
    return shares, sum(largest.pairs for largest in found.values())


def shown(*shares: Fraction | float | None) -> str:
    """Shares of one unit: to four digits, from the least to the most."""
    digits = [f"{float(share):.4f}".rstrip("0").rstrip(".").removeprefix("0") for share in shares if share is not None]
    return " to ".join(sorted({digits[i] for i in (0, -1)}, key=float)) if (digits := sorted(digits, key=float)) else ""


def main(every: bool) -> None:
    """Measures all cases and prints them; budgets have one name, so that files of two runs are equal."""
    warnings.simplefilter("ignore")
    accounts.secrets = SimpleNamespace(token_hex=lambda size: "0" * (2 * size))
    found = [(case, *measured(case)) for kind in (mechanisms, estimators, commands) for case in kind.cases()]
    print(f"| | settings | pairs | {UNITS_NAMED} |\n|---|---|---|{RULE}")
    groups = [str(case) if every else case.name for case, _, _ in found]
    for group in dict.fromkeys(groups):
        mine = [(shares, pairs) for name, (_, shares, pairs) in zip(groups, found, strict=True) if name == group]
        cells = [shown(*column) for column in zip(*(shares for shares, _ in mine), strict=True)]
        print(f"| `{group}` | {len(mine)} | {sum(pairs for _, pairs in mine):,} | {' | '.join(cells)} |")
    print(f"\n| below .99 | {UNITS_NAMED} | why |\n|---|{RULE}---|")
    for case, shares, _ in found:
        if case.why:
            print(f"| `{case.name}` {case.setting} | {' | '.join(shown(share) for share in shares)} | {case.why} |")


if __name__ == "__main__":
    main("--every" in sys.argv[1:])
