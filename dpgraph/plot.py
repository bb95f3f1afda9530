"""Plots: each function draws a value on the current matplotlib axes, or on those it is given, and returns them.

Needs the extra ``dpgraph[plot]``. Every value plotted here is public: released or simulated. Networks, states over
time, emissions, transitions, scores and coefficients are drawn on pages: ``dg.write_html``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.analysis.candidates import ranked
from dpgraph.analysis.cost import PrivacyReport
from dpgraph.analysis.expected import expected_counts
from dpgraph.audit import Calibration
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.queries.answer import Answer
from dpgraph.privacy.checks import Reals
from dpgraph.privacy.records import exact
from dpgraph.structure.domain import DomainError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The most rows that a list of bars or intervals shows.
MOST_ROWS = 40
#: Colours that are told apart with any colour vision (Okabe and Ito 2008), without the black; dark brown is in the
#: place of the yellow, whose lines are all but lost on white.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#661100", "#8a8a8a")
#: Of lines that cross, each has a mark of its own too.
MARKS = "os^Dv<>P*X"
#: The budgets of a curve, relative to the report's own.
CURVE = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def calibration(found: Calibration | Mapping[str, Calibration], ax: Any = None) -> Axes:
    """The sorted ranks of the truth among posterior draws against uniform quantiles; the diagonal is calibrated.

    A curve that is steep at both ends shows overconfidence. The band contains 95 % of calibrated posteriors of one
    parameter.

    Args:
        found: A calibration, or several under their names.
        ax: Where to draw; the current axes (``plt.gca()``) by default.
    """
    axes = _axes(ax, (5, 5))
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
    ax: Any = None,
    *,
    plug_in: DirichletPosterior | None = None,
) -> Axes:
    """The posterior mean and credible interval of each probability of one variable.

    Args:
        draws: A noise-aware posterior.
        variable: The variable whose table is drawn.
        probability: The probability of the intervals.
        ax: Where to draw; the current axes (``plt.gca()``) by default.
        plug_in: The plug-in posterior of the same release, to be drawn beside it; it leaves the noise out.

    Raises:
        DomainError: If the variable is not one of the network's, or the plug-in is of another network.
    """
    draws.network.domain[variable]
    if plug_in is not None and not (isinstance(plug_in, DirichletPosterior) and plug_in.network == draws.network):
        raise DomainError("plug_in must be the plug-in posterior, dg.posterior(release), of the same network")
    frame: Any = draws.to_frame(probability)
    rows = frame[frame["variable"] == variable].to_dict("list")
    named = zip(rows["level"], rows["given"], strict=True)
    names = [f"{level} | {given}" if given else str(level) for level, given in named]
    beside = None
    if plug_in is not None:  # in the order of the frame's rows
        ends = plug_in.interval(probability)[variable]
        beside = [part.ravel() for part in (plug_in.mean().table(variable), *ends)]
    axes = _intervals(ax, names, [np.array(rows[name]) for name in ("mean", "low", "high")], beside)
    axes.set(xlim=(0, 1), xlabel=f"probability of {variable}, with {probability:.0%} intervals")
    return axes


def answer(found: Answer, ax: Any = None, *, plug_in: Answer | None = None) -> Axes:
    """The mean and the interval of each entry of an answer; of one set of probabilities points alone.

    Args:
        found: The answer of ``dg.query``, ``dg.questions.contrast`` or another question.
        ax: Where to draw; the current axes (``plt.gca()``) by default.
        plug_in: The answer to the same question of ``dg.posterior``'s draws or its mean, to be drawn beside it.

    Raises:
        DomainError: If the plug-in's answer is to another question.
    """
    if plug_in is not None and not (isinstance(plug_in, Answer) and plug_in.labels == found.labels):
        raise DomainError("plug_in must be the plug-in posterior's answer to the same question")
    names = [", ".join(map(str, label)) for label in found.labels]
    parts, beside = ([one.mean, one.low, one.high] if one is not None else None for one in (found, plug_in))
    axes = _intervals(ax, names, parts or [], beside)
    many = len(found.draws) > 1
    axes.set_xlabel(found.question + (f", with {found.interval:.0%} intervals" if many else ""), fontsize=8)
    return axes


def _intervals(ax: Any, names: list[str], parts: list[Reals], beside: list[Reals] | None) -> Any:
    """Means, lows and highs one below the other, the first ``MOST_ROWS`` of them; the plug-in's beside each."""
    names = names[:MOST_ROWS]
    place = np.arange(len(names))[::-1]
    axes = _axes(ax, (6, 1 + (0.25 if beside is None else 0.4) * len(names)))
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


def cost_curves(report: PrivacyReport, epsilons: Any = None, ax: Any = None) -> Axes:
    """The expected error of each mechanism over epsilon, both on log scales.

    Args:
        report: The report of ``privacy_cost``: its network, delta, unit and n.
        epsilons: The budgets; from a tenth to ten times the report's own by default.
        ax: Where to draw; the current axes (``plt.gca()``) by default.

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
    axes = _axes(ax, (7.5, 4.5))
    for i, (label, points) in enumerate(curves.items()):
        x, y = np.array(points).T
        style = {"color": (*COLOURS, "black")[i % 9], "marker": MARKS[i % 10]}
        # later ones are thinner: some mechanisms have the same error
        axes.plot(x, y, markersize=max(3.0, 7 - 0.5 * i), linewidth=max(0.8, 3 - 0.25 * i), label=label, **style)
    axes.axvline(float(report.epsilon), color="0.6", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="expected error of one cell, rows")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    return axes


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """The given axes or the current ones; a figure made for them has this size, an empty one room for all labels."""
    if ax is not None:
        return ax
    if find_spec("matplotlib") is None:
        raise ImportError("pictures need matplotlib: pip install 'dpgraph[plot]'")
    from matplotlib import pyplot as plt

    figure = plt.gcf() if plt.get_fignums() else plt.figure(figsize=size)
    if not figure.axes:
        figure.set_layout_engine("constrained")
    return plt.gca()
