"""Choices that are paid for: of a network's parents, of the next table to measure.

They choose among ``dg.statistics.any_tables(rows, domain)`` by exact scores against public margins or a public model.
``dg.learn_network`` uses them; by themselves they are for who designs a method of measuring.

>>> import dpgraph as dg
>>> import pandas as pd
>>> domain = dg.Domain.of({"rain": ["no", "yes"], "wet": ["no", "yes"]})
>>> rows = pd.DataFrame({"rain": ["no", "yes"] * 50, "wet": ["no", "yes"] * 50})
>>> margins = dg.choices.OneWays.of({"rain": [50, 50], "wet": [50, 50]}, 100)  # public, such as a release's
>>> choice = dg.choices.ParentsChoice(5, margins)
>>> chosen = dg.release(dg.statistics.any_tables(rows, domain), choice, budget=dg.Budget(5)).value
>>> sorted(map(len, chosen.parents.values()))  # whether it rains tells whether it is wet, and the other way round
[0, 1]
"""

from __future__ import annotations

from dpgraph.mechanisms.selection.table_choice import ParentsChoice, TableChoice
from dpgraph.structure.candidate_tables import AnyTables, OneWays

__all__ = ["AnyTables", "OneWays", "ParentsChoice", "TableChoice"]
