"""Released outcomes as they stand in JSON, and back: what was judged, the noisy integers, the law."""

from __future__ import annotations

from typing import Any

from dpgraph.files.arrays import integers_of
from dpgraph.files.plain import law_of, plain_law, whole
from dpgraph.privacy.records import FileError, Provenance
from dpgraph.structure.outcomes import (
    STEPS,
    Classification,
    Entries,
    NoisyOutcomes,
    OutcomeDescription,
    Regression,
    Task,
)


def plain_outcomes(noisy: NoisyOutcomes) -> dict[str, Any]:
    """The body of a release's file, with the grid and weights that its integers are on."""
    description = noisy.description
    return {
        "task": _plain_task(description.task),
        "grid": _grid(description),
        "law": plain_law(noisy.law),
        "n": noisy.n,
        "sums": noisy.sums.tolist(),
    }


def outcomes_of(plain: dict[str, Any], description: OutcomeDescription, provenance: Provenance) -> NoisyOutcomes:
    """The inverse of ``plain_outcomes``, checked against the event that made it."""
    if plain["grid"] != _grid(description):
        raise FileError("the sums are on another grid than this dpgraph's")
    n = None if plain["n"] is None else whole(plain["n"])
    if (n is None) == provenance.unit.n_is_public:
        raise FileError("the number of rows is there exactly when the unit makes it public")
    noisy = NoisyOutcomes(description, integers_of(plain["sums"]), law_of(plain["law"]), n)
    (planned, *others) = provenance.event.measurements or (None,)
    if others or planned is None or (planned.table, planned.law) != (noisy.names, noisy.law):
        raise FileError("the outcomes are not those the event measured")
    return noisy


def outcome_description_of(plain: dict[str, Any]) -> OutcomeDescription:
    """What was summed."""
    return OutcomeDescription(_task(dict(plain["task"])))


def _plain_task(task: Task) -> dict[str, Any]:
    match task:
        case Classification():
            lists = {"classes": list(task.classes), "edges": list(task.edges or ()), "scores": list(task.scores)}
            return {"name": "classification", "largest_loss": task.largest_loss, **lists}
        case Regression():
            bounds = {"low": task.low, "high": task.high}
            return {"name": "regression", "largest_error": task.largest_error, **bounds}
        case Entries():
            return {"name": "entries", "outcomes": task.outcomes, "largest_loss": task.largest_loss}


def _task(plain: dict[str, Any]) -> Task:
    match plain.pop("name"):
        case "classification":
            lists: dict[str, Any] = {name: tuple(plain[name]) for name in ("classes", "edges", "scores")}
            return Classification(largest_loss=plain["largest_loss"], **lists)
        case "regression":
            return Regression(**plain)
        case "entries":
            return Entries(whole(plain["outcomes"]), plain["largest_loss"])
        case name:
            raise FileError(f"outcomes of a task named {name!r:.60} are not known")


def _grid(description: OutcomeDescription) -> dict[str, Any]:
    """What the integers are multiples of, so that no later dpgraph misreads them."""
    return {"steps": STEPS, "weights": [block.weight for block in description.parts]}
