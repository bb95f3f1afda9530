"""Plots: each function takes a value and optionally matplotlib axes, and returns the axes.

Needs the extra ``dpgraph[plot]``. Every value plotted here is public: released or simulated. Scores, coefficients,
transitions, arcs and the mechanisms of a cost are drawn on pages alone: ``dg.write_html``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.analysis.choice import ranked
from dpgraph.analysis.cost import PrivacyReport, expected_counts
from dpgraph.audit import Calibration
from dpgraph.inference.arguments import check_whole_number
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.queries.answer import Answer
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.records import exact
from dpgraph.structure.domain import DomainError, NetworkError
from dpgraph.structure.layout import layered
from dpgraph.structure.network import Network

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The most rows that a list of bars or intervals shows.
MOST_ROWS = 40
#: The most names along a horizontal axis; of more, evenly spaced ones are shown.
MOST_NAMES = 12
#: Colours that are told apart with any colour vision (Okabe and Ito 2008), without the black; dark brown is in the
#: place of the yellow, whose lines are all but lost on white.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#661100", "#8a8a8a")
#: Of lines that cross, each has a mark of its own too.
MARKS = "os^Dv<>P*X"
#: The budgets of a curve, relative to the report's own.
CURVE = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def calibration(found: Calibration | Mapping[str, Calibration], axes: Any = None) -> Axes:
    """The sorted ranks of the truth among posterior draws against uniform quantiles; the diagonal is calibrated.

    A curve that is steep at both ends shows overconfidence. The band contains 95 % of calibrated posteriors of one
    parameter.

    Args:
        found: A calibration, or several under their names.
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


def posterior(
    draws: PosteriorDraws,
    variable: str,
    probability: float = 0.9,
    axes: Any = None,
    *,
    plug_in: DirichletPosterior | None = None,
) -> Axes:
    """The posterior mean and credible interval of each probability of one variable.

    Args:
        draws: A noise-aware posterior.
        variable: Whose conditional probability table.
        probability: Of the intervals.
        axes: Where to draw; new ones by default.
        plug_in: The plug-in posterior of the same release, to be drawn beside it; it leaves the noise out.

    Raises:
        DomainError: If the variable is not one of the network's, or the plug-in is of another network.
    """
    if variable not in draws.network.domain.names:
        raise DomainError(f"{variable!r} is not a variable of the network")
    if plug_in is not None and not (isinstance(plug_in, DirichletPosterior) and plug_in.network == draws.network):
        raise DomainError("plug_in is what dg.posterior returned of the same network")
    frame: Any = draws.to_frame(probability)
    rows = frame[frame["variable"] == variable].to_dict("list")
    named = zip(rows["level"], rows["given"], strict=True)
    names = [f"{level} | {given}" if given else str(level) for level, given in named]
    beside = None
    if plug_in is not None:  # in the order of the frame's rows
        ends = plug_in.interval(probability)[variable]
        beside = [part.ravel() for part in (plug_in.mean().table(variable), *ends)]
    axes = _intervals(axes, names, [np.array(rows[name]) for name in ("mean", "low", "high")], beside)
    axes.set(xlim=(0, 1), xlabel=f"probability of {variable}, with {probability:.0%} intervals")
    return axes


def answer(found: Answer, axes: Any = None, *, plug_in: Answer | None = None) -> Axes:
    """The mean and the interval of each entry of an answer; of one set of probabilities points alone.

    Args:
        found: The answer of ``dg.query``, ``dg.questions.contrast`` or another question.
        axes: Where to draw; new ones by default.
        plug_in: The answer to the same question of ``dg.posterior``'s draws or its mean, to be drawn beside it.

    Raises:
        DomainError: If the plug-in's answer is to another question.
    """
    if plug_in is not None and not (isinstance(plug_in, Answer) and plug_in.labels == found.labels):
        raise DomainError("plug_in is the answer to the same question, of what dg.posterior returned")
    names = [", ".join(map(str, label)) for label in found.labels]
    parts, beside = ([one.mean, one.low, one.high] if one is not None else None for one in (found, plug_in))
    axes = _intervals(axes, names, parts or [], beside)
    many = len(found.draws) > 1
    axes.set_xlabel(found.question + (f", with {found.interval:.0%} intervals" if many else ""), fontsize=8)
    return axes


