"""Which of some tables hold given variables together, found without a look at all of them."""

from __future__ import annotations

from collections.abc import Iterable

from dpgraph.structure.domain import NetworkError
from dpgraph.structure.network import Family, Network


class Holding:
    """An index of tables by their variables.

    A question costs as many steps as the rarest of the variables has tables.

    Args:
        network: Where the levels are declared.
        tables: The variables of each table.

    >>> network = Network.of({name: [0, 1] for name in "abc"}, {"b": ["a"], "c": ["a", "b"]})
    >>> Holding(network, [("c", "a", "b"), ("b", "a")]).smallest(("a",))
    ('b', 'a')
    """

    def __init__(self, network: Network, tables: Iterable[Family]) -> None:
        self._tables = tuple(tables)
        self._cells = [network.cells(table) for table in self._tables]
        self._members = [frozenset(table) for table in self._tables]
        self._places: dict[str, list[int]] = {}
        for place, table in enumerate(self._tables):
            for name in table:
                self._places.setdefault(name, []).append(place)

    def places(self, wanted: Family) -> list[int]:
        """Where the tables that hold all wanted variables stand among the tables, in order."""
        near = min((self._places.get(name, []) for name in wanted), key=len, default=range(len(self._tables)))
        return [place for place in near if self._members[place].issuperset(wanted)]

    def smallest(self, wanted: Family) -> Family:
        """The table of fewest cells that holds the wanted variables, ties to the first.

        Raises:
            NetworkError: If none does.
        """
        places = self.places(wanted)
        if not places:
            raise NetworkError(
                f"no table holds {', '.join(wanted)} together; leave parents out, or use what was learned with the "
                "graph: learned.probabilities, dpgraph learn --model"
            )
        return self._tables[min(places, key=self._cells.__getitem__)]
