"""Hypothesis strategies: random domains, networks, rows that fit them and probability tables over them.

Also what the words mean, straight from the declaration and slowly: ``position``, ``contingency`` and ``joint`` are the
definitions that the package is compared with, and use none of its code beyond the declared levels.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
from hypothesis import strategies as st

import dpgraph as dg

KINDS = ("text", "number", "boolean", "bins")

#: Text that every format keeps: CSV headers, BIF names, Arrow fields.
plain_words = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=6)

#: Any text that UTF-8 can hold.
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)

numbers = st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@st.composite
def categories(draw, kind, max_levels=4, text=plain_words, actions=True):
    """Declared levels of one kind, with or without the levels that unknown values and nulls count as."""
    values = {"text": text, "number": numbers, "boolean": st.booleans()}[kind]
    top = min(max_levels, 2) if kind == "boolean" else max_levels
    levels = draw(st.lists(values, min_size=1, max_size=top, unique=True))
    action = st.none() | st.sampled_from(levels) if actions else st.none()
    return dg.Categories(levels, other=draw(action), missing=draw(action))


@st.composite
def bins(draw, max_levels=4, actions=True):
    """Bins between increasing edges, whole or with three decimals, of numbers that are whole or not."""
    missing = draw(st.booleans()) if actions and max_levels > 1 else False
    edges = draw(st.lists(st.integers(-5000, 5000), min_size=2, max_size=max_levels + 1 - missing, unique=True))
    scale = draw(st.sampled_from([1, 1000]))
    outside = draw(st.sampled_from(["ends", "missing"])) if missing else "ends"
    edges = sorted(edge if scale == 1 else edge / scale for edge in edges)
    holds = all(math.ceil(a) < b for a, b in itertools.pairwise(edges))
    whole = draw(st.sampled_from([None, False, True] if holds else [None, False]))
    return dg.Bins(edges, missing, outside, whole)


def variables(kinds=KINDS, max_levels=4, text=plain_words, actions=True):
    """One declared variable of any of the kinds."""
    of = {kind: categories(kind, max_levels, text, actions) for kind in kinds if kind != "bins"}
    if "bins" in kinds:
        of["bins"] = bins(max_levels, actions)
    return st.sampled_from(kinds).flatmap(of.__getitem__)


@st.composite
def domains(draw, max_variables=5, names=plain_words, **settings):
    """One to five declared variables; ``settings`` are those of ``variables``."""
    chosen = draw(st.lists(names, min_size=1, max_size=max_variables, unique_by=str.lower))
    return dg.Domain.of({name: draw(variables(**settings)) for name in chosen})


@st.composite
def networks(draw, max_parents=3, **settings):
    """A DAG whose topological order is not the domain's; ``settings`` are those of ``domains``."""
    domain = draw(domains(**settings))
    order = draw(st.permutations(domain.names))
    parents = {}
    for i, name in enumerate(order):
        before = st.sampled_from(order[:i]) if i else st.nothing()
        parents[name] = draw(st.lists(before, max_size=min(i, max_parents), unique=True))
    return dg.Network.of(domain, parents)


def fitting_values(variable):
    """Values that a column of this variable may hold: levels, and whatever its declared actions admit."""
    if isinstance(variable, dg.Bins):
        low, high = variable.edges[0], variable.edges[-1]
        values = st.floats(low - 10, high + 10) | st.sampled_from([*variable.edges, math.inf, -math.inf])
        return values.map(float) | st.just(math.nan) if variable.missing else values.map(float)
    values = st.sampled_from(variable.levels)
    if variable.other is not None and variable.kind == "text":
        values |= plain_words
    if variable.other is not None and variable.kind == "number":
        values |= st.integers(-100, 100)
    return values | st.none() if variable.missing is not None else values


@st.composite
def frames(draw, network, max_rows=20):
    """Rows that fit a network or a domain, as a DataFrame of plain Python values."""
    domain = getattr(network, "domain", network)
    rows = draw(st.integers(0, max_rows))
    columns = {}
    for name in domain.names:
        values = draw(st.lists(fitting_values(domain[name]), min_size=rows, max_size=rows))
        is_bins = isinstance(domain[name], dg.Bins)
        columns[name] = pd.Series(values, dtype=float if is_bins else object)
    return pd.DataFrame(columns)


@st.composite
def networks_with_frames(draw, max_rows=20, **settings):
    """A network and rows that fit it."""
    network = draw(networks(**settings))
    return network, draw(frames(network, max_rows))


@st.composite
def probabilities(draw, network, zeros=False):
    """Random conditional probability tables; with ``zeros`` some entries are exactly 0."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = {}
    for name in network.domain.names:
        weights = rng.gamma(0.7, size=network.shape(network.family(name))) + 1e-3
        if zeros:
            weights = np.where(rng.random(weights.shape) < 0.4, 0.0, weights)
            weights[0] = np.where(weights.sum(axis=0) == 0, 1.0, weights[0])
        tables[name] = weights / weights.sum(axis=0)
    return dg.Probabilities(network, tables)


def position(variable, value):
    """Where a value stands among the levels, by the declaration's own words; None if it is refused."""
    null = value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
    if isinstance(variable, dg.Bins):
        if null:
            return len(variable.edges) - 1 if variable.missing else None
        inside = [i for i, (low, high) in enumerate(itertools.pairwise(variable.edges)) if low <= value < high]
        if not inside and value != variable.edges[-1] and variable.outside == "missing":
            return variable.levels.index("missing")
        return inside[0] if inside else (0 if value < variable.edges[0] else len(variable.edges) - 2)
    if null:
        action = variable.missing
    else:
        known = [i for i, level in enumerate(variable.levels) if level == value]
        if known:
            return known[0]
        action = variable.other
    return None if action is None else variable.levels.index(action)


def contingency(network, frame, variables_):
    """A contingency table counted row by row."""
    table = np.zeros([len(network.domain.levels(name)) for name in variables_], dtype=np.int64)
    for values in frame[list(variables_)].itertuples(index=False, name=None):
        cell = [position(network.domain[name], value) for name, value in zip(variables_, values, strict=True)]
        table[tuple(cell)] += 1
    return table


def joint(learned):
    """The whole joint distribution as an array over the domain's variables, cell by cell."""
    network = learned.network
    names = network.domain.names
    table = np.zeros([len(network.domain.levels(name)) for name in names])
    for cell in np.ndindex(*table.shape):
        at = dict(zip(names, cell, strict=True))
        table[cell] = math.prod(
            float(learned.table(name)[tuple(at[other] for other in (name, *network.parents[name]))]) for name in names
        )
    return table
