"""A hidden Markov model of an event log with a scikit-learn face: one release of its cells, then sampling from that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpgraph.estimators.fitting import Fit, cap_for, check_learning, fit_budget, inference_seed, warn_if_drowned
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.models import markov_counts
from dpgraph.models.hmm import HiddenMarkovModel, cell_flags, hmm_network, markov_scores
from dpgraph.privacy.accounting import Budget, cost
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Number, PrivacyUnit, Release, exact
from dpgraph.statistics.counts import count
from dpgraph.statistics.rows.codes import encode
from dpgraph.structure.domain import Domain, DomainError
from dpgraph.structure.joint import learning
from dpgraph.structure.tables import NoisyCounts

if TYPE_CHECKING:
    from dpgraph.inference.network.queries import Numbers


@dataclass(eq=False, repr=False)
class PrivateHMM(BaseEstimator):
    """A hidden Markov model of an event log, differentially private in its entries or in whole persons.

    Each row of the log is one entry: the sequence and the time step it belongs to and its categorical fields. A hidden
    state stands behind each cell (a sequence at a time step) and evolves along the sequence; given the state the fields
    are independent. ``fit`` releases the noisy tables of each field by sequence and time once, and learns from these
    alone.

    Without ``person`` the promise is for one row of the log, or for ``rows_per_person`` rows if you vouch by a ``unit``
    or a ``budget`` that nobody has more. With ``person`` it is for everything a person has in the log: rows beyond
    ``rows_per_person`` of each, chosen as ``count`` chooses, are dropped. The number of rows is then private: the unit
    is add/remove unless ``rows_per_person`` is 1 and the domain is not strict.

    ``epsilon``, ``budget``, ``unit``, ``random_state``, ``noise`` and ``progress`` are those of ``PrivateNaiveBayes``.

    Args:
        n_states: The number of hidden states; ``states_used_`` says how many have cells. ``"auto"`` chooses it after
            the release, at no cost, among 1 to ``most_states``: ``fit_hmm`` says how; ``choice_`` holds the result.
        domain: The declared levels of the sequence, the time (in order) and every field.
        sequence: The variable whose levels are the sequences, such as regions.
        time: The variable whose levels are the time steps, such as months.
        person: The column that says whose row it is; not a declared variable.
        rows_per_person: How many rows of one person count.
        inference: ``"noise-aware"`` (default) samples the true counts as well; ``"plug-in"`` takes the released ones,
            cut at zero, for true.
        sampler: ``"blocked"`` (default), or ``"collapsed"``, the paper's single-site sampler.
        iterations: Draws of each sampler chain; None for 200, and further sweeps where the chains have not mixed, as in
            ``fit_hmm``.
        burn_in: Sweeps before the first draw.
        chains: Independent sampler chains; ``diagnostics_`` compares them.
        most_states: The largest number of states that ``"auto"`` tries.
        sequence_effects: True for effects of each sequence on the fields, shrunk to zero. None: with ``"auto"``
            alone.

    Attributes:
        release_, privacy_cost_, unfinished_release: As of ``PrivateNaiveBayes``.
        model_: The fitted ``HiddenMarkovModel``.
        transition_: The mean of P(next state | state), a DataFrame.
        emissions_: For each field the mean of P(level | state), a DataFrame; ``"name missing"`` says how often a value
            declared ``missing=dg.UNOBSERVED`` is missing.
        states_: P(state) of each cell, shape (sequences, steps, states).
        states_used_: The mean number of states that have a cell.
        choice_: How the number of states was chosen, a ``StateChoice``; None where it was given.
        diagnostics_: R-hat and effective size of quantities that do not depend on the states' labels.

    >>> import pandas as pd
    >>> domain = Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})
    >>> log = pd.DataFrame({"region": ["N", "S"] * 60, "month": [1, 2, 3] * 40, "kind": ["a", "b"] * 60})
    >>> model = PrivateHMM(2, domain, epsilon=5).fit(log)
    >>> print(model.privacy_cost_)
    epsilon 5 (pure)
    >>> list(model.predict().columns)
    ['region', 'month', 'state', 'probability']
    """

    n_states: int | str = 2
    domain: Any = None
    epsilon: Number = 1.0
    sequence: str = "region"
    time: str = "month"
    person: str | None = None
    rows_per_person: int = 1
    inference: str = "noise-aware"
    sampler: str = "blocked"
    iterations: int | None = None
    burn_in: int = 100
    chains: int = 2
    budget: Budget | None = None
    unit: PrivacyUnit | None = None
    random_state: int | np.random.Generator | np.random.RandomState | None = None
    noise: Noise | None = None
    progress: bool = False
    most_states: int = markov_counts.MOST_STATES
    sequence_effects: bool | None = None

    model_: HiddenMarkovModel = field(init=False)
    held_out_: npt.NDArray[np.bool_] = field(init=False)
    release_: Any = field(init=False)
    privacy_cost_: Any = field(init=False)

    def fit(self, log: Any, y: Any = None, *, held_out: Any = None) -> Self:
        """Charges the budget, releases noisy counts, and samples the model given them.

        An earlier fit stays as it was if nothing is charged; from the charge on nothing is fitted until all of it is.

        Args:
            log: One row an entry, as ``count`` takes rows.
            y: Ignored.
            held_out: Cells not to learn from: a table with the sequence and time columns. They are public.

        Raises:
            DomainError: If no domain is declared or the log does not fit it; nothing is charged.
            ReleaseError, BudgetExceededError: If a setting or the release is refused; nothing is charged.
            InferenceError: If a setting is refused, or memory is short for the posterior (``DPGRAPH_MEMORY``);
                nothing is charged.

        Warns:
            ConvergenceWarning: If R-hat in ``diagnostics_`` is above 1.05; it depends on the release alone.
            PriorWarning: If noise moves half or more of a state's counts, by the release alone.
        """
        with Fit(self) as fit:
            new = fit.new
            numbers = {"chains": self.chains, "iterations": self._iterations, "burn_in": self.burn_in}
            chosen = self.n_states, self.most_states, self.sequence_effects
            markov_counts.check_settings_of_fit(*chosen, self.sampler, self.inference, numbers)
            if self.domain is None:
                raise DomainError(
                    "PrivateHMM needs domain=..., the declared levels of the sequence, the time and every field"
                )
            network = hmm_network(Domain.of(self.domain), self.sequence, self.time)
            shape = network.shape((self.sequence, self.time))
            hidden = np.zeros(shape, bool)
            if held_out is not None:
                hidden = cell_flags(network.domain, self.sequence, self.time, held_out)
            mechanism = LaplaceMechanism(exact(self.epsilon), tables="maximal")
            seen = int((~hidden).sum())
            if not isinstance(self.n_states, str) and self.n_states > seen:
                raise ReleaseError(f"n_states must be at most the {seen} cells learned from; got {self.n_states}")
            check_learning(self.inference, self.random_state)
            columns = sum(network.domain.sizes.values()) - sum(shape)
            markov_counts.check_room(shape, columns, *chosen, chains=self.chains, draws=self._iterations)
            budget = self._person_budget(mechanism, network.domain.strict)
            cap = cap_for(self.person, budget, None, self.noise)
            counts = count(log, network, person=cap, progress=self.progress)
            released = fit.release(counts, mechanism, log, budget)
            new._learn(released, hidden)
            warn_if_drowned(released.value, pooled=max(1.0, hidden.size / new.states_used_))
        return self

    @classmethod
    def from_release(
        cls, release: Release[Any], n_states: int | str = 2, *, sequence: str, time: str, **settings: Any
    ) -> Self:
        """A fitted model of an existing release whose tables hold {field, sequence, time} of each field; free.

        ``settings`` are those of the class that say how to learn; ``dg.fit_hmm`` takes cells to hold out as well.

        Raises:
            NetworkError: If a table is not there.
            ReleaseError, InferenceError: If it is no release of counts, or a setting is refused.
        """
        if not isinstance(release.value, NoisyCounts):
            raise ReleaseError(
                f"a hidden Markov model is learned from noisy counts; got {type(release.value).__name__}"
            )
        network = hmm_network(release.value.network.domain, sequence, time)
        new = cls(n_states, network.domain, release.event.epsilon, sequence, time, unit=release.unit, **settings)
        new.release_, new.privacy_cost_ = release, cost(release)
        hidden = np.zeros(network.shape((sequence, time)), bool)
        new._learn(release.map(lambda value: learning(value, network)), hidden)
        return new

    def _learn(self, released: Release[Any], hidden: npt.NDArray[np.bool_]) -> None:
        """Fits the model to a release, and sets the attributes of a fit."""
        names = "chains iterations burn_in sampler inference most_states sequence_effects sequence time progress"
        settings = {name: getattr(self, name) for name in names.split()}
        settings["held_out"] = hidden
        model = markov_counts.fit_hmm(released, self.n_states, seed=inference_seed(self.random_state), **settings)
        self.model_, self.held_out_ = model, hidden
        self.transition_, self.states_ = model.transition_frame(), model.state_probabilities
        self.emissions_ = {name: model.emission_frame(name) for name in model.emitted}
        self.states_used_ = float(model.states_used.mean())
        self.diagnostics_, self.choice_ = model.diagnostics, model.choice

    def predict(self) -> DataFrame:
        """The most probable state of each cell: the sequence and time columns, state, probability."""
        return self._fitted_model().predict()

    def most_likely_path(self) -> DataFrame:
        """The most likely path of each sequence as a whole, as ``HiddenMarkovModel.most_likely_path`` has it."""
        return self._fitted_model().most_likely_path()

    def forecast(self, steps: int = 1, *, interval: float = 0.9) -> DataFrame:
        """P(level) of every field in the steps after the last, as ``HiddenMarkovModel.forecast`` has it."""
        return self._fitted_model().forecast(steps, interval=interval)

    def forecast_counts(self, steps: int = 1, *, interval: float = 0.9) -> DataFrame:
        """The number of entries in the steps after the last, as ``HiddenMarkovModel.forecast_counts`` has it."""
        return self._fitted_model().forecast_counts(steps, interval=interval)

    def sample(
        self, n: int, rng: np.random.Generator | int, *, numbers: Numbers = "uniform", holes: bool = False
    ) -> DataFrame:
        """Synthetic entries of a log, as ``HiddenMarkovModel.sample`` makes them; free."""
        return self._fitted_model().sample(n, rng, numbers=numbers, holes=holes)

    def predict_fields(self, cells: Any = None, *, interval: float | None = None) -> DataFrame:
        """P(level) of every field for an entry of some cells, by default the held-out ones.

        Args:
            cells: A table with the sequence and time columns.
            interval: Where given, sd and the ends of intervals of that probability are added.
        """
        return self._fitted_model().predict_fields(self.held_out_ if cells is None else cells, interval=interval)

    def score(self, log: Any, y: Any = None) -> float:
        """Nats per entry, entry by entry, over the held-out cells, or all cells where none is; as private as the log.

        ``scores`` has other ways beside it; ``evaluate`` releases it with an interval.
        """
        return self._scores(self._fitted_model(), log)["entry by entry"]

    def scores(self, log: Any) -> DataFrame:
        """Nats per entry of the model and of two simple ones of the same release; as private as the log.

        Columns: ``"entry by entry"``, the headline; ``"whole cells"``, where each cell picks its best draw, which
        flatters small epsilon; ``"average over draws"`` of the log probability of a cell, as Foulds et al. 2016 have
        it (proofs.md P65). Rows: the model; ``"one state"``, independent fields; ``"fields given the sequence"``.
        Scored are entries in held-out cells, or all where no cell is held out.
        """
        models = {"model": self._fitted_model(), **self.baselines()}
        codes = encode(log, self._fitted_model().network.domain)
        return data_frame([self._scores(model, codes) for model in models.values()], index=list(models))

    def baselines(self) -> dict[str, HiddenMarkovModel]:
        """Independent fields, and fields given the sequence, learned from the same release; free.

        Each is a model that ``evaluate`` judges and ``save`` writes.
        """
        model = self._fitted_model()
        how: dict[str, Any] = {"chains": self.chains, "iterations": self._iterations, "burn_in": self.burn_in}
        how |= {"held_out": self.held_out_, "seed": inference_seed(self.random_state)}
        return markov_counts.markov_baselines(self.release_, sequence=model.sequence, time=model.time, **how)

    @property
    def _iterations(self) -> int:
        return markov_counts.ITERATIONS if self.iterations is None else self.iterations

    def _fitted_model(self) -> HiddenMarkovModel:
        check_is_fitted(self, "model_")
        return self.model_

    def _scores(self, model: HiddenMarkovModel, log: Any) -> dict[str, float]:
        codes = encode(log, model.network.domain)
        return markov_scores(model, codes.columns, self.held_out_ if self.held_out_.any() else None)

    def _person_budget(self, mechanism: LaplaceMechanism, strict: bool) -> Budget:
        """The caller's budget, or one for this fit; whom it protects must be what the cap enforces."""
        unit = self.unit
        if self.budget is None and unit is None:
            replaced = self.person is None or (self.rows_per_person == 1 and not strict)
            unit = PrivacyUnit("replace" if replaced else "add-remove", self.rows_per_person)
            if self.person is None and self.rows_per_person != 1:
                raise ReleaseError(
                    f"rows_per_person={self.rows_per_person} needs person=..., the column that says whose row it is; "
                    f"where nobody has more rows, vouch for it by unit={unit!r} beside it"
                )
        budget = fit_budget(mechanism, self.budget, unit)
        unit = budget.unit
        if unit.rows_per_person != self.rows_per_person:
            raise ReleaseError(f"rows_per_person is {self.rows_per_person}, but the unit is {unit}; make them equal")
        return budget