def _intervals(axes: Any, names: list[str], parts: list[Reals], beside: list[Reals] | None) -> Any:
    """Means, lows and highs one below the other, the first ``MOST_ROWS`` of them; the plug-in's beside each."""
    names = names[:MOST_ROWS]
    place = np.arange(len(names))[::-1]
    axes = _axes(axes, (6, 1 + (0.25 if beside is None else 0.4) * len(names)))
    mean, low, high = (part[: len(names)] for part in parts)
    above = 0.0 if beside is None else 0.16
    axes.hlines(place + above, low, high, color="0.5", linewidth=2)
    axes.plot(mean, place + above, "o", color=COLOURS[0], markersize=5, label="noise accounted for")
    if beside is not None:
        mean, low, high = (part[: len(names)] for part in beside)
        axes.hlines(place - above, low, high, color=COLOURS[1], linewidth=2, linestyle=(0, (3, 1)))
        axes.plot(mean, place - above, "s", color=COLOURS[5], markersize=5, label="plug-in: the noise left out")
        axes.set_ylim(-0.4 - above, len(names) - 0.3 - above)
        axes.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    axes.set_yticks(place, names, fontsize=8)
    return axes


def network(report: PrivacyReport, by: str = "rmse", axes: Any = None) -> Axes:
    """The DAG in layers, parents above their children: variables darker, and arcs wider, the more they cost.

    Args:
        report: The report of ``privacy_cost``.
        by: The column of ``report.nodes`` that colours: ``"rmse"``, ``"n needed"``, ``"cells"``, or with n ``"tv"``.
        axes: Where to draw; new ones by default.

    Raises:
        DomainError: If the report has no such column of numbers.
    """
    _require_matplotlib()
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    values = np.array([row.get(by, "") for row in report.family_rows])
    if values.dtype.kind not in "iuf":
        raise DomainError(f"{by!r} is no column of numbers of the report; it has rmse, n needed, cells and, with n, tv")
    low, high = float(values.min()), float(values.max())
    scale = (LogNorm if low > 0 and high > 20 * low else Normalize)(low, high if high > low else low + 1)
    shades = colormaps["cividis_r"](scale(values.astype(float)))
    arcs = [(*arc, {"color": "0.35", "linewidth": 0.7 + 2.8 * share}) for arc, share in report.arc_shares.items()]
    axes = _graph(axes, report.network, arcs, shades)
    from matplotlib.cm import ScalarMappable

    words = {"rmse": "standard error of a cell, rows", "tv": "total variation error of the margin"}
    bar = axes.figure.colorbar(ScalarMappable(scale, colormaps["cividis_r"]), ax=axes, shrink=0.6, aspect=25)
    bar.set_label(words.get(by, by), fontsize=8)
    bar.ax.tick_params(which="both", labelsize=8)
    return axes


