"""Pages of probabilities, posteriors, learned networks, classifiers, hidden Markov models, regressions, answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import rel_entr

from dpgraph.inference.draws import ParameterDraws, mixing_note
from dpgraph.inference.graphs.learned import LearnedNetwork, strength
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.queries.answer import Answer
from dpgraph.inference.queries.missing import missing
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.pages.blocks import Intervals, Page, Ribbons, Section, Shades, Table, Words
from dpgraph.pages.contents import computed, drawn, facts_of, measurements, page_of, plain_graph, protection
from dpgraph.privacy.checks import Reals
from dpgraph.structure.design import Bounded, LinearDesign, in_words
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

#: The probability of intervals.
LEVEL = 0.9
#: Entries of conditional probability tables that a page holds; the rest is left out, and said.
MOST_ENTRIES = 60_000
#: Edges that are listed.
MOST_EDGES = 300
STRENGTH = (
    "strength: how far the child depends on the parent given its other parents, the mean total variation of its "
    "probabilities from their mean over that parent's levels."
)
SHARE = "share: the part of draws of the released pairs, from their posterior, on which the two are joined."
#: Fields, and levels of a field, whose emissions are drawn as intervals.
MOST_BARS = 60


def _mixing(note: str) -> list[Words]:
    words = f"{note[:1].upper()}{note[1:]}: intervals may be wrong. Longer chains from the same release are free."
    return [Words([words], "warning")] if note else []


def tables_section(
    network: Network, mean: Mapping[str, Reals], ends: Mapping[str, Reals] | None = None, *notes: Words
) -> tuple[Section, dict[str, Any]]:
    """The DAG and P(level | parents), with ends of intervals, shown one variable at a time; arcs by strength."""
    tables: list[Any] = []
    room = MOST_ENTRIES
    for name in network.domain.names:
        room -= mean[name].size
        parts = {"mean": mean[name]}
        if ends is not None:
            parts["low"], parts["high"] = ends[name]
        tables.append(None if room < 0 else _plain_table(network, name, parts))
    sizes = [float(mean[name].size) for name in network.domain.names]
    measures = [{"name": "cells", "words": "entries of the variable's table", "values": sizes}]
    if ends is not None:
        widths = [float((ends[name][1] - ends[name][0]).mean()) for name in network.domain.names]
        measures.insert(0, {"name": "width", "words": f"mean width of {LEVEL:.0%} intervals", "values": widths})
    left = sum(table is None for table in tables)
    words = f"The tables of {left} variables are left out: there are more than {MOST_ENTRIES:,} entries."
    shown = "with their intervals" if ends is not None else "as they were learned"
    arcs = _strengths(network, mean)
    most = max(arcs.values(), default=0.0) or 1.0
    shares = {arc: one / most for arc, one in arcs.items()}
    graph = drawn(network, "the network", f"Choose a variable to see its probabilities, {shown}.", shares)
    section = Section("Probabilities", [*notes, *([Words([words])] if left else []), graph])
    return section, {"graph": plain_graph(network, measures), "tables": tables}


def _strengths(network: Network, mean: Mapping[str, Reals]) -> dict[tuple[str, str], float]:
    return {
        (parent, child): strength(mean[child], axis)
        for child, parents in network.parents.items()
        for axis, parent in enumerate(parents, 1)
    }


def _plain_table(network: Network, name: str, parts: Mapping[str, Reals]) -> dict[str, Any]:
    """One table: numbers in C order, a column for each parent configuration."""
    parents = network.parents[name]
    levels = [network.domain.levels(parent) for parent in parents]
    given = [
        ", ".join(f"{parent}={levels[at][i]}" for at, (parent, i) in enumerate(zip(parents, index, strict=True)))
        for index in np.ndindex(*map(len, levels))
    ]
    numbers = {part: np.round(values.ravel(), 5).tolist() for part, values in parts.items()}
    return {"levels": [str(level) for level in network.domain.levels(name)], "given": given, **numbers}


def _ends(draws: Reals, axis: int | tuple[int, ...]) -> Reals:
    return np.quantile(draws, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=axis)


def _counted(network: Network) -> str:
    many = len(network.domain.names)
    return f"{many} variable{'s' if many > 1 else ''}"


@page_of.register
def _of_probabilities(value: Probabilities) -> Page:
    section, data = tables_section(value.network, value.tables)
    arcs = _strengths(value.network, value.tables)
    rows = [[*arc, arcs[arc]] for arc in sorted(arcs, key=lambda arc: -arcs[arc])[:MOST_EDGES]]
    edges = [Section("Edges", [Table(["parent", "child", "strength"], rows, STRENGTH)])] if rows else []
    sections = [protection(value.provenance), section, *edges]
    return Page(f"Probabilities of a network of {_counted(value.network)}", "", sections, data)


@page_of.register
def _of_learned(value: LearnedNetwork) -> Page:
    section, data = tables_section(value.network, value.tables.tables)
    record = value.provenance
    behind = [] if record is None else [measurements(record)]
    sections = [protection(record), _chosen(value), section, *behind]
    return Page(f"Learned network of {_counted(value.network)}", f"method {value.method}", sections, data)


def _chosen(value: LearnedNetwork) -> Section:
    frame = value.edges
    known = bool(frame["share"].notna().any())
    rows = [
        [edge["parent"], edge["child"], float(edge["strength"]), *([float(edge["share"])] if known else [])]
        for edge in frame.head(MOST_EDGES).to_dict("records")
    ]
    how = (
        "The graph was chosen from what was released, so the choice cost nothing. An edge says that two variables "
        "depend on each other in the model, never which of them is a cause."
        if value.method == "pairs"
        else "The graph was chosen with a part of the budget. An edge says nothing about causes."
    )
    words = Words([f"Why this method: {value.reason}.", how])
    if not rows:
        return Section("Edges", [words, Words(["No pair stands out of its noise: the graph has no edge."])])
    columns = ["parent", "child", "strength", *(["share"] if known else [])]
    left = f" The strongest {MOST_EDGES} of {len(frame)} are listed." if len(frame) > MOST_EDGES else ""
    return Section("Edges", [words, Table(columns, rows, STRENGTH + (f" {SHARE}" if known else "") + left)])


@page_of.register
def _of_posterior(value: DirichletPosterior | PosteriorDraws) -> Page:
    if isinstance(value, PosteriorDraws):
        said, notes = f"noise accounted for, {len(value):,} draws", _mixing(mixing_note(value.diagnostics))
    else:
        said = "noise not accounted for"
        words = (
            "These intervals take the released numbers as exact: they leave the noise out, and are too narrow where it "
            "matters. A noise-aware posterior has honest ones."
        )
        notes = [Words([words], "advice")]
    section, data = tables_section(value.network, value.mean().tables, value.interval(LEVEL), *notes)
    holes = [_missing(value)] if value.network.domain.indicators else []
    how = [computed(value)] if isinstance(value, PosteriorDraws) else []
    title = f"Posterior of a network of {_counted(value.network)}"
    return Page(title, said, [protection(value.provenance), section, *holes, *how], data)


def _missing(value: DirichletPosterior | PosteriorDraws) -> Section:
    frame = missing(value, interval=LEVEL)
    words = (
        "Probabilities are of all people, whether or not their value was observed. That rests on an assumption: given "
        "its causes, whether a value is missing does not depend on the value. No data can check it; "
        "questions.sensitivity says how answers move without it."
    )
    note = (
        f"missing: the share of people without a value, with {LEVEL:.0%} intervals. because: what that was assumed to "
        "depend on. moved: how far the variable's probabilities among observed values are from those of all people, in "
        "total variation."
    )
    rows = [[str(name), *map(float, row[:3]), row[3] or "nothing", float(row[4])] for name, *row in frame.itertuples()]
    return Section("Missing values", [Words([words]), Table(["variable", *frame.columns], rows, note)])


@page_of.register
def _of_naive_bayes(value: NaiveBayes | NaiveBayesEnsemble) -> Page:
    draws = value.draws if isinstance(value, NaiveBayesEnsemble) else (value.probabilities,)
    network, many = draws[0].network, len(draws)
    tables = {name: np.stack([draw.table(name) for draw in draws]) for name in network.domain.names}
    mean = {name: table.mean(axis=0) for name, table in tables.items()}
    ends = {name: _ends(table, 0) for name, table in tables.items()}
    section, data = tables_section(network, mean, ends if many > 1 else None)
    prior, rows = mean[value.target], []
    for name in value.features:
        joint = mean[name] * prior
        told = float(rel_entr(joint, joint.sum(axis=1, keepdims=True) * prior).sum()) / math.log(2)
        rows.append([name, network.domain.sizes[name], told])
    note = "information: what the feature alone tells of the label on average, in bits; noise adds some of its own."
    features = Table(["feature", "levels", "information"], sorted(rows, key=lambda row: -row[2]), note)
    labels = map(str, network.domain.levels(value.target))
    shares = Table([value.target, "probability"], [list(row) for row in zip(labels, prior.tolist(), strict=True)])
    sections = [protection(value.provenance), Section("Labels", [shares]), Section("Features", [features]), section]
    words = f"{len(value.features)} features" + (f", {many} draws of the tables" if many > 1 else "")
    return Page(f"Naive Bayes classifier of {value.target}", words, sections, data)


@page_of.register
def _of_hidden_markov(value: HiddenMarkovModel) -> Page:
    domain = value.network.domain
    sequences, steps = ([str(level) for level in domain.levels(name)] for name in (value.sequence, value.time))
    likely = value.state_probabilities
    states = [f"state {k}" for k in range(value.n_states)]
    best, sure = likely.argmax(axis=2).tolist(), likely.max(axis=2).tolist()
    cells = [
        [sequence, step, states[best[i][j]], sure[i][j]]
        for i, sequence in enumerate(sequences)
        for j, step in enumerate(steps)
    ]
    words = "Each cell has the colour of its most probable state, paler where that is less sure."
    ribbons = Ribbons(sequences, steps, best, sure, value.n_states, value.time)
    table = Table([value.sequence, value.time, "state", "probability"], cells)
    over_time = Section("States over time", [*_mixing(value.note), Words([words]), ribbons, table])
    moving = Section("From state to state", [Shades(states, states, value.mean_transition.tolist(), "from \\ to")])
    fields = [Section(f"What the states emit: {name}", _emissions(value, name, states)) for name in value.emitted]
    ahead = value.forecast(1, interval=LEVEL)
    rows = [[str(r[0]), r[3], str(r[4]), r[5], r[7], r[8]] for r in ahead.itertuples(index=False)]
    columns = [value.sequence, "field", "level", "probability", "low", "high"]
    next_step = Section("The next step", [Table(columns, rows, f"With {LEVEL:.0%} intervals over the draws.")])
    made: list[Any] = [facts_of(dict(value.diagnostics))]
    if value.choice is not None:
        frame = value.choice.to_frame().reset_index()
        note = "How the number of states was chosen: scores of cells that were not learned from."
        made.append(Table(list(map(str, frame.columns)), frame.astype(object).to_numpy().tolist(), note))
    made_section = Section("How it was computed", made)
    sections = [protection(value.provenance), over_time, moving, *fields, next_step, made_section]
    words = f"{len(sequences)} sequences ({value.sequence}), {len(steps)} steps ({value.time}), {value.inference}"
    return Page(f"Hidden Markov model of {value.n_states} states", words, sections)


def _emissions(value: HiddenMarkovModel, name: str, states: list[str]) -> list[Any]:
    levels = [str(level) for level in value.people.levels(name)]
    mean, (low, high) = value.mean_emission(name), _ends(value.emission_draws(name), (0, 1))
    rows = [
        [state, level, float(mean[k, i]), float(low[k, i]), float(high[k, i])]
        for k, state in enumerate(states)
        for i, level in enumerate(levels)
    ]
    table = Table(["state", name, "probability", "low", "high"], rows, f"{LEVEL:.0%} intervals over the draws.")
    if len(rows) > MOST_BARS:
        return [table]
    numbers: list[list[float]] = [[row[at] for row in rows] for at in (2, 3, 4)]
    names = [f"{row[0]}: {row[1]}" for row in rows]
    return [Intervals(names, *numbers, axis=f"probability, with {LEVEL:.0%} intervals", bounds=(0.0, 1.0)), table]


@page_of.register
def _of_regression(value: LinearRegressionModel | RegressionDraws) -> Page:
    value = value.draws if isinstance(value, LinearRegressionModel) else value
    frame = value.coefficients(LEVEL)
    rows = [[str(name), *map(float, row)] for name, row in zip(frame.index, frame.to_numpy(), strict=True)]
    columns = ["coefficient", "mean", "sd", "low", "high", "share of prior"]
    note = (
        f"In the units of the rows, {LEVEL:.0%} intervals, the noise accounted for. share of prior: near 0 the release "
        "decides, near 1 it says nothing of this coefficient."
        if value.method != "plug-in"
        else f"In the units of the rows, {LEVEL:.0%} intervals that leave the noise out."
    )
    middle, low, high = value.noise_deviation(LEVEL)
    about = {f"deviation of {value.design.target} about its prediction": middle, "from": low, "to": high}
    names = (*value.design.features, value.design.target)
    declared = [[name, in_words(value.design.declared(name))] for name in names]
    sections = [
        protection(value.provenance),
        Section("Effects", [*_mixing(mixing_note(value.diagnostics)), *_effects(value.design, value.in_units)]),
        Section("Coefficients", [Table(columns, rows, note), facts_of(about)]),
        Section("What was declared", [Table(["column", "bounds or levels"], declared)]),
        computed(value),
    ]
    words = f"{len(value.design.features)} features, {len(value):,} draws"
    return Page(f"Linear regression of {value.design.target}", words, sections)


def _effects(design: LinearDesign, in_units: Reals) -> list[Any]:
    """The effect of each column on the target over its whole declared range, so that bars can be compared."""
    columns = [column for column in design.columns[:-1] if column.kind != "intercept"]
    if not columns:
        return [Words(["There is an intercept alone."])]
    bounded = [design.features.get(column.variable) for column in columns]
    spans = [2 * one.half if isinstance(one, Bounded) else 1.0 for one in bounded]
    names = [f"{c.name}, end to end" if c.kind == "number" else c.name for c in columns]
    effects = in_units[:, 1:] * np.array(spans)
    low, high = _ends(effects, 0)
    axis = f"change of {design.target}, with {LEVEL:.0%} intervals"
    words = (
        "How much the prediction changes from one end of a number's declared range to the other, or against the first "
        "level of a variable with levels."
    )
    bars = Intervals(names, effects.mean(axis=0).tolist(), low.tolist(), high.tolist(), axis, zero=True)
    return [Words([words]), bars]


@page_of.register
def _of_parameters(value: ParameterDraws) -> Page:
    mean, ends = value.mean(), value.interval(LEVEL)
    rows = [[name, mean[name], float(value.parameters[name].std()), *ends[name]] for name in mean]
    table = Table(["parameter", "mean", "sd", "low", "high"], rows, f"{LEVEL:.0%} intervals over {len(value):,} draws.")
    parameters = Section("Parameters", [*_mixing(mixing_note(value.diagnostics)), table])
    sections = [protection(value.provenance), parameters, computed(value)]
    return Page("Posterior of a family's parameters", f"by {value.method}", sections)


@page_of.register
def _of_answer(value: Answer) -> Page:
    names = [", ".join(map(str, label)) for label in value.labels]
    known = bool(np.isfinite(value.ends).all())
    columns = ["of", "mean", "sd", "low", "high", *([] if value.predictive is None else ["predictive"])]
    numbers = [value.mean, value.sd, value.low, value.high, *([] if value.predictive is None else [value.predictive])]
    rows = [[name, *(float(column[i]) for column in numbers)] for i, name in enumerate(names)]
    blocks: list[Any] = [Table(columns, rows, f"{value.interval:.0%} intervals over {len(value.draws):,} draws.")]
    if known and len(names) <= MOST_BARS:
        parts = [part.tolist() for part in (value.mean, value.low, value.high)]
        blocks.insert(0, Intervals(names, *parts, axis=value.question))
    words = "An answer keeps no record of its release; show the page of the posterior beside it."
    return Page(value.question, "an answer", [Section("Answer", [*_mixing(value.note), *blocks, Words([words])])])
