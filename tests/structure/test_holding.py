"""Which tables hold some variables, and how many are looked at to say so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.structure.domain import NetworkError
from dpgraph.structure.network import Holding, Network
from tests.tiers import examples

NAMES = "abcdefg"
NETWORK = Network.of({name: [0] * 1 if name == "g" else list(range(2 + i % 3)) for i, name in enumerate(NAMES)}, {})
families = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True).map(tuple)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(families, min_size=1, max_size=8, unique=True), st.one_of(st.just(()), families))
def test_the_index_answers_as_a_look_at_every_table_does(tables, wanted):
    """Rejects an index that misses a table, holds one too many, or breaks ties in another order."""
    holding = Holding(NETWORK, tables)
    inside = [place for place, table in enumerate(tables) if set(wanted) <= set(table)]
    assert holding.places(wanted) == inside
    if inside:
        assert holding.smallest(wanted) == min((tables[place] for place in inside), key=NETWORK.cells)
    else:
        with pytest.raises(NetworkError, match="no table holds"):
            holding.smallest(wanted)


@pytest.mark.parametrize("size", [100, 1000])
def test_a_star_s_families_are_found_in_a_step_each(size):
    """Rejects a look at every table for every family: size^2 comparisons."""
    looked = 0

    class Counted(frozenset):
        def issuperset(self, other):
            nonlocal looked
            looked += 1
            return super().issuperset(other)

    names = [f"v{i}" for i in range(size)]
    star = Network.of({name: [0, 1] for name in names}, dict.fromkeys(names[1:], names[:1]))
    holding = Holding(star, star.maximal_families)
    holding._members = [Counted(members) for members in holding._members]
    assert all(holding.smallest(family) == family for family in star.maximal_families)
    assert looked == size - 1