def learned(found: LearnedNetwork, axes: Any = None) -> Axes:
    """The learned graph in layers: an arc is wider the stronger it is, and paler the less often it is chosen.

    How often is the share of draws of the pairs on which the two are joined, of ``found.edges``, so the first picture
    takes as long as choosing on twenty draws. Arcs of methods that paid for their choices are all of one shade.

    Args:
        found: The network of ``dg.learn_network`` or ``dg.choose_network``.
        axes: Where to draw; new ones by default.

    Raises:
        NetworkError: If it is no learned network.
    """
    if not isinstance(found, LearnedNetwork):
        raise NetworkError(f"a learned network is needed; got {type(found).__name__}")
    edges = found.edges
    strongest = max(edges["strength"].max(), 1e-12) if len(edges) else 1.0
    arcs = []
    for edge in edges.iloc[::-1].itertuples():
        often = 1.0 if np.isnan(edge.share) else float(edge.share)
        style = {"linewidth": 0.6 + 3.4 * edge.strength / strongest, "alpha": 0.15 + 0.85 * often}
        arcs.append((edge.parent, edge.child, {"color": COLOURS[0], **style}))
    axes = _graph(axes, found.network, arcs, np.ones((len(found.network.domain.names), 4)))
    words = f"wider: stronger, up to total variation {strongest:.2g}" if len(edges) else "no arcs"
    chosen = (
        "; paler: chosen on fewer draws of the released pairs"
        if bool(np.isfinite(edges["share"].to_numpy(float)).any())
        else ""
    )
    axes.set_title(words + chosen, fontsize=8, loc="left")
    return axes


def _graph(axes: Any, network: Network, arcs: Any, shades: Reals) -> Any:
    """A DAG in layers: arcs as (parent, child, style), and the colour of each variable's box, shape (variables, 4)."""
    places, position = layered(network), network.position
    across, down = np.array(places.across), -np.array(places.down, float)
    axes = _axes(axes, (min(2 + places.width, 40), min(1.4 + 0.85 * places.height, 30)))
    for parent, child, style in arcs:
        one, other = position[parent], position[child]
        bend = f"arc3,rad={0.18 if abs(down[one] - down[other]) > 1 else 0}"  # round the layers that the arc skips
        style = {"arrowstyle": "-|>", "shrinkA": 9, "shrinkB": 9, "connectionstyle": bend, **style}
        axes.annotate("", (across[other], down[other]), (across[one], down[one]), arrowprops=style)
    for i, name in enumerate(network.domain.names):
        dark = shades[i, :3] @ [0.2126, 0.7152, 0.0722] < 0.45
        box = {"boxstyle": "round,pad=0.35", "facecolor": shades[i], "edgecolor": "0.2", "linewidth": 0.8}
        text = {"color": "white" if dark else "black", "fontsize": 8, "ha": "center", "va": "center"}
        axes.text(across[i], down[i], name if len(name) <= 14 else f"{name[:13]}\u2026", bbox=box, **text)
    axes.set(xlim=(-0.8, places.width - 0.2), ylim=(0.5 - places.height, 0.6))
    axes.set_axis_off()
    return axes


def cost_curves(report: PrivacyReport, epsilons: Any = None, axes: Any = None) -> Axes:
    """The expected error of each mechanism over epsilon, both on log scales.

    Args:
        report: The report of ``privacy_cost``: its network, delta, unit and n.
        epsilons: The budgets; from a tenth to ten times the report's own by default.
        axes: Where to draw; new ones by default.

    Raises:
        ReleaseError: If an epsilon is out of range.
    """
    budgets = [report.epsilon * exact(part) for part in CURVE] if epsilons is None else [exact(one) for one in epsilons]
    counts = expected_counts(report.shares, report.n)
    curves: dict[str, list[tuple[float, float]]] = {}
    for budget in budgets:
        for one in ranked(report.network, budget, report.delta, report.unit, counts):
            if np.isfinite(one.rmse):
                curves.setdefault(one.label, []).append((float(budget), one.rmse))
    axes = _axes(axes, (7.5, 4.5))
    for i, (label, points) in enumerate(curves.items()):
        x, y = np.array(points).T
        style = {"color": (*COLOURS, "black")[i % 9], "marker": MARKS[i % 10]}
        # later ones are thinner: some mechanisms have the same error
        axes.plot(x, y, markersize=max(3.0, 7 - 0.5 * i), linewidth=max(0.8, 3 - 0.25 * i), label=label, **style)
    axes.axvline(float(report.epsilon), color="0.6", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="expected error of one cell, rows")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
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
    fitted = _hidden_markov(model, field)
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


