"""How far one person can move the counts: exact, from the DAG and the unit alone (MATHS section 1).

A row adds one to one cell of every table. Under add/remove the L1 sensitivity of m tables is m, for every pair of
neighbours. Under replace it is two for every table that has more than one cell, attained by two rows that differ in
every variable. A person with r rows moves r times as much. Zhang et al. 2016, Lemma 1, is the case of all families.

The squared L2 sensitivity of m tables is m under add/remove, and two for each table of more than one cell under
replace. A person whose r rows are all alike moves one cell by r, so it grows with r^2, attained in all tables at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.network import Family, Network


def table_sensitivity(network: Network, table: Family, unit: PrivacyUnit) -> int:
    """The L1 sensitivity of one table's counts.

    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> table_sensitivity(network, ("rain",), PrivacyUnit("replace"))
    2
    """
    if unit.n_is_public:
        return 2 * unit.rows_per_person if network.cells(table) > 1 else 0
    return unit.rows_per_person


def l1_sensitivity(network: Network, tables: Iterable[Family], unit: PrivacyUnit) -> int:
    """The joint L1 sensitivity of several tables: exact, because one pair of rows attains every table's at once."""
    return sum(table_sensitivity(network, table, unit) for table in tables)


def table_l2_squared(network: Network, table: Family, unit: PrivacyUnit) -> int:
    """The squared L2 sensitivity of one table's counts.

    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> table_l2_squared(network, ("rain",), PrivacyUnit("replace", rows_per_person=3))
    18
    """
    if unit.n_is_public:
        return 2 * unit.rows_per_person**2 if network.cells(table) > 1 else 0
    return unit.rows_per_person**2


def l2_squared(network: Network, tables: Iterable[Family], unit: PrivacyUnit) -> int:
    """The joint squared L2 sensitivity of several tables: exact, because one pair attains every table's at once."""
    return sum(table_l2_squared(network, table, unit) for table in tables)
