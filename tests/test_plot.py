"""Pictures hold what their values hold: the numbers drawn are read back from the axes."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

import dpgraph as dg

pytestmark = pytest.mark.proof  # needs matplotlib

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2]}, {"b": ["a"]})


@pytest.fixture(autouse=True)
def plt():
    """pyplot, without a current figure before and after."""
    from matplotlib import pyplot

    pyplot.close("all")
    yield pyplot
    pyplot.close("all")


def saved(axes, tmp_path):
    """Whether a picture is on the current axes, and in the file that ``plt.savefig`` writes; the next is another."""
    from matplotlib import pyplot

    assert axes is pyplot.gca()
    pyplot.savefig(tmp_path / "p.png")
    pyplot.close()
    return (tmp_path / "p.png").stat().st_size > 5000


def test_ranks_lie_on_the_axes_sorted(tmp_path):
    found = {
        method: dg.audit.calibration(NETWORK, dg.LaplaceMechanism(1), n=100, trials=20, method=method, draws=20)
        for method in ("tables", "plug-in")
    }
    axes = dg.plot.calibration(found)
    lines = [line.get_ydata() for line in axes.get_lines()[1:]]
    for line, study in zip(lines, found.values(), strict=True):
        np.testing.assert_array_equal(line, np.sort(study.ranks.ravel()))
    assert saved(axes, tmp_path)
    assert dg.plot.calibration(found["tables"], ax=axes) is axes


def test_intervals_are_those_of_the_frame(tmp_path):

    rows = pd.DataFrame({"a": ["x", "y"] * 50, "b": [0, 1] * 50})
    release = dg.release(
        dg.count(rows, NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(1)
    )
    draws = dg.posterior(release, method="tables", draws=100, seed=1)
    axes = dg.plot.posterior(draws, "b")
    frame = draws.to_frame().query("variable == 'b'")
    np.testing.assert_allclose(axes.get_lines()[0].get_xdata(), frame["mean"])
    assert axes.get_yticklabels()[0].get_text() == "0 | a=x"
    assert saved(axes, tmp_path)
    with pytest.raises(dg.errors.DomainError, match="'c'"):
        dg.plot.posterior(draws, "c")
    plug_in = dg.posterior(release, method="plug-in")
    axes = dg.plot.posterior(draws, "b", plug_in=plug_in)
    both = [line.get_xdata() for line in axes.get_lines()]
    np.testing.assert_allclose(both[0], frame["mean"])
    np.testing.assert_allclose(both[1], plug_in.mean().table("b").ravel())
    laws = {level: beta(*sides) for level, sides in sides_of(plug_in.concentration["b"]).items()}
    drawn = {place: path.vertices[:, 0] for place, path in enumerate(axes.collections[1].get_paths())}
    for place, law in enumerate(laws.values()):
        np.testing.assert_allclose(drawn[place], law.ppf([0.05, 0.95]), rtol=1e-6)
    assert [text.get_text() for text in axes.get_legend().get_texts()][1] == "plug-in: the noise left out"
    assert saved(axes, tmp_path)
    other = dg.posterior(
        dg.release(dg.count(rows, dg.Network.of(NETWORK.domain, {})), dg.LaplaceMechanism(1), budget=dg.Budget(1)),
        method="plug-in",
    )
    for wrong in (other, draws, plug_in.mean()):
        with pytest.raises(dg.errors.DomainError, match="plug_in"):
            dg.plot.posterior(draws, "b", plug_in=wrong)


def sides_of(concentration):
    """The two parameters of the beta law of each entry, by its place."""
    return {
        place: (concentration[place], concentration[(slice(None), *place[1:])].sum() - concentration[place])
        for place in np.ndindex(concentration.shape)
    }


def test_an_answer_is_drawn_with_its_intervals(plt, tmp_path):
    network = dg.Network.of({"a": ["x", "y"], "b": [0, 1]}, {"b": ["a"]})
    rng = np.random.default_rng(0)
    draws = [
        dg.Probabilities(network, {"a": rng.dirichlet([2, 3]), "b": rng.dirichlet([1, 1], 2).T}) for _ in range(30)
    ]
    answer = dg.query(draws, "a", {"b": 1})
    axes = answer.plot()
    np.testing.assert_allclose(axes.lines[0].get_xdata(), answer.mean)
    ends = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
    np.testing.assert_allclose(ends, np.stack([answer.low, answer.high], axis=1))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]
    assert "P(a | b=1), with 90% intervals" in axes.get_xlabel()
    assert saved(axes, tmp_path)
    alone = dg.query(draws[0], "a").plot()
    plt.figure()
    assert alone.get_xlabel() == "P(a)"
    beside = dg.query(draws[:9], "a", {"b": 1})
    both = answer.plot(plug_in=beside)
    for line, wanted, segments in zip(both.lines, (answer, beside), both.collections, strict=True):
        np.testing.assert_allclose(line.get_xdata(), wanted.mean)
        ends = np.array([segment[:, 0] for segment in segments.get_segments()])
        np.testing.assert_allclose(ends, np.stack([wanted.low, wanted.high], axis=1))
    for wrong in (dg.query(draws, "b"), draws[0]):
        with pytest.raises(dg.errors.DomainError, match="same question"):
            answer.plot(plug_in=wrong)


REPORT = dg.privacy_cost(dg.read_network("example:asia"), epsilon=1, delta="1e-6", n=500)


def test_a_picture_is_on_the_axes_that_are_current_or_given(plt, tmp_path):
    """An empty figure gets room for a legend beside the axes."""
    dg.plot.cost_curves(REPORT)
    plt.savefig(tmp_path / "curves.png")
    ink = (plt.imread(tmp_path / "curves.png")[:, :, :3] < 0.9).any(axis=2)
    assert ink.mean() > 0.02
    assert not ink[:, [0, -1]].any()
    _, (left, right) = plt.subplots(1, 2)
    assert dg.plot.cost_curves(REPORT) is right
    assert dg.plot.cost_curves(REPORT, ax=left) is left
    own = plt.figure(figsize=(3, 2))
    assert dg.plot.cost_curves(REPORT).figure is own
    assert (*own.get_size_inches(), type(own.get_layout_engine()).__name__) == (3, 2, "ConstrainedLayoutEngine")
    assert len(plt.get_fignums()) == 3


def test_curves_are_the_reports_at_their_epsilons(tmp_path):
    axes = dg.plot.cost_curves(REPORT, ["0.5", 1, 2])
    lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()[:-1]}
    assert set(lines) == set(REPORT.mechanisms["mechanism"])
    for epsilon in (0.5, 1, 2):
        report = dg.privacy_cost(REPORT.network, epsilon=epsilon, delta="1e-6", n=500)
        for row in report.mechanism_rows:
            found = [y for x, y in lines[row["mechanism"]] if x == epsilon]
            assert found == pytest.approx([row["rmse"]])
    styles = {(line.get_color(), line.get_marker()) for line in axes.get_lines()[:-1]}
    assert len(styles) == len(lines)
    assert saved(axes, tmp_path)


def test_colours_are_told_apart_without_red_or_green():
    """Simulated protanopia, deuteranopia and tritanopia (Machado et al. 2009, severity 1), distance in linear light."""
    from matplotlib.colors import to_rgb

    light = np.array(
        [[c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(x)] for x in dg.plot.COLOURS]
    )
    seen = {
        "normal": np.eye(3),
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    }
    for kind, matrix in seen.items():
        looks = np.sqrt(np.clip(light @ np.array(matrix).T, 0, 1))
        apart = np.linalg.norm(looks[:, None] - looks[None], axis=2) + 9 * np.eye(len(looks))
        assert apart.min() > 0.08, kind


def test_every_colour_is_seen_on_white():
    """WCAG's contrast ratio: yellow has 1.3, the palest that is kept 2.2."""
    from matplotlib.colors import to_rgb

    light = [[c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(x)] for x in dg.plot.COLOURS]
    assert (1.05 / (np.array(light) @ [0.2126, 0.7152, 0.0722] + 0.05)).min() > 2
