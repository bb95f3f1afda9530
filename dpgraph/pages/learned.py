"""Pages of probabilities, posteriors, learned networks, classifiers, hidden Markov models, regressions, answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpgraph.inference.draws import ParameterDraws, mixing_note
from dpgraph.inference.graphs.learned import LearnedNetwork, strength
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.queries.answer import Answer
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.pages.blocks import Intervals, Page, Ribbons, Section, Shades, Table, Words
from dpgraph.pages.contents import computed, drawn, facts_of, measurements, page_of, plain_graph, protection
from dpgraph.privacy.arrays import Reals
from dpgraph.structure.design import Bounded, LinearDesign
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
    if not note:
        return []
    words = f"{note[0].upper()}{note[1:]}: intervals may be wrong. Longer chains from the same release are free."
    return [Words([words], "warning")]


def tables_section(
    network: Network, mean: Mapping[str, Reals], ends: Mapping[str, Reals] | None
) -> tuple[Section, dict[str, Any]]:
    """The DAG and the tables, for the page's program to show one variable at a time; and its data.

    ``mean`` has P(level | parents) of each variable, axes (variable, *parents); ``ends`` the ends of intervals, axes
    (low and high, variable, *parents), where there are any.
    """
    tables: list[Any] = []
    room = MOST_ENTRIES
    for name in network.domain.names:
        room -= mean[name].size
        interval = None if ends is None else ends[name]
        tables.append(None if room < 0 else _plain_table(network, name, mean[name], interval))
    sizes = [float(mean[name].size) for name in network.domain.names]
    measures = [{"name": "cells", "words": "entries of the variable's table", "values": sizes}]
    if ends is not None:
        widths = [float((ends[name][1] - ends[name][0]).mean()) for name in network.domain.names]
        measures.insert(0, {"name": "width", "words": f"mean width of {LEVEL:.0%} intervals", "values": widths})
    left = sum(table is None for table in tables)
    words = f"The tables of {left} variables are left out: there are more than {MOST_ENTRIES:,} entries."
    shown = "with their intervals" if ends is not None else "as they were learned"
    graph = drawn(network, "the network", f"Choose a variable to see its probabilities, {shown}.")
    section = Section("Probabilities", [*([Words([words])] if left else []), graph])
    return section, {"graph": plain_graph(network, measures), "tables": tables}


def _plain_table(network: Network, name: str, mean: Reals, ends: Reals | None) -> dict[str, Any]:
    """One table: numbers in C order, a column for each parent configuration."""
    parents = network.parents[name]
    levels = [network.domain.levels(parent) for parent in parents]
    given = [
        ", ".join(f"{parent}={levels[at][i]}" for at, (parent, i) in enumerate(zip(parents, index, strict=True)))
        for index in np.ndindex(*map(len, levels))
    ]
    parts = {"mean": mean} if ends is None else {"mean": mean, "low": ends[0], "high": ends[1]}
    numbers = {part: np.round(values.ravel(), 5).tolist() for part, values in parts.items()}
    return {"levels": [str(level) for level in network.domain.levels(name)], "given": given, **numbers}


def _ends(draws: Reals, axis: int | tuple[int, ...]) -> Reals:
    return np.quantile(draws, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=axis)


def _counted(network: Network) -> str:
    many = len(network.domain.names)
    return f"{many} variable{'s' if many > 1 else ''}"


@page_of.register
def _of_probabilities(value: Probabilities) -> Page:
    section, data = tables_section(value.network, value.tables, None)
    sections = [protection(value.provenance), section, *_edges(value)]
    return Page(f"Probabilities of a network of {_counted(value.network)}", "", sections, data)


def _edges(value: Probabilities) -> list[Section]:
    found: list[list[Any]] = [
        [parent, name, strength(value.table(name), axis)]
        for name, parents in value.network.parents.items()
        for axis, parent in enumerate(parents, 1)
    ]
    if not found:
        return []
    order = np.argsort([-row[2] for row in found], kind="stable")[:MOST_EDGES]
    return [Section("Edges", [Table(["parent", "child", "strength"], [found[i] for i in order], STRENGTH)])]


@page_of.register
def _of_learned(value: LearnedNetwork) -> Page:
    section, data = tables_section(value.network, value.probabilities.tables, None)
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
        else "The graph was chosen with a part of the budget. An edge is no finding about causes."
    )
    words = Words([f"Why this method: {value.reason}.", how])
    if not rows:
        return Section("Edges", [words, Words(["No pair stands out of its noise: the graph has no edge."])])
    columns = ["parent", "child", "strength", *(["share"] if known else [])]
    left = f" The strongest {MOST_EDGES} of {len(frame)} are listed." if len(frame) > MOST_EDGES else ""
    return Section("Edges", [words, Table(columns, rows, STRENGTH + (f" {SHARE}" if known else "") + left)])


@page_of.register
def _of_posterior(value: DirichletPosterior) -> Page:
    section, data = tables_section(value.network, value.mean().tables, value.interval(LEVEL))
    words = Words(
        [
            "These intervals take the released numbers as exact: they leave the noise out, and are too narrow where it "
            "matters. A noise-aware posterior has honest ones."
        ],
        "advice",
    )
    section = Section(section.title, [words, *section.blocks])
    sections = [protection(value.provenance), section]
    return Page(f"Posterior of a network of {_counted(value.network)}", "noise not accounted for", sections, data)


@page_of.register
def _of_draws(value: PosteriorDraws) -> Page:
    section, data = tables_section(value.network, value.mean().tables, value.interval(LEVEL))
    section = Section(section.title, [*_mixing(mixing_note(value.diagnostics)), *section.blocks])
    sections = [protection(value.provenance), section, computed(value)]
    return Page(
        f"Posterior of a network of {_counted(value.network)}",
        f"noise accounted for, {len(value):,} draws",
        sections,
        data,
    )


@page_of.register
def _of_naive_bayes(value: NaiveBayes) -> Page:
    section, data = tables_section(value.probabilities.network, value.probabilities.tables, None)
    sections = [protection(value.provenance), *_classes(value.target, [value.probabilities]), section]
    return Page(f"Naive Bayes classifier of {value.target}", f"{len(value.features)} features", sections, data)


@page_of.register
def _of_ensemble(value: NaiveBayesEnsemble) -> Page:
    network = value.draws[0].network
    tables = {name: np.stack([draw.table(name) for draw in value.draws]) for name in network.domain.names}
    mean = {name: table.mean(axis=0) for name, table in tables.items()}
    ends = {name: _ends(table, 0) for name, table in tables.items()}
    section, data = tables_section(network, mean, ends if len(value.draws) > 1 else None)
    sections = [protection(value.provenance), *_classes(value.target, value.draws), section]
    words = f"{len(value.features)} features, {len(value.draws)} draws of the tables"
    return Page(f"Naive Bayes classifier of {value.target}", words, sections, data)


def _classes(target: str, draws: Any) -> list[Section]:
    network = draws[0].network
    labels = [str(level) for level in network.domain.levels(target)]
    prior = np.mean([draw.table(target) for draw in draws], axis=0)
    rows = []
    for name in network.domain.names:
        if name == target:
            continue
        table = np.mean([draw.table(name) for draw in draws], axis=0)
        joint = table * prior
        share = joint.sum(axis=1, keepdims=True) * prior
        with np.errstate(divide="ignore", invalid="ignore"):
            told = float(np.where(joint > 0, joint * np.log2(joint / share), 0.0).sum())
        rows.append([name, network.domain.sizes[name], told])
    rows.sort(key=lambda row: -row[2])
    note = "information: what the feature alone tells of the label on average, in bits; noise adds some of its own."
    shares = [[label, share] for label, share in zip(labels, prior.tolist(), strict=True)]
    return [
        Section("Labels", [Table([target, "probability"], shares)]),
        Section("Features", [Table(["feature", "levels", "information"], rows, note)]),
    ]


@page_of.register
def _of_hidden_markov(value: HiddenMarkovModel) -> Page:
    domain = value.network.domain
    sequences, steps = ([str(level) for level in domain.levels(name)] for name in (value.sequence, value.time))
    likely = value.state_probabilities
    states = [f"state {k}" for k in range(value.n_states)]
    ribbons = Ribbons(
        sequences, steps, likely.argmax(axis=2).tolist(), likely.max(axis=2).tolist(), value.n_states, value.time
    )
    cells = [
        [sequence, step, f"state {int(likely[i, j].argmax())}", float(likely[i, j].max())]
        for i, sequence in enumerate(sequences)
        for j, step in enumerate(steps)
    ]
    over_time = Section(
        "States over time",
        [
            *_mixing(value.note),
            Words(["Each cell has the colour of its most probable state, paler where that is less sure."]),
            ribbons,
            Table([value.sequence, value.time, "state", "probability"], cells),
        ],
    )
    moving = Section("From state to state", [Shades(states, states, value.mean_transition.tolist(), "from \\ to")])
    fields = [Section(f"What the states emit: {name}", _emissions(value, name, states)) for name in value.fields]
    ahead = value.forecast(1, interval=LEVEL)
    rows = [[str(r[0]), r[2], str(r[3]), r[4], r[6], r[7]] for r in ahead.itertuples(index=False)]
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
    levels = [str(level) for level in value.network.domain.levels(name)]
    mean, (low, high) = value.mean_emission(name), _ends(value.emissions[name], (0, 1))
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
def _of_regression(value: LinearRegressionModel) -> Page:
    return _of_regression_draws(value.draws)


@page_of.register
def _of_regression_draws(value: RegressionDraws) -> Page:
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
    sections = [
        protection(value.provenance),
        Section("Effects", [*_mixing(mixing_note(value.diagnostics)), *_effects(value.design, value.in_units)]),
        Section("Coefficients", [Table(columns, rows, note), facts_of(about)]),
        _declared(value.design),
        computed(value),
    ]
    words = f"{len(value.design.features)} features, {len(value):,} draws"
    return Page(f"Linear regression of {value.design.target}", words, sections)


def _effects(design: LinearDesign, in_units: Reals) -> list[Any]:
    """The effect of each column on the target over its whole declared range, so that bars can be compared."""
    columns = [column for column in design.columns[:-1] if column.kind != "intercept"]
    if not columns:
        return [Words(["There is an intercept alone."])]
    spans, names = [], []
    for column in columns:
        feature = design.features.get(column.variable)
        spans.append(2 * feature.half if isinstance(feature, Bounded) else 1.0)
        names.append(f"{column.name}, end to end" if isinstance(feature, Bounded) else column.name)
    effects = in_units[:, 1:] * np.array(spans)
    low, high = _ends(effects, 0)
    axis = f"change of {design.target}, with {LEVEL:.0%} intervals"
    words = (
        "How much the prediction changes from one end of a number's declared range to the other, or against the first "
        "level of a variable with levels."
    )
    bars = Intervals(names, effects.mean(axis=0).tolist(), low.tolist(), high.tolist(), axis, zero=True)
    return [Words([words]), bars]


def _declared(design: LinearDesign) -> Section:
    rows = []
    for name, feature in {**design.features, design.target: design.bounds}.items():
        if isinstance(feature, Bounded):
            said = f"{feature.middle - feature.half:g} to {feature.middle + feature.half:g}"
        else:
            said = ", ".join(map(str, feature.levels))
        rows.append([name, said])
    return Section("What was declared", [Table(["column", "bounds or levels"], rows)])


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
