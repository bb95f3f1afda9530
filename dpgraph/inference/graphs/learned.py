"""A network that was learned: the graph, its probabilities, and the release that both were read from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.arguments import check_whole_number, seeded
from dpgraph.inference.draws import warn_if_not_mixed
from dpgraph.inference.graphs.averaging import PATIENCE, affordable, averaged_posterior
from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.methods import Records
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import evidence_for
from dpgraph.inference.network.posterior import holds_families, posterior_beyond_tables, seconds_of_records
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.public import PublicPrior
from dpgraph.inference.posterior import posterior
from dpgraph.inference.queries.tables import DrawnTables, tables_given
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance, joined, released_value
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities, Reals
from dpgraph.waiting import counted, waiting

if TYPE_CHECKING:
    import networkx as nx

#: Graphs that are chosen again, on draws of the pairs, unless it is said how many.
DRAWS = 20
#: Draws from the posterior for questions and models, unless it is said how many; and of chains that average graphs.
FEW, MANY = 100, 200
#: The most seconds that averaging over graphs is forecast to take where a question has it.
SECONDS = 5.0


@dataclass(frozen=True)
class Alternative:
    """Another graph that the release allows.

    Attributes:
        network: The graph.
        share: The share of draws of the pairs on which it is chosen.
    """

    network: Network
    share: float


@dataclass(frozen=True, eq=False)
class LearnedNetwork:
    """A graph chosen from a release, with all that the choice was made of.

    Attributes:
        probabilities: The model, for ``dg.query``, ``dg.sample_rows``, ``dg.to_pgmpy``: all that the release says, as a
            network whose families fill the cliques of a tree; under constraints on edges or parents, and where one
            family would exceed ``max_cells``, the tables of ``network``. ``dg.save`` of a learned network writes it,
            with the release beside it. Of a file ``dg.choose_network(dg.load(path, release=True), ...)``, with the
            constraints that were given, chooses again for free, and has ``edges`` and ``alternatives``.
        release: Every noisy table, as released, which the posterior reads.
        method: How the graph was chosen.
        reason: The reason for the method.
    """

    probabilities: Probabilities
    release: Any
    method: str
    reason: str
    _graph: Probabilities | None = field(default=None, repr=False)
    _near: Any = field(default=None, repr=False)
    _again: Any = field(default=None, repr=False)
    _refit: Any = field(default=None, repr=False)
    _asked: Any = field(default=None, repr=False)
    _constraints: Limits | None = field(default=None, repr=False)

    @property
    def tables(self) -> Probabilities:
        """The tables of the chosen graph: the model's, without the edges that noise alone could have made."""
        return self.probabilities if self._graph is None else self._graph

    @property
    def network(self) -> Network:
        """The chosen graph over its domain."""
        return self.tables.network

    @cached_property
    def diagnostics(self) -> dict[str, float]:
        """How near the model's pairs are to the released ones; empty where the model is the chosen graph alone.

        That is so under constraints on edges or parents, and where the graph was paid for.

        ``distance`` is the mean total variation between the interactions of both, ``noise`` what noise alone is
        expected to make of it, ``ratio`` the one by the other: about 1 where nothing is lost. ``cliques`` and ``cells``
        are those of the model, and ``left_out`` is the number of pairs outside its cliques that it misses by more
        than three times their noise: where there are some, cells were short.
        """
        return {} if self._near is None else self._near()

    @property
    def provenance(self) -> Provenance | None:
        """The record of the release, and of any other behind the tables; None where values were given without one."""
        return joined([self.probabilities.provenance, released_value(self.release)[1]])

    @property
    def model_(self) -> Probabilities:
        """The value that ``dg.save`` writes, as of an estimator, with the release beside it."""
        return self.probabilities

    @property
    def release_(self) -> Any:
        """The release, as an estimator names it."""
        return self.release

    @cached_property
    def edges(self) -> DataFrame:
        """The edges, strongest first: parent, child, strength, share.

        ``strength`` is how far the child depends on the parent given its other parents: the mean total variation of its
        probabilities from their mean over that parent's levels, all configurations alike. ``share`` is the part of
        ``DRAWS`` draws of the population's pairs, given the release, on which the two are joined in either direction:
        low for an edge that the noise or the sample alone may have made. Choosing again on each draw takes as long as
        choosing did, and shows a bar on a terminal. NaN where the method cannot choose again for free.
        """
        found = [(parent, child, data["strength"]) for parent, child, data in self.to_networkx().edges(data=True)]
        frame = data_frame(found, columns=["parent", "child", "strength"])
        with waiting("choosing again", True):  # a property cannot be asked for a bar
            frame["share"] = [self._share(parent, child) for parent, child, _ in found]
        return frame.sort_values("strength", ascending=False, ignore_index=True)

    def alternatives(
        self, k: int = 5, *, draws: int = DRAWS, seed: int = 0, progress: bool = False
    ) -> tuple[Alternative, ...]:
        """The graphs that are chosen most often on draws of the pairs from their posterior given the release.

        Args:
            k: At most so many.
            draws: On how many draws to choose; each takes as long as choosing did.
            seed: For the draws.
            progress: A bar on a terminal. With ``draws`` and ``seed`` as they are, ``edges`` uses the same draws.

        Returns:
            Graphs with their shares, most frequent first. Of many variables nearly every draw has a graph of its own;
            ``edges`` shows their common arcs.

        Raises:
            InferenceError: If a number is out of range, or the method cannot choose again for free.
        """
        check_whole_number("k", k, 1)
        check_whole_number("draws", draws, 1)
        check_whole_number("seed", seed, 0)
        if self._again is None:
            raise InferenceError(f"method {self.method!r} paid for its choices: another graph would cost more epsilon")
        with waiting("choosing again", progress):
            graphs = self._drawn if (draws, seed) == (DRAWS, 0) else _graphs(self._again, draws, seed)
        return tuple(Alternative(network, times / draws) for network, times in Counter(graphs).most_common(k))

    def posterior(self, *, graphs: str = "auto", **settings: Any) -> Any:
        """Draws of a network's probabilities from their posterior given every released table.

        The choice of the graph read nothing but the release, so nothing of the noise is left out. ``graphs="averaged"``
        draws the graph with its tables, in the chosen one's order of the variables and under the same constraints, with
        at most 3 parents unless ``max_parents`` said otherwise: numbers of parents, and sets of one number, are equally
        likely beforehand. The draws' network has every parent that some draw has. Without a prior, rows of a table are
        at most 20 records' worth alike: independence of a parent is for the graph to say.

        ``graphs="chosen"`` takes the chosen graph for true: an arc that drowned in the noise is absent, so intervals
        about it are too narrow (on simulated worlds 90 % intervals held .79 of the answers, averaged ones .89). A
        family inside one measured table is read as by ``dg.posterior``; else chains of records read all tables.

        ``method="refitted"`` fits the chosen graph's tables again to pairs drawn given the release: seconds at any
        number of rows. It is the default where chains are forecast to take more than a minute.

        Unobserved values are filled given the chosen graph, as by ``dg.posterior``, or given each drawn one; the causes
        of holes are then drawn too, unless ``missing_because`` names them. ``"refitted"`` and ``probabilities`` have a
        level for nulls.

        Args:
            graphs: ``"averaged"``, ``"chosen"``, or ``"auto"``: averaged in small domains, where chains of records are
                forecast to take a minute at most or are the only way, without another method or a numeric prior;
                chosen where values are unobserved.
            settings: As for ``dg.posterior``: prior, method, draws, seed, progress, missing_because.

        Returns:
            ``PosteriorDraws``.

        Raises:
            InferenceError: If a setting is out of range, another method is asked for where records alone can draw, or
                graphs are to be averaged whose choices were paid for, or that span too many cells.
        """
        if graphs not in ("auto", "chosen", "averaged"):
            raise InferenceError(f"graphs must be 'auto', 'chosen' or 'averaged'; got {graphs!r:.60}")
        if settings.get("missing_because") is None:
            settings.pop("missing_because", None)
        elif settings.get("method") == "refitted" or not self.network.domain.holes:
            raise InferenceError(
                "missing_because is for values declared missing=dg.UNOBSERVED, and for methods that fill them, which "
                '"refitted" does not'
            )
        if self.network.domain.holes and settings.get("method") != "refitted" and graphs != "averaged":
            return posterior(self.release, network=self.network, **settings)
        value, provenance = released_value(self.release)
        tables = holds_families(value, self.network)
        if self._refits(value, tables, graphs, **settings):
            return replace(self._refitted(**settings), provenance=provenance)
        if graphs == "averaged" or (graphs == "auto" and self._averages(value, tables, **settings)):
            if self._constraints is None:
                raise InferenceError(
                    f"method {self.method!r} paid for its choices: there are no others to average over"
                )
            return averaged_posterior(self.release, self.network, self._constraints, **settings)
        if tables:
            return posterior(self.release, network=self.network, **settings)
        if isinstance(prior := settings.get("prior"), PublicPrior):
            provenance = prior.recorded(provenance)
        rng = seeded(settings.pop("seed", None))
        made = posterior_beyond_tables(value, self.network, rng=rng, **settings).judged()
        warn_if_not_mixed(made.diagnostics)
        return replace(made, provenance=provenance)

    def _refits(self, value: Any, tables: bool, graphs: str, **settings: Any) -> bool:
        """True where tables are refitted: as asked, or since chains, the only other way, would take too long."""
        asked = settings.get("method", "auto")
        if (
            asked != "auto"
            or graphs == "averaged"
            or self._refit is None
            or tables
            or settings.get("prior") is not None
        ):
            return asked == "refitted" and self._refit is not None
        if graphs == "auto" and self._averages(value, tables, **settings):
            return False
        return seconds_of_records(evidence_for(self.network, value), Records(), settings.get("draws", 1000)) > PATIENCE

    def _refitted(
        self, *, draws: int = 1000, seed: Any = None, progress: bool = False, method: Any = None, prior: Any = None
    ) -> PosteriorDraws:
        if prior is not None:
            raise InferenceError('method="refitted" has no prior: what the release says decides; leave prior out')
        check_whole_number("draws", draws, 1)
        return self._refit(self.network, draws=draws, rng=seeded(seed), progress=progress)

    @property
    def refits(self) -> bool:
        """True where ``method="refitted"`` draws in seconds."""
        return self._refit is not None

    @cached_property
    def few_draws(self) -> Any:
        """A hundred draws from the posterior, or more of averaged graphs, the same ones each time, for questions."""
        if self._averaged:
            return self.posterior(draws=MANY, seed=0)
        quick: Any = {} if self._refit is None or self.network.domain.holes else {"method": "refitted"}
        return self.posterior(draws=FEW, seed=0, **quick)

    @cached_property
    def _drawn_fields(self) -> DrawnTables | None:
        """A hundred draws of the model; None where graphs are averaged, or the model is the chosen graph alone."""
        if self._asked is None or self._averaged:
            return None
        with waiting("drawing tables", True):
            return self._asked(FEW, np.random.default_rng(0))

    @cached_property
    def _averaged(self) -> bool:
        """True if graphs are averaged for questions, since that takes seconds; with unobserved values they are not."""
        limits, value = self._constraints, released_value(self.release)[0]
        if limits is None or self.network.domain.holes:
            return False
        return affordable(value, self.network, limits, MANY, SECONDS)

    def _averages(self, value: Any, tables: bool, prior: Any = None, method: Any = "auto", **settings: Any) -> bool:
        """True if graphs are averaged by default; ``tables`` where other methods could draw too."""
        named = isinstance(method, Records) or (isinstance(method, str) and method in ("auto", "records"))
        learned = (
            prior is None or isinstance(prior, str) or (isinstance(prior, HierarchicalPrior) and not prior.ordered)
        )
        if self._constraints is None or not named or not learned:
            return False
        return affordable(value, self.network, self._constraints, settings.get("draws", 1000) if tables else None)

    def to_networkx(self) -> nx.DiGraph:
        """The graph as an ``nx.DiGraph``; each edge has its strength, in total variation."""
        graph = self.network.to_networkx()
        for name, parents in self.network.parents.items():
            for axis, parent in enumerate(parents, 1):
                graph.edges[parent, name]["strength"] = strength(self.tables.table(name), axis)
        return graph

    @cached_property
    def _drawn(self) -> tuple[Network, ...]:
        return () if self._again is None else _graphs(self._again, DRAWS, 0)

    def _share(self, one: str, other: str) -> float:
        joined_in = [one in graph.parents[other] or other in graph.parents[one] for graph in self._drawn]
        return float(np.mean(joined_in)) if joined_in else float("nan")

    def __repr__(self) -> str:
        arcs = sum(len(parents) for parents in self.network.parents.values())
        return f"LearnedNetwork({len(self.network.domain.names)} variables, {arcs} arcs, method={self.method!r})"


@tables_given.register
def _few_draws(model: LearnedNetwork) -> DrawnTables:
    return tables_given(model.few_draws) if model._drawn_fields is None else model._drawn_fields


def _graphs(again: Any, draws: int, seed: int) -> tuple[Network, ...]:
    rng = np.random.default_rng(seed)
    return tuple(again(rng) for _ in counted(range(draws)))


def strength(table: Reals, axis: int) -> float:
    """The mean total variation, over the other parents evenly, of a row from the mean over one parent's levels."""
    away = np.abs(table - table.mean(axis=axis, keepdims=True)).sum(axis=0)
    return float(away.mean()) / 2