def hmm_forecast(
    model: HiddenMarkovModel | Any,
    field: str,
    steps: int = 12,
    probability: float = 0.9,
    axes: Any = None,
    *,
    sequence: Any = None,
) -> Axes:
    """P(level) of one field over the next steps of one sequence: a line for each level in a ribbon, its interval.

    Args:
        model: A ``HiddenMarkovModel``, or a fitted ``PrivateHMM``.
        field: One of the model's fields; of many levels the most probable ones are drawn.
        steps: How many steps after the last.
        probability: Of the intervals.
        axes: Where to draw; new ones by default.
        sequence: Which sequence's last state goes on; the first by default.

    Raises:
        NetworkError: If the model is neither.
        DomainError: If the field or the sequence is not one of the model's.
        InferenceError: If steps is not a whole number of at least 1, or the probability no probability.
    """
    fitted = _hidden_markov(model, field)
    sequences = fitted.network.domain.levels(fitted.sequence)
    chosen = sequences[0] if sequence is None else sequence
    if chosen not in sequences:
        raise DomainError(f"{chosen!r} is no declared level of {fitted.sequence}")
    check_whole_number("steps", steps, 1)
    frames = []
    for step in range(1, steps + 1):
        frame = fitted.forecast(step, interval=probability)
        frames.append(frame[(frame["field"] == field) & (frame[fitted.sequence] == chosen)])
    levels = fitted.network.domain.levels(field)
    mean, low, high = (np.array([frame[name] for frame in frames]) for name in ("mean", "low", "high"))
    most = sorted(np.argsort(-mean.mean(axis=0), kind="stable")[: len(COLOURS)])
    axes = _axes(axes, (7, 4))
    ahead = np.arange(1, steps + 1)
    for at, (level, colour) in enumerate(zip(most, COLOURS, strict=False)):
        axes.fill_between(ahead, low[:, level], high[:, level], color=colour, alpha=0.2, linewidth=0)
        axes.plot(ahead, mean[:, level], color=colour, marker=MARKS[at], markersize=4, label=str(levels[level]))
    left = len(levels) - len(most)
    axes.set(ylim=(0, 1), xlabel=f"steps after the last {fitted.time}, {fitted.sequence}: {chosen}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(f"probability, with {probability:.0%} intervals")
    title = field if not left else f"{field}, {left} less probable left out"
    axes.legend(title=title, loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8, title_fontsize=8, frameon=False)
    return axes


def _hidden_markov(model: Any, field: str | None = None) -> HiddenMarkovModel:
    fitted = getattr(model, "model_", model)
    if not isinstance(fitted, HiddenMarkovModel):
        raise NetworkError(f"a HiddenMarkovModel or a fitted PrivateHMM is needed; got {type(model).__name__}")
    if field is not None and field not in fitted.fields:
        raise DomainError(f"{field!r} is not a field of the model; it has {', '.join(fitted.fields)}")
    return fitted


def _state_colours(states: int) -> Any:
    """One colour for each state, shape (states, 4); told apart with any colour vision where there are up to eight."""
    _require_matplotlib()
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba_array

    if states <= len(COLOURS):
        return to_rgba_array(COLOURS[:states])
    if states <= 20:
        return colormaps["tab20"](np.arange(states))
    return colormaps["turbo"](np.linspace(0, 1, states))


def _name_ticks(axes: Any, levels: Any) -> None:
    """Names along the horizontal axis, of all levels or of evenly spaced ones."""
    shown = range(0, len(levels), -(-len(levels) // MOST_NAMES))
    names = [str(levels[i]) for i in shown]
    slanted = sum(map(len, names)) > 60
    turn = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axes.set_xticks(list(shown), names, fontsize=8, **turn)


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    if axes is not None:
        return axes
    _require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def _require_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise ImportError("pictures need matplotlib: pip install 'dpgraph[plot]'")
