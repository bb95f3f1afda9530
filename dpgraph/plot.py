"""Pictures of values: each function takes a value and matplotlib axes or none, and returns the axes.

Needs the extra ``dpgraph[plot]``. Nothing here is private: every value has left through a release, or is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.analysis.cost import PrivacyReport
from dpgraph.audit import Calibration
from dpgraph.inference.draws import PosteriorDraws
from dpgraph.structure.domain import DomainError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The most rows that a list of bars or intervals shows.
MOST_ROWS = 40


def calibration(found: Calibration | Mapping[str, Calibration], axes: Any = None) -> Axes:
    """The ranks of the truth among posterior draws, sorted, against uniform ones: on the diagonal where all is well.

    An S lying on its side, steep at both ends, is overconfidence. The band holds 95 % of perfect posteriors of one
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


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    """The given axes, or those of a new figure."""
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need the extra dpgraph[plot]") from error
    return Figure(figsize=size, layout="constrained").subplots()
