"""Whatever holds a network's conditional probabilities, one set of them or many draws, read in one form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import check_graph
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Release
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities, Reals, advice, own_methods

#: Draws that are taken from a Dirichlet posterior, and the seed they are taken with.
PLUG_IN_DRAWS, SEED = 1000, 0
#: What stands for a probability of a draw that is too small to be written.
UNDERFLOWN = 1e-300


@dataclass(frozen=True, eq=False)
class DrawnTables:
    """Equally weighted draws of every table of a network; a single set of probabilities is one draw.

    ``tables`` has axes (draw, variable, *parents). ``centre`` has the tables whose answer is the predictive
    probability, where the draws are of independent Dirichlet laws: the product of means is the mean of products then;
    else None, and draws are averaged. ``arcs`` names the owner of arcs that are known to be no causes, for the refusal
    of ``do``; ``note`` says that chains have not mixed; else both are empty. ``joints`` gives the probabilities of some
    variables, axes (draw, *variables), times weights of other ones' levels, where the model is more than the tables.
    """

    network: Network
    tables: Mapping[str, Reals]
    centre: DrawnTables | None = None
    arcs: str = ""
    note: str = ""
    joints: Callable[[Family, Mapping[str, Reals]], Reals] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.tables.values())))

    @cached_property
    def mean(self) -> DrawnTables:
        """The average table of each variable, as one draw."""
        means = {name: table.mean(axis=0, keepdims=True) for name, table in self.tables.items()}
        return DrawnTables(self.network, means, arcs=self.arcs)

    def positive(self, names: Iterable[str]) -> bool:
        """True if no draw of these variables' tables holds a probability of 0."""
        return all((self.tables[name] > 0).all() for name in names)


def drawn_tables(model: Any) -> DrawnTables:
    """The tables of a model, of a fitted estimator that has one, or of a release, draw by draw."""
    if isinstance(model, DrawnTables):
        return model
    if isinstance(model, Release):
        return drawn_tables(model.value)
    if hasattr(model, "posterior_") and hasattr(model, "model_"):
        return replace(tables_given(model.posterior_), arcs=tables_given(model.model_).arcs)
    found = tables_given(model)
    check_graph(found)
    return found


@singledispatch
def tables_given(model: Any) -> DrawnTables:
    """A model's tables, draw by draw; a layer above registers its own models."""
    words = "a network's probabilities or draws of them"
    ours = type(model).__module__.startswith("dpgraph.") and not isinstance(model, Network)
    release = ours and not hasattr(model, "probabilities") and not own_methods(model)
    what = "of a release make a posterior first, posterior(release)" if release else advice(model, "query")
    raise InferenceError(f"a question needs {words}; got {type(model).__name__}: {what}")


@tables_given.register
def _single(model: Probabilities) -> DrawnTables:
    return DrawnTables(model.network, {name: table[None] for name, table in model.tables.items()})


def _positive(network: Network, name: str, table: Reals) -> Reals:
    """Draws of a table whose possible cells are above 0, as those of a Dirichlet draw are before they underflow."""
    allowed = network.allowed(name)
    return table if table.all() else np.maximum(table, UNDERFLOWN if allowed is None else UNDERFLOWN * allowed)


@tables_given.register
def _draws(model: PosteriorDraws) -> DrawnTables:
    if any(isinstance(table, np.memmap) for table in model.tables.values()):
        return DrawnTables(model.network, _OnDisk(model), note=model.note)
    tables = {name: _positive(model.network, name, model.flat(name)) for name in model.tables}
    return DrawnTables(model.network, tables, note=model.note)


class _OnDisk(Mapping[str, Reals]):
    """The tables of draws that lie in a file, each read when it is asked for."""

    def __init__(self, model: PosteriorDraws) -> None:
        self._model = model

    def __getitem__(self, name: str) -> Reals:
        return _positive(self._model.network, name, self._model.flat(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._model.tables)

    def __len__(self) -> int:
        return len(self._model.tables)


@tables_given.register
def _plug_in(model: DirichletPosterior) -> DrawnTables:
    drawn = model.sample_tables(np.random.default_rng(SEED), PLUG_IN_DRAWS)
    tables = {name: _positive(model.network, name, table) for name, table in drawn.items()}
    return DrawnTables(model.network, tables, tables_given(model.mean()))


@tables_given.register(tuple)
@tables_given.register(list)
def _several(model: Any) -> DrawnTables:
    if not model or not all(isinstance(draw, Probabilities) for draw in model):
        raise InferenceError("a list of draws holds at least one set of Probabilities, and nothing else")
    network = model[0].network
    if any(draw.network is not network and draw.network != network for draw in model):
        raise InferenceError("the draws of a list must be tables of one network")
    return DrawnTables(network, {name: np.stack([draw.tables[name] for draw in model]) for name in network.parents})
