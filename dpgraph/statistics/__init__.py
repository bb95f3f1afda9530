"""Sensitive statistics: exact counts that add, and the engines that make them.

``encode`` makes codes of rows that are counted often, ``cap_rows`` of a few rows of each person. ``Codes``, ``Counts``
and ``Moments`` are as sensitive as the rows.

>>> import dpgraph as dg
>>> import pandas as pd
>>> domain = dg.Domain.of({"smoker": ["no", "yes"]})
>>> codes = dg.statistics.encode(pd.DataFrame({"smoker": ["no", "yes", "yes"]}), domain)
>>> isinstance(dg.count(codes, dg.Network.of(domain, {})), dg.statistics.Counts)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgraph.lazy import lazy_names

if TYPE_CHECKING:  # the one list of names
    from dpgraph.statistics.counts import Counts as Counts
    from dpgraph.statistics.counts import count_groups as count_groups
    from dpgraph.statistics.moments import Moments as Moments
    from dpgraph.statistics.moments import regression_moments as regression_moments
    from dpgraph.statistics.moments import sufficient_statistics as sufficient_statistics
    from dpgraph.statistics.rows.codes import Codes as Codes
    from dpgraph.statistics.rows.codes import encode as encode
    from dpgraph.statistics.rows.features import infer_domain as infer_domain
    from dpgraph.statistics.rows.persons import cap_rows as cap_rows

__getattr__, __dir__ = lazy_names(__name__)
