"""A fitted hidden Markov model, or the sweeps of a private sampler, as plain values, every draw, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args

import numpy as np

from dpgraph.files.arrays import integers_of, plain_tables, shares_of, tables_of
from dpgraph.files.plain import whole
from dpgraph.inference.markov.sampler import Inference, Sampler
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.markov_sweeps import INFERENCE
from dpgraph.models.state_choice import StateChoice
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.markov import MarkovSweeps
from dpgraph.structure.network import Network


def plain_markov_model(model: HiddenMarkovModel) -> dict[str, Any]:
    """The draws, arrays as they are."""
    made = {name: getattr(model, name) for name in ("sequence", "time", "inference", "sampler")}
    arrays = {name: getattr(model, name) for name in ("transition", "states", "log_joint", "entries")}
    emissions = plain_tables(model.emissions)
    more: dict[str, Any] = {"effects": plain_tables(FrozenMap(model.effects))} if model.effects else {}
    more |= {"choice": asdict(model.choice)} if model.choice is not None else {}
    return made | {"acceptance": dict(model.acceptance)} | arrays | {"emissions": emissions} | more


def markov_model_of(plain: dict[str, Any], network: Network, provenance: Provenance | None) -> HiddenMarkovModel:
    """The inverse of ``plain_markov_model``; the model checks that its parts fit. Files before effects have none.

    Raises:
        FileError, NetworkError: If they do not.
    """
    if plain["inference"] not in (*get_args(Inference), INFERENCE) or plain["sampler"] not in get_args(Sampler):
        raise FileError("the inference or the sampler is not one of dpgraph's")
    reals = tables_of({name: plain[name] for name in ("transition", "log_joint", "entries")})
    states = integers_of(plain["states"])
    if states.size == 0 or np.abs(states).max() > np.iinfo(np.int16).max:
        raise FileError("the states are not those of a model")
    return HiddenMarkovModel(
        network,
        *names_of(plain),
        reals["transition"],
        tables_of(plain["emissions"]),
        states,
        reals["log_joint"],
        reals["entries"],
        plain["inference"],
        plain["sampler"],
        shares_of(plain["acceptance"]),
        provenance,
        tables_of(plain.get("effects", {})),
        _choice_of(plain["choice"]) if "choice" in plain else None,
    )


def _choice_of(plain: Any) -> StateChoice:
    """How the number of states was chosen.

    Raises:
        FileError: If it is no such record.
    """
    if not isinstance(plain, dict) or set(plain) != {"states", "scores", "deviations", "chosen"}:
        raise FileError("the choice of the number of states is not one")
    read = tables_of({name: plain[name] for name in ("scores", "deviations")})
    states = integers_of(plain["states"])
    if states.ndim != 1 or any(values.ndim != 1 for values in read.values()):
        raise FileError("the choice of the number of states is not one")
    scores, deviations = (tuple(read[name].tolist()) for name in ("scores", "deviations"))
    return StateChoice(tuple(states.tolist()), scores, deviations, whole(plain["chosen"]))


def names_of(plain: dict[str, Any]) -> tuple[str, str]:
    """The variables that name a log's sequences and its time steps; the first files called a sequence a chain.

    Raises:
        FileError: If one is no name, or the sequence is named twice.

    >>> names_of({"sequence": "region", "time": "month"}) == names_of({"chain": "region", "time": "month"})
    True
    """
    found = [plain[key] for key in ("sequence", "chain") if key in plain]
    if len(found) != 1 or not all(isinstance(name, str) for name in (*found, plain["time"])):
        raise FileError("the sequence or the time is not a name")
    return found[0], plain["time"]


def plain_sweeps(sweeps: MarkovSweeps) -> dict[str, Any]:
    """The sweeps, arrays as they are."""
    arrays = {name: getattr(sweeps, name) for name in ("transition", "states")}
    named = {"sequence": sweeps.sequence, "time": sweeps.time}
    return named | arrays | {"emissions": plain_tables(sweeps.emissions)}


def sweeps_of(plain: dict[str, Any], network: Network, provenance: Provenance) -> MarkovSweeps:
    """The inverse of ``plain_sweeps``; the value checks that its parts fit.

    Raises:
        FileError, NetworkError: If they do not, or the event made another number of sweeps.
    """
    emissions, transition = tables_of(plain["emissions"]), tables_of({"transition": plain["transition"]})["transition"]
    made = (*names_of(plain), transition, emissions, integers_of(plain["states"]))
    sweeps = MarkovSweeps(network, *made, provenance)
    if sum(selection.draws for selection in provenance.event.selections) != 2 * sweeps.sweeps:
        raise FileError("the sweeps are not as many as the event made")
    return sweeps
