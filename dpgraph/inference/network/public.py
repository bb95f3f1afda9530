"""A public table as a start: the prior of a network whose rows may follow public ones, as closely as the release says.

Each row of each table follows nothing, under ``HierarchicalPrior``, or it is Dirichlet about the public row and weighs
it as many records as one of a grid. How often rows choose which is learned, from all tables together (proofs.md P130).
A public row that is known from few records never weighs more than these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpgraph.inference.arguments import check_above_zero, check_no_rules, check_whole_number
from dpgraph.inference.network.by_records import PublicRows
from dpgraph.inference.network.evidence import contingency_table
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.queries.asking import joint_of
from dpgraph.inference.queries.question import read_evidence
from dpgraph.inference.queries.rows import UNSEEN, codes_of_rows
from dpgraph.inference.queries.tables import tables_given
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.privacy.checks import near
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance, joined
from dpgraph.structure.conversion import is_table
from dpgraph.structure.domain import Bins, DomainError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities, Reals

#: What a public model's rows are mixed with, of even ones, so that no probability is 0.
EVEN = 1e-4


@dataclass(frozen=True, eq=False)
class PublicPrior:
    """Rows of a table may follow those of a public table or model; how closely is learned from the release.

    A good public table helps. Rows that differ from it are left as ``HierarchicalPrior`` would have them. You assert
    that the table is public: its rows have no protection, and nobody of the release may be among them.

    Attributes:
        public: A data frame of public rows, or a mapping from names to columns, with every variable of the network; a
            null counts as the declared missing level, else its row in the tables whose values it has. Or a public
            model, ``Probabilities``, such as the mean of a posterior given a release of other rows.
        lowest: The fewest records that a public row may weigh where it is followed.
        highest: The most.
        steps: How many weights are possible, evenly spread on the log scale.
        otherwise: The prior of rows that follow none.

    Raises:
        InferenceError: If ``public`` is something else, such as a release or exact counts, or a number is out of range.

    >>> import dpgraph as dg
    >>> network = dg.Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> from dpgraph.privacy.measurements import DiscreteLaplace
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> family = ("wet", "rain")
    >>> noisy = NoisyCounts(network, {family: [[28, 2], [4, 16]]}, {family: DiscreteLaplace(4.0)}, n=50)
    >>> last_year = {"rain": ["no"] * 70 + ["yes"] * 30, "wet": ["no"] * 60 + ["yes"] * 40}
    >>> settings = {"method": dg.methods.Records(chains=1, thin=3), "draws": 400, "seed": 0}
    >>> priors = {"none": "hierarchical", "last year": dg.PublicPrior(last_year)}
    >>> found = {name: dg.posterior(noisy, prior=prior, **settings).mean() for name, prior in priors.items()}
    >>> wet_in_rain = {name: float(mean.table("wet")[1, 1]) for name, mean in found.items()}  # 1 last year
    >>> wet_in_rain["none"] < 0.88 < wet_in_rain["last year"]
    True
    """

    public: Any = field(repr=False)
    lowest: float = 1.0
    highest: float = 1e5
    steps: int = 11
    otherwise: HierarchicalPrior = field(default_factory=HierarchicalPrior)

    def __post_init__(self) -> None:
        for name in ("lowest", "highest"):
            check_above_zero(name, getattr(self, name))
        check_whole_number("steps", self.steps, 1)
        if self.highest < self.lowest:
            raise InferenceError(f"highest must be at least lowest; got {self.highest!r} below {self.lowest!r}")
        if not isinstance(self.otherwise, HierarchicalPrior):
            raise InferenceError(f"otherwise must be a HierarchicalPrior; got {type(self.otherwise).__name__}")
        if not (isinstance(self.public, Mapping | Probabilities) or is_table(self.public)):
            raise InferenceError(
                "a public prior takes a data frame of public rows, or Probabilities of a public model; got "
                f"{type(self.public).__name__}. Exact counts are private until they are released, and of a release of "
                "other rows the mean of its posterior is a model: dg.PublicPrior(dg.posterior(release).mean())"
            )

    def sample(self, network: Network, rng: np.random.Generator) -> Probabilities:
        """Tables drawn from the prior: a world to simulate, near the public one in some of its rows or in all."""
        public, others = public_rows(self, network), self.otherwise.sample(network, rng)
        chances = rng.dirichlet(public.before)
        tables: dict[str, Reals] = {}
        for name, table in public.tables.items():
            choice = rng.choice(chances.size, size=table.shape[1:], p=chances)
            grid = public.grid[np.maximum(choice - 1, 0)]
            near_public = dirichlet_draws(grid / (1 + grid / public.worth[name]) * table, rng, axis=0)
            tables[name] = np.where(choice == 0, others.table(name), near_public)
        return Probabilities(network, FrozenMap(tables))

    def recorded(self, provenance: Provenance | None) -> Provenance | None:
        """The record of a posterior under this prior: of its release, and of the release that a model was learned from.

        Raises:
            InferenceError: If the two have a release in common.
        """
        mine = getattr(self.public, "provenance", None)
        if provenance is not None and mine is not None:
            known = {id(event) for event in provenance.event.priced}
            if any(id(event) in known for event in mine.event.priced):
                raise InferenceError("the public model was learned from this release, which would count twice")
        return joined([provenance, mine])


def public_rows(prior: PublicPrior, network: Network) -> PublicRows:
    """The public rows of a network's tables, none of them with a 0; refuses a variable that is missing or another."""
    check_no_rules(network, "a public prior", "leave prior= out, or rules= of Network.of")
    read = _of_model if isinstance(prior.public, Probabilities) else _of_rows
    tables, worth = read(prior.public, network)
    grid = np.geomspace(prior.lowest, prior.highest, prior.steps)
    return PublicRows(tables, worth, grid, np.array([1.0] + [1 / prior.steps] * prior.steps))


