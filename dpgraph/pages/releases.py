"""Pages of releases: the record, the measurements, the released value; and of evaluations and cross-validations."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from dpgraph.files import documents  # noqa: F401 - registers the kinds that can be saved
from dpgraph.files.codecs import written
from dpgraph.models.evaluation import RATES, CrossValidation, Evaluation
from dpgraph.pages.blocks import Intervals, Page, Section, Table, Words
from dpgraph.pages.contents import cost, drawn, facts_of, measurements, number, page_of, plain_graph, protection
from dpgraph.pages.learned import tables_section
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Event, Release
from dpgraph.structure.margins import Margins
from dpgraph.structure.moments import NoisyMoments, NoisyOutcomes
from dpgraph.structure.network import Holding, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities

#: Released numbers of tables that a page holds; the rest is left out, and said.
MOST_NUMBERS = 100_000


@page_of.register
def _of_release(release: Release) -> Page:
    """A release whose value can be saved, which no sensitive value can."""
    written(release.value, released=True)
    if isinstance(release.value, NoisyOutcomes):
        return page_of(Evaluation(release))
    record, value = release.provenance, release.value
    sections, data = _value(value)
    head = [protection(record, learned=False), measurements(record)]
    return Page(f"Release by {record.event.mechanism}", str(record), [*head, *sections], data)


def _value(value: Any) -> tuple[list[Section], dict[str, Any]]:
    match value:
        case NoisyCounts():
            return _counts(value)
        case NoisyCoefficients():
            words = (
                "Noisy coefficients in a basis of the tables were released; a posterior turns them into probabilities."
            )
            return _network(value.network, words)
        case NoisyMoments():
            scaled, steps = value.sums * value.steps, value.steps
            spread = value.law.variance(len(value.names)) ** 0.5
            rows = [
                [name, float(number), float(step * spread)]
                for name, number, step in zip(value.names, scaled, np.broadcast_to(steps, scaled.shape), strict=True)
            ]
            note = "Sums over the rows, in their units or scaled to -1 to 1; noise sd: of the noise in each."
            return [Section("What was released", [Table(["sum of", "released", "noise sd"], rows, note)])], {}
        case Probabilities():
            section, data = tables_section(value.network, value.tables)
            return [section], data
        case (Probabilities(), *_):
            network = value[0].network
            mean = {name: np.mean([draw.table(name) for draw in value], axis=0) for name in network.domain.names}
            words = Words([f"{len(value)} sets of probabilities were drawn; their average is shown."])
            section, data = tables_section(network, mean, None, words)
            return [section], data
        case tuple():
            return [Section("What was released", [Table(["number"], [[float(one)] for one in value], digits=6)])], {}
    network = getattr(value, "network", None)
    if isinstance(network, Network):
        return _network(network, "A posterior turns what was released into probabilities.")
    return [], {}


def _network(network: Network, words: str) -> tuple[list[Section], dict[str, Any]]:
    if isinstance(network, Margins):
        rows = [[", ".join(family), float(network.cells(family))] for family in network.families]
        return [Section("The tables", [Words([words]), Table(["table", "cells"], rows)])], {}
    hint = "Choose a variable to see its parents and levels."
    blocks = [Words([words]), drawn(network, "the network", hint)]
    return [Section("The network", blocks)], {"graph": plain_graph(network, [_cells_of(network)])}


def _cells_of(network: Network) -> dict[str, Any]:
    values = [float(network.cells(family)) for family in network.families]
    return {"name": "cells", "words": "cells of the variable's table", "values": values}


def _words(value: NoisyCounts) -> list[str]:
    words = [
        "These are the released numbers: counts with noise, so some are negative and none is exact. They are public."
    ]
    return words if value.n is None else [*words, f"The number of rows, {value.n:,}, is public and exact."]


def _counts(value: NoisyCounts) -> tuple[list[Section], dict[str, Any]]:
    network = value.network
    if isinstance(network, Margins):
        return _margins(value), {}
    tables: list[Any] = []
    noise: list[float] = []
    room, holding = MOST_NUMBERS, Holding(network, value.tables)
    for family in network.families:
        holder = holding.smallest(family)
        noise.append(float(value.variance(holder) ** 0.5))
        room -= value.tables[holder].size
        levels = [[str(level) for level in network.domain.levels(name)] for name in holder]
        numbers = {"levels": levels, "values": value.tables[holder].ravel().tolist(), "sd": noise[-1]}
        tables.append(None if room < 0 else {"axes": list(holder), **numbers})
    words = _words(value)
    if room < 0:
        words.append(f"Numbers beyond the first {MOST_NUMBERS:,} are left out of this page.")
    graph = drawn(
        network,
        "the network, coloured by the noise in its tables",
        "Choose a variable to see the released table that its family is read from.",
    )
    said = "standard deviation of the noise in a released cell, rows"
    measures = [{"name": "noise", "words": said, "values": noise}, _cells_of(network)]
    shown = Section("What was released", [Words(words), graph])
    return [shown], {"graph": plain_graph(network, measures), "counts": tables}


def _margins(value: NoisyCounts) -> list[Section]:
    rows: list[list[Any]] = []
    numbers: list[list[Any]] = []
    for family, table in value.tables.items():
        name, spread = ", ".join(family), float(value.variance(family) ** 0.5)
        rows.append([name, float(table.size), spread])
        if len(numbers) < MOST_NUMBERS:
            labels = product(*(map(str, value.network.domain.levels(one)) for one in family))
            numbers += [[name, ", ".join(each), float(one)] for each, one in zip(labels, table.ravel(), strict=True)]
    words = [*_words(value), "There is no graph yet: one is chosen from them for free, dg.choose_network(release)."]
    note = "noise sd: standard deviation of the noise in a released cell, rows."
    return [
        Section("What was released", [Words(words), Table(["table", "cells", "noise sd"], rows, note)]),
        Section("The released numbers", [Table(["table", "levels", "released"], numbers)]),
    ]


@page_of.register
def _of_evaluation(value: Evaluation) -> Page:
    record = value.release.provenance
    sections = [protection(record), *_scores(value), measurements(record)]
    return Page("Evaluation of a model on held-out rows", str(record), sections)


@page_of.register
def _of_cross_validation(value: CrossValidation) -> Page:
    record = value.evaluation.release.provenance
    fit = Event("one fit", value.training_epsilon, value.training_delta)
    share = f"{value.folds - 1} of {value.folds} parts of the rows"
    about = Words(
        [
            f"Each of {value.folds} models was fitted on {share}, at {cost(fit)}, and predicted the rows of the other "
            "part; the predictions for all rows were judged together and released once. No model was released.",
            f"The scores are about fits at {cost(fit)} on that many rows. A fit at a larger epsilon on all rows is "
            "likely to do better, one at a smaller epsilon worse.",
        ],
        "advice",
    )
    rows = [[at, part.mechanism, float(part.epsilon), float(part.delta)] for at, part in enumerate(value.parts, 1)]
    note = (
        "The parts one by one. One person's rows are in the training sets of some of the fits only, so the whole costs "
        "less than their sum, or as much."
    )
    paid = Section("What was paid for", [Table(["part", "what", "epsilon", "delta"], rows, note)])
    how = Section("How it was judged", [about, facts_of({"folds": value.folds, "fits at epsilon": float(fit.epsilon)})])
    sections = [protection(record), how, *_scores(value.evaluation), paid]
    return Page("Cross-validation of a private estimator", str(record), [*sections, measurements(record)])


def _scores(value: Evaluation) -> list[Section]:
    rows = [[str(row[0]), *map(float, row[1:])] for row in value.to_frame().itertuples(index=False)]
    blocks: list[Any] = []
    bounded = [row for row in rows if row[0] in ("accuracy", "AUC", *RATES)]
    if bounded:
        parts: list[list[float]] = [[row[at] for row in bounded] for at in (1, 2, 3)]
        axis = f"share of held-out rows, with a {value.interval:.0%} interval"
        blocks.append(Intervals([row[0] for row in bounded], *parts, axis=axis, bounds=(0.0, 1.0)))
    note = (
        f"{value.interval:.0%} intervals hold the population's score: the noise and the luck of the held-out rows are "
        "both in them. noise sd: what the noise alone does to the estimate."
    )
    blocks.append(Table(["score", "estimate", "low", "high", "noise sd"], rows, note))
    sections = [Section("Scores", blocks)]
    titles = {
        "confusion": "Truth and prediction",
        "classes": "Each class against the others",
        "thresholds": "From each probability on",
        "reliability": "Are stated probabilities right?",
    }
    for name, title in titles.items():
        try:
            frame = getattr(value, name)
        except InferenceError:
            continue
        cells = [
            [float(part) if isinstance(part, float | np.floating) else str(part) for part in row]
            for row in frame.itertuples(index=False)
        ]
        table = Table([str(one).replace("_", " ") for one in frame.columns], cells)
        drawn_bins: list[Any] = []
        if name == "reliability":  # a calibrated model's dots lie within the names
            ends = zip(frame["confidence_low"], frame["confidence_high"], strict=True)
            names = [f"stated {number(low)} to {number(high)}" for low, high in ends]
            parts = [frame[column].astype(float).tolist() for column in ("right", "low", "high")]
            axis = f"share that is right, with {value.interval:.0%} intervals; calibrated: stated and observed agree"
            drawn_bins.append(Intervals(names, *parts, axis=axis, bounds=(0.0, 1.0)))
        sections.append(Section(title, [*drawn_bins, table]))
    return sections
