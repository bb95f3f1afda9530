"""Plots: each function takes a value and optionally matplotlib axes, and returns the axes.

Needs the extra ``dpgraph[plot]``. Every value plotted here is public: released or simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.analysis.cost import PrivacyReport
from dpgraph.audit import Calibration
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.queries.answer import Answer
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.structure.domain import DomainError, NetworkError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The most rows that a list of bars or intervals shows.
MOST_ROWS = 40
#: The most names along a horizontal axis; of more, evenly spaced ones are shown.
MOST_NAMES = 12


def calibration(found: Calibration | Mapping[str, Calibration], axes: Any = None) -> Axes:
    """The sorted ranks of the truth among posterior draws against uniform quantiles; the diagonal is calibrated.

    A curve that is steep at both ends shows overconfidence. The band contains 95 % of calibrated posteriors of one
    parameter.

    Args:
        found: What ``audit.calibration`` returned, or several under their names.
        axes: Where to draw; new ones by default.
    """
    axes = _axes(axes, (5, 5))
    studies = found if isinstance(found, Mapping) else {found.method: found}
    band = next(iter(studies.values())).critical(0.05)
    line = np.array([0.0, 1.0])
    axes.fill_between(line, line - band, line + band, color="0.9", label="95 % of one parameter's")
    axes.plot(line, line, color="0.6", linewidth=1)
    for name, study in studies.items():
        ranks = np.sort(study.ranks.ravel())
        axes.plot(np.linspace(0, 1, ranks.size), ranks, label=f"{name}: mean KS {study.mean_ks:.3f}")
    axes.set(xlabel="uniform quantile", ylabel="rank of the truth", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(fontsize=8)
    return axes


def posterior(draws: PosteriorDraws, variable: str, probability: float = 0.9, axes: Any = None) -> Axes:
    """The posterior mean and credible interval of each probability of one variable.

    Args:
        draws: What ``noise_aware_posterior`` returned.
        variable: Whose conditional probability table.
        probability: Of the intervals.
        axes: Where to draw; new ones by default.

    Raises:
        DomainError: If the variable is not one of the network's.
    """
    if variable not in draws.network.domain.names:
        raise DomainError(f"{variable!r} is not a variable of the network")
    frame = draws.to_frame(probability)
    rows = frame[frame["variable"] == variable].head(MOST_ROWS)
    axes = _axes(axes, (6, 1 + 0.25 * len(rows)))
    place = np.arange(len(rows))[::-1]
    axes.hlines(place, rows["low"], rows["high"], color="0.5", linewidth=2)
    axes.plot(rows["mean"], place, "o", color="C0", markersize=5)
    names = [
        f"{level} | {given}" if given else str(level) for level, given in zip(rows["level"], rows["given"], strict=True)
    ]
    axes.set_yticks(place, names, fontsize=8)
    axes.set(xlim=(0, 1), xlabel=f"probability of {variable}, with {probability:.0%} intervals")
    return axes


def answer(found: Answer, axes: Any = None) -> Axes:
    """The mean and the interval of each entry of an answer; of one set of probabilities points alone.

    Args:
        found: What ``dg.query``, ``dg.contrast`` or another question returned.
        axes: Where to draw; new ones by default.
    """
    shown = min(len(found.labels), MOST_ROWS)
    axes = _axes(axes, (6, 1 + 0.3 * shown))
    place = np.arange(shown)[::-1]
    axes.hlines(place, found.low[:shown], found.high[:shown], color="0.5", linewidth=2)
    axes.plot(found.mean[:shown], place, "o", color="C0", markersize=5)
    axes.set_yticks(place, [", ".join(map(str, label)) for label in found.labels[:shown]], fontsize=8)
    many = len(found.draws) > 1
    axes.set_xlabel(found.question + (f", with {found.interval:.0%} intervals" if many else ""), fontsize=8)
    return axes


def privacy_cost(report: PrivacyReport, axes: Any = None) -> Axes:
    """The expected error of each mechanism, best first.

    Args:
        report: What ``privacy_cost`` returned.
        axes: Where to draw; new ones by default.
    """
    frame = report.mechanisms.dropna(subset=["rmse"])
    axes = _axes(axes, (7, 1 + 0.35 * len(frame)))
    place = np.arange(len(frame))[::-1]
    axes.barh(place, frame["rmse"], color=["C0" if i == 0 else "0.75" for i in range(len(frame))])
    for y, value in zip(place, frame["rmse"], strict=True):
        axes.text(value, y, f" {value:.3g}", va="center", fontsize=8)
    axes.set_yticks(place, frame["mechanism"].tolist(), fontsize=8)
    axes.set_xlabel(f"expected error of one cell, rows (epsilon {float(report.epsilon):g}, {report.unit})", fontsize=8)
    axes.set_xlim(0, 1.15 * frame["rmse"].max())
    return axes


def hmm_states(model: HiddenMarkovModel | Any, axes: Any = None) -> Axes:
    """The most probable state of each sequence over time, as a colour whose opacity is its probability.

    Pale cells are uncertain; white would be probability 0.

    Args:
        model: A ``HiddenMarkovModel``, or a fitted ``PrivateHMM``.
        axes: Where to draw; new ones by default.

    Raises:
        NetworkError: If the model is neither.
    """
    fitted = _hidden_markov(model)
    chains, steps = (fitted.network.domain.levels(name) for name in (fitted.sequence, fitted.time))
    axes = _axes(axes, (3 + 0.18 * min(len(steps), 60), 1.2 + 0.35 * len(chains)))
    probabilities, colours = fitted.state_probabilities, _state_colours(fitted.n_states)
    shades = colours[probabilities.argmax(axis=2)]
    shades[..., 3] = probabilities.max(axis=2)
    axes.imshow(shades, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(chains)), [str(level) for level in chains], fontsize=8)
    axes.set_yticks(np.arange(len(chains) - 1) + 0.5, minor=True)
    axes.tick_params(axis="y", which="minor", length=0)
    axes.grid(which="minor", axis="y", color="white", linewidth=4)
    _name_ticks(axes, steps)
    axes.set(xlabel=fitted.time, ylabel=fitted.sequence)
    marks = [axes.plot([], [], "s", color=colour, label=f"state {k}")[0] for k, colour in enumerate(colours)]
    axes.legend(handles=marks, loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8, frameon=False)
    return axes


def hmm_emissions(model: HiddenMarkovModel | Any, field: str, probability: float = 0.9, axes: Any = None) -> Axes:
    """Emission probabilities of one field: a bar for each level and state, with credible intervals.

    Args:
        model: A ``HiddenMarkovModel``, or a fitted ``PrivateHMM``.
        field: One of the model's fields.
        probability: Of the intervals.
        axes: Where to draw; new ones by default.

    Raises:
        NetworkError: If the model is neither.
        DomainError: If the field is not one of the model's, or the probability is not between 0 and 1.
    """
    fitted = _hidden_markov(model)
    if field not in fitted.fields:
        raise DomainError(f"{field!r} is not a field of the model; it has {', '.join(fitted.fields)}")
    if not 0 < probability < 1:
        raise DomainError(f"probability must be above 0 and below 1; got {probability!r}")
    levels, states = fitted.network.domain.levels(field), fitted.n_states
    axes = _axes(axes, (2.5 + 0.22 * min(len(levels) * states, 60), 3.5))
    tails = ((1 - probability) / 2, (1 + probability) / 2)
    low, high = np.quantile(fitted.emissions[field], tails, axis=(0, 1))
    width = 0.8 / states
    for k, (mean, colour) in enumerate(zip(fitted.mean_emission(field), _state_colours(states), strict=True)):
        place = np.arange(len(levels)) + (k - (states - 1) / 2) * width
        axes.bar(place, mean, width, color=colour, label=f"state {k}")
        axes.vlines(place, low[k], high[k], color="0.2", linewidth=1)
    _name_ticks(axes, levels)
    axes.set(ylim=(0, 1), xlabel=field, ylabel=f"probability, with {probability:.0%} intervals")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8, frameon=False)
    return axes


def hmm_transitions(model: HiddenMarkovModel | Any, axes: Any = None) -> Axes:
    """The posterior mean of P(next state | state) as a heat map, a row for each state, the numbers in the cells.

    Args:
        model: A ``HiddenMarkovModel``, or a fitted ``PrivateHMM``.
        axes: Where to draw; new ones by default.

    Raises:
        NetworkError: If the model is neither.
    """
    mean = _hidden_markov(model).mean_transition
    axes = _axes(axes, (1.5 + 0.6 * len(mean), 1.2 + 0.6 * len(mean)))
    axes.imshow(mean, cmap="Blues", vmin=0, vmax=1)
    for (row, column), value in np.ndenumerate(mean):
        shade = "white" if value > 0.6 else "black"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade, fontsize=9)
    axes.set_xticks(range(len(mean)))
    axes.set_yticks(range(len(mean)))
    axes.set(xlabel="next state", ylabel="state")
    return axes


def _hidden_markov(model: Any) -> HiddenMarkovModel:
    """The model itself, or the one that an estimator fitted."""
    fitted = getattr(model, "model_", model)
    if not isinstance(fitted, HiddenMarkovModel):
        raise NetworkError(f"a HiddenMarkovModel or a fitted PrivateHMM is needed; got {type(model).__name__}")
    return fitted


def _state_colours(states: int) -> Any:
    """One colour for each state, shape (states, 4); distinct ones wherever the palettes reach."""
    from matplotlib import colormaps

    if states <= 20:
        return colormaps["tab10" if states <= 10 else "tab20"](np.arange(states))
    return colormaps["turbo"](np.linspace(0, 1, states))


def _name_ticks(axes: Any, levels: Any) -> None:
    """Names along the horizontal axis, of all levels or of evenly spaced ones."""
    shown = range(0, len(levels), -(-len(levels) // MOST_NAMES))
    names = [str(levels[i]) for i in shown]
    slanted = sum(map(len, names)) > 60
    turn = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axes.set_xticks(list(shown), names, fontsize=8, **turn)


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    """The given axes, or those of a new figure."""
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need the extra dpgraph[plot]") from error
    return Figure(figsize=size, layout="constrained").subplots()