def _of_rows(rows: Any, network: Network) -> tuple[dict[str, Reals], dict[str, Reals]]:
    """Shares of rows, each with as many records of the variable's own shares beside them as it has levels."""
    names = [str(name) for name in (rows if isinstance(rows, Mapping) else getattr(rows, "column_names", rows.columns))]
    for name in network.domain.names:
        if name not in names:
            raise DomainError(f"the public table has no column {name!r}{near(name, names)}")
    codes, _ = codes_of_rows(network, {name: rows[name] for name in network.domain.names})
    for name, variable in network.domain.variables.items():
        level = ("missing" if variable.missing else None) if isinstance(variable, Bins) else variable.missing
        if level is not None and (code := variable.code(level)) is not None:
            codes[name] = np.where(codes[name] == UNSEEN, code, codes[name])
    tables: dict[str, Reals] = {}
    worth: dict[str, Reals] = {}
    for name in network.domain.names:
        family = network.family(name)
        known = np.all([codes[one] != UNSEEN for one in family], axis=0)
        counts = contingency_table({one: codes[one][known] for one in family}, family, network.shape(family))
        own = counts.reshape(len(counts), -1).sum(axis=1) + 1.0
        total = counts + (own / own.mean()).reshape(-1, *[1] * (counts.ndim - 1))
        worth[name] = total.sum(axis=0)
        tables[name] = total / worth[name]
    return tables, worth


def _of_model(model: Probabilities, network: Network) -> tuple[dict[str, Reals], dict[str, Reals]]:
    """The model's conditional probabilities of each family, if need be by elimination; known for certain."""
    for name in network.domain.names:
        if name not in model.network.domain:
            raise DomainError(f"the public model has no variable {name!r}{near(name, model.network.domain.names)}")
        if model.network.domain[name] != network.domain[name]:
            raise DomainError(f"the public model declares {name!r} otherwise than the network of the release")
    drawn, tables = tables_given(model), dict[str, Reals]()
    for name in network.domain.names:
        if network.parents[name] == model.network.parents[name]:
            table = model.table(name)
        else:
            joint, _ = joint_of(drawn, network.family(name), read_evidence(model.network))
            table = joint[0] / np.maximum(joint[0].sum(axis=0), 1e-300)
        even = table + EVEN / len(table)
        tables[name] = even / even.sum(axis=0)
    return tables, {name: np.full(table.shape[1:], np.inf) for name, table in tables.items()}
