"""Pictures hold what their values hold: the numbers drawn are read back from the axes."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph import plot

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2]}, {"b": ["a"]})


def saved(axes, tmp_path):
    axes.figure.savefig(tmp_path / "p.png")
    return (tmp_path / "p.png").stat().st_size > 5000


def test_ranks_lie_on_the_axes_sorted(tmp_path):
    found = {
        method: dg.audit.calibration(NETWORK, dg.LaplaceMechanism(1), n=100, trials=20, method=method, draws=20)
        for method in ("tables", "plug-in")
    }
    axes = plot.calibration(found)
    lines = [line.get_ydata() for line in axes.get_lines()[1:]]
    for line, study in zip(lines, found.values(), strict=True):
        np.testing.assert_array_equal(line, np.sort(study.ranks.ravel()))
    assert saved(axes, tmp_path)
    assert plot.calibration(found["tables"], axes=axes) is axes


def test_intervals_are_those_of_the_frame(tmp_path):

    rows = pd.DataFrame({"a": ["x", "y"] * 50, "b": [0, 1] * 50})
    release = dg.release(dg.count(rows, NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.SeededNoise(1))
    draws = dg.noise_aware_posterior(release, method="tables", draws=100, seed=1)
    axes = plot.posterior(draws, "b")
    frame = draws.to_frame().query("variable == 'b'")
    np.testing.assert_allclose(axes.get_lines()[0].get_xdata(), frame["mean"])
    assert axes.get_yticklabels()[0].get_text() == "0 | a=x"
    assert saved(axes, tmp_path)
    with pytest.raises(dg.DomainError, match="'c'"):
        plot.posterior(draws, "c")


def test_bars_are_the_expected_errors_best_first(tmp_path):
    report = dg.privacy_cost(dg.read_network("example:asia"), epsilon=1, delta="1e-6", n=500)
    axes = plot.privacy_cost(report)
    np.testing.assert_allclose([bar.get_width() for bar in axes.patches], report.mechanisms["rmse"].dropna())
    assert saved(axes, tmp_path)
