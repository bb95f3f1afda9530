"""The one verb: which method is picked and why, what is refused, and that nothing but the release is looked at."""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference import chains
from dpgraph.inference import draws as draws_module
from dpgraph.inference.draws import ConvergenceWarning, Draws, ParameterDraws
from dpgraph.inference.methods import Automatic
from dpgraph.inference.network import by_records
from dpgraph.inference.network import posterior as networks
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import evidence, rows_estimate
from dpgraph.inference.posterior import posterior_given
from dpgraph.privacy.measurements import DiscreteLaplace

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2], "c": [0, 1]}, {"b": ["a"], "c": ["b"]})
LAPLACE, FOURIER = dg.LaplaceMechanism(1), dg.FourierMechanism(1)
MECHANISMS = {
    "laplace": LAPLACE,
    "laplace independent": dg.LaplaceMechanism(1, tables="maximal", noise="independent"),
    "laplace families": dg.LaplaceMechanism(1, tables="families"),
    "gaussian": dg.GaussianMechanism(1, 1e-6),
    "gaussian residual": dg.GaussianMechanism(1, 1e-6, basis="residual"),
    "fourier": FOURIER,
}
SHORT = {"records": dg.methods.Records(burn_in=100), "auto": Automatic(records=dg.methods.Records(burn_in=100))}
COEFFICIENTS = ("gaussian residual", "fourier")


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.choice(["x", "y"], n, p=[0.7, 0.3])
    b = np.where(a == "x", rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.integers(0, 3, n))
    return pd.DataFrame({"a": a, "b": b, "c": rng.binomial(1, np.where(b == 1, 0.2, 0.5))})


def released(mechanism=LAPLACE, neighbours="replace", n=120, noise=None, seed=0):
    budget = dg.Budget(1, 1e-6, unit=dg.PrivacyUnit(neighbours))
    return dg.release(
        dg.count(rows_of(n, seed), NETWORK), mechanism, budget=budget, noise=noise or dg.testing.SeededNoise(2)
    )


def cases():
    return [
        pytest.param(kind, neighbours, id=f"{kind}, {neighbours}")
        for kind in MECHANISMS
        for neighbours in ("replace", "add-remove")
        if (kind, neighbours) != ("gaussian residual", "replace")
    ]


@pytest.mark.covering(lambda kind, neighbours, method: (kind, (neighbours, method)))
@pytest.mark.parametrize("method", ["auto", "tables", "records", "normal"])
@pytest.mark.parametrize(("kind", "neighbours"), cases())
def test_every_release_has_a_posterior(kind, neighbours, method):
    """Tables are conditional probabilities, the provenance is the release's, n is drawn where it is private, and the
    posterior mean of a frequent cell is within 0.25 of the truth."""
    release = released(MECHANISMS[kind], neighbours, n=400)
    settings = {"draws": 200, "seed": 0, "method": SHORT.get(method, method)}
    if method == "tables" and kind in COEFFICIENTS:
        with pytest.raises(dg.errors.InferenceError, match="needs noisy counts"):
            dg.posterior(release, **settings)
        return
    made = dg.posterior(release, **settings)
    assert isinstance(made, PosteriorDraws)
    assert made.provenance == release.provenance == made.mean().provenance == made[3].provenance
    assert made.network == NETWORK
    assert len(made) == (400 if made.method == "records" else 200)
    for name in NETWORK.domain.names:
        table = made.flat(name)
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(axis=1), 1)
    assert (made.n is not None) == (made.method == "records" and neighbours == "add-remove")
    assert abs(made.mean().table("a")[0] - 0.7) < 0.25
    if method != "auto":
        assert (made.method, made.reason) == (method, "as asked")


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_methods_agree_where_noise_is_small(kind):
    """At 3 000 rows, noise of a few and no empty cell, the three methods' means are within half a posterior standard
    deviation, and standard deviations within a quarter; that they are right is for their own tests."""
    release = released(MECHANISMS[kind], n=3000)
    one, *others = (
        dg.posterior(release, method=method, draws=1000, seed=1) for method in ("records", "tables", "normal")
    )
    for other in others:
        for name in NETWORK.domain.names:
            mean, sd = one.flat(name).mean(axis=0), one.flat(name).std(axis=0)
            assert (np.abs(other.flat(name).mean(axis=0) - mean) < 0.5 * sd).all()
            np.testing.assert_allclose(other.flat(name).std(axis=0), sd, rtol=0.25)


@pytest.mark.parametrize(("kind", "neighbours"), cases())
def test_auto_draws_records_where_that_is_quick(kind, neighbours):
    """The reason names the estimated number of rows, so a number on the wrong scale would show."""
    release = released(MECHANISMS[kind], neighbours)
    made = dg.posterior(release, draws=20, method=SHORT["auto"], seed=0)
    rows, spread = rows_estimate(evidence(release.value))
    assert abs(rows - 120) <= 6 * spread
    assert made.method == "records"
    assert made.reason == f"exact: about {rows:.0f} latent rows take 0 s"


@pytest.mark.parametrize(("kind", "neighbours"), cases())
def test_auto_does_not_wait_for_ever(kind, neighbours, monkeypatch):
    monkeypatch.setattr(networks, "PATIENCE", 1e-9)
    made = dg.posterior(released(MECHANISMS[kind], neighbours), draws=20, seed=0)
    assert made.method == ("normal" if kind in COEFFICIENTS else "tables")
    assert "latent rows would take" in made.reason
    assert ("coefficients have no independent tables" in made.reason) == (kind in COEFFICIENTS)


def test_auto_looks_at_how_much_is_asked():
    noisy = released(n=3000).value

    def chosen(records, draws):
        seconds = networks.seconds_of_records(evidence(noisy), records, draws)
        return networks._chosen(
            Automatic(records), noisy, (evidence(noisy),), seconds, networks.PATIENCE, learned=False
        )[0]

    assert chosen(dg.methods.Records(), 500) == dg.methods.Records()
    assert chosen(dg.methods.Records(), 999_500) == dg.methods.Tables()
    assert chosen(dg.methods.Records(thin=2_000), 500) == dg.methods.Tables()


class Clock:
    """A clock that a compiled sweep of records moves by so many seconds, in the one chain that looks at it."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.sweeps = 0.0, 0

        def swept(self_, i):
            self.now += seconds(self.sweeps)
            self.sweeps += 1
            return real(self_, i)

        real = by_records.RecordChain.sweep
        monkeypatch.setattr(by_records.RecordChain, "sweep", swept)
        monkeypatch.setattr(chains.time, "perf_counter", lambda: self.now)


def one_chain(**settings):
    return Automatic(records=dg.methods.Records(chains=1, burn_in=30, **settings))


def test_auto_leaves_records_whose_first_sweeps_are_too_slow(monkeypatch):
    """Of 30 + 20 sweeps of 3 s eleven tell that all take 150 s, more than half again 90; draws are those of tables."""
    release = released()
    clock, drawn = Clock(monkeypatch, lambda i: 3.0), []
    by_tables = networks.draw_by_tables
    monkeypatch.setattr(
        networks, "draw_by_tables", lambda *given, **s: drawn.append(by_tables(*given, **s)) or drawn[-1]
    )
    made = dg.posterior(release, method=one_chain(), draws=20, seed=5, prior=1.0)
    assert clock.sweeps == chains.RECENT + 1
    assert made.method == "tables"
    assert made.reason.endswith("latent rows would take 150 s")
    assert "stopped_after" not in made.diagnostics
    assert made.flat("b").tobytes() == drawn[0].flat("b").tobytes()


def test_chains_that_slow_down_after_burn_in_keep_their_draws_and_say_so(monkeypatch):
    """14 draws of 10 s end within 135 s, less the burn-in, as no chain is dropped that draws; n and means fit them."""
    release = released(neighbours="add-remove")
    Clock(monkeypatch, lambda i: 10.0 if i >= 30 else 0.0)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 135 s with 14 draws in all.*method=dg.methods.Records"):
        made = dg.posterior(release, method=one_chain(), draws=200, seed=5, prior=1.0)
    assert made.shape == (1, 14)
    assert made.n.shape == (1, 14)
    assert made.diagnostics["stopped_after"] == 135.0
    monkeypatch.undo()
    whole = dg.posterior(release, method=dg.methods.Records(chains=1, burn_in=30), draws=14, seed=5, prior=1.0)
    assert whole.tables == made.tables
    assert whole.means == made.means
    assert "stopped_after" not in whole.diagnostics


def test_chains_that_have_not_mixed_go_on_for_three_minutes(monkeypatch):
    """30 + 200 sweeps of .05 s, then 200, 400, 800 and 1600 more; 3200 more would end after 322 s. By name none."""
    release = released()
    monkeypatch.setattr(draws_module, "MOST_R_HAT", 0.9)
    for method, sweeps in ((one_chain(thin=1), 3230), (dg.methods.Records(chains=1, burn_in=30), 230)):
        clock = Clock(monkeypatch, lambda i: 0.05)
        with pytest.warns(ConvergenceWarning, match="not mixed"):
            made = dg.posterior(release, method=method, draws=200, seed=5, prior=1.0)
        assert (made.shape, clock.sweeps) == ((1, 200), sweeps)


@pytest.mark.parametrize("prior", [None, 1.0, "hierarchical"])
def test_records_end_by_themselves_only_if_that_is_asked(monkeypatch, prior):
    """Draws are thinned by 3; at least four of them are made, and no sweep between two of them counts."""
    release = released()
    clock = Clock(monkeypatch, lambda i: 1000.0)
    settings = {"chains": 1, "burn_in": 5, "thin": 3}
    whole = dg.posterior(release, method=dg.methods.Records(**settings), draws=20, seed=5, prior=prior)
    assert (len(whole), clock.sweeps) == (20, 65)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 1 s"):
        short = dg.posterior(release, method=dg.methods.Records(**settings, seconds=1), draws=20, seed=5, prior=prior)
    assert (len(short), clock.sweeps) == (4, 65 + 17)
    assert short.flat("b").tobytes() == whole.flat("b")[:4].tobytes()


def test_a_prior_that_learns_has_no_limit(monkeypatch):
    clock = Clock(monkeypatch, lambda i: 1000.0)
    made = dg.posterior(released(), method=one_chain(), draws=20, seed=5, prior="hierarchical")
    assert (made.method, len(made)) == ("records", 20)
    assert clock.sweeps >= 50


@pytest.mark.parametrize(("seconds", "method"), [(89, "records"), (179, "records"), (181, "tables")])
def test_near_the_limit_the_first_sweeps_decide(monkeypatch, seconds, method):
    """A forecast of twice the limit is put to the test, by sweeps that here take no time."""
    monkeypatch.setattr(networks, "seconds_of_records", lambda *_: float(seconds))
    Clock(monkeypatch, lambda i: 0.0)
    assert dg.posterior(released(), method=one_chain(), draws=20, seed=5, prior=1.0).method == method


@pytest.mark.parametrize(
    ("seconds", "each", "method"), [(89, 1.9, "records"), (91, 1.9, "tables"), (91, 1.7, "records")]
)
def test_beyond_the_limit_the_first_sweeps_may_not_be_slower(monkeypatch, seconds, each, method):
    """50 sweeps of 1.9 s are 95 s: within half again of a forecast of 89, above the limit that a forecast was above."""
    monkeypatch.setattr(networks, "seconds_of_records", lambda *_: float(seconds))
    Clock(monkeypatch, lambda i: each)
    assert dg.posterior(released(), method=one_chain(), draws=20, seed=5, prior=1.0).method == method


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "x", True])
def test_a_limit_out_of_range_is_refused(seconds):
    with pytest.raises(dg.errors.InferenceError, match="seconds must be a finite number above 0"):
        dg.methods.Records(seconds=seconds)


@pytest.mark.parametrize("prior", [0, -1, float("nan"), float("inf"), "x", True])
def test_a_prior_out_of_range_is_refused(prior):
    with pytest.raises(dg.errors.InferenceError, match="prior must be a finite number above 0"):
        dg.posterior(released(), prior=prior)


def test_no_prior_is_one_of_every_cell_for_methods_that_do_not_learn_it():
    one, two, three = (dg.posterior(released(), method="normal", prior=p, seed=0) for p in (None, 1.0, 2.0))
    assert one.flat("b").tobytes() == two.flat("b").tobytes() != three.flat("b").tobytes()
    one, two = (dg.posterior(released(), method="tables", prior=p, seed=0) for p in (None, 1.0))
    assert one.flat("b").tobytes() != two.flat("b").tobytes()


@pytest.mark.parametrize("draws", [0, -3, 1.5, True, "9", None])
def test_a_number_of_draws_out_of_range_is_refused(draws):
    with pytest.raises(dg.errors.InferenceError, match="draws must be a whole number, at least 1"):
        dg.posterior(released(), draws=draws)


@pytest.mark.parametrize("method", ["exact", "", None, "Tables", dg.methods.Gibbs(), dg.methods.Records], ids=repr)
def test_an_unknown_method_is_refused(method):
    with pytest.raises(
        dg.errors.InferenceError,
        match=r"method must be one of 'auto', 'tables', 'records', 'normal', 'plug-in', or such a method with",
    ):
        dg.posterior(released(), method=method)


@pytest.mark.parametrize("method", ["tables", "records", "normal"])
def test_a_name_is_the_value_with_its_defaults(method):
    value = {"tables": dg.methods.Tables(), "records": dg.methods.Records(), "normal": dg.methods.Normal()}[method]
    one, two = (dg.posterior(released(), method=m, draws=400, seed=0) for m in (method, value))
    assert one.flat("b").tobytes() == two.flat("b").tobytes()
    assert one.method == two.method == method


@pytest.mark.parametrize("setting", ["chains", "burn_in", "passes", "thin"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "9", None])
def test_settings_of_chains_are_checked(setting, value):
    with pytest.raises(dg.errors.InferenceError, match=f"{setting} must be a whole number"):
        dg.methods.Records(**{setting: value})


def test_settings_of_chains_reach_them():
    made = dg.posterior(released(n=30), method=dg.methods.Records(chains=3, burn_in=30), draws=200, seed=0)
    assert made.shape == (3, 200)
    still = dg.posterior(released(n=30), method=dg.methods.Records(passes=0), draws=200, seed=0)
    assert "acceptance of shifts" in made.diagnostics
    assert "acceptance of shifts" not in still.diagnostics


@pytest.mark.parametrize(
    "value", [3, None, "rows", rows_of(5), dg.load("example:asia")], ids=lambda v: type(v).__name__
)
def test_another_kind_of_value_is_refused(value):
    with pytest.raises(dg.errors.InferenceError, match=f"got {type(value).__name__}"):
        dg.posterior(value)


def test_a_bare_value_has_no_provenance():
    assert dg.posterior(released().value, method="tables", draws=5).provenance is None


@pytest.mark.parametrize("method", ["tables", "records", "normal"])
def test_a_seed_repeats_the_draws(method):
    def drawn(seed):
        made = dg.posterior(released(), method=SHORT.get(method, method), draws=20, seed=seed)
        return b"".join(made.flat(name).tobytes() for name in NETWORK.domain.names)

    assert drawn(4) == drawn(4) == drawn(np.random.default_rng(4)) != drawn(5)
    assert drawn(None) != drawn(None)


def test_shrink_reaches_the_normal_draws():
    plain, shrunk = (
        dg.posterior(released(), method=dg.methods.Normal(shrink=shrink), draws=20, seed=0) for shrink in (False, True)
    )
    assert plain.flat("b").tobytes() != shrunk.flat("b").tobytes()


@pytest.mark.parametrize(("draws", "burn_in", "chains"), [(3, 0, 2), (20, 0, 2), (40, 0, 1)])
def test_chains_that_are_absurdly_short_warn(draws, burn_in, chains):
    with pytest.warns(ConvergenceWarning, match="the chains have not mixed: R-hat") as caught:
        dg.posterior(released(), method=dg.methods.Records(chains, burn_in), draws=draws, seed=0)
    assert caught[0].filename == __file__
    assert "privacy is not at stake" in str(caught[0].message)


@pytest.mark.proof
@pytest.mark.parametrize("chains", [1, 2])
def test_chains_that_are_long_enough_do_not_warn(chains):
    made = dg.posterior(released(n=60), method=dg.methods.Records(chains), draws=3000, seed=0)
    assert made.diagnostics["r_hat"] < 1.05
    assert made.diagnostics["effective_size"] > 100
    assert made.shape == (chains, 3000)


class Replayed:
    """A noise source that answers with the same integers whatever the values."""

    private = True

    def __init__(self):
        self.calls = 0

    def add(self, values, law):
        self.calls += 1
        answer = np.random.default_rng(self.calls).integers(-5, 40, len(values))
        if "SumZero" in repr(law):
            answer[-1] += 120 - answer.sum()
        return answer


BRIEF = {"records": dg.methods.Records(burn_in=20), "auto": Automatic(records=dg.methods.Records(burn_in=20))}


def downstream(seed, n, mechanism, neighbours, method):
    """Everything that can be seen of a posterior, as bytes and text."""
    release = released(mechanism, neighbours, n, noise=Replayed(), seed=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = dg.posterior(release, method=BRIEF.get(method, method), draws=30, seed=3)
        seen = [made.flat(name).tobytes() for name in NETWORK.domain.names]
        seen += [repr(made), made.reason, repr(made.diagnostics), made.to_frame().to_csv(), repr(made.n)]
        if made.records is not None:
            seen += [made.latent_rows().to_csv(), repr(made.latent_tables())]
    return seen + [str(warning.message) for warning in caught]


@pytest.mark.parametrize("method", ["auto", "tables", "records", "normal"])
@pytest.mark.parametrize(("kind", "neighbours"), cases())
def test_the_same_release_of_other_rows_gives_the_same_bytes(kind, neighbours, method):
    """promise.md S7: other rows, under add/remove another number of them, that happen to release the same integers."""
    if method == "tables" and kind in COEFFICIENTS:
        return
    other = 120 if neighbours == "replace" else 0
    one, two = (downstream(s, n, MECHANISMS[kind], neighbours, method) for s, n in ((0, 120), (9, other)))
    assert one == two


def test_moments_go_to_their_own_methods():
    moments = dg.statistics.sufficient_statistics([1, 0, 1, 1, 1, 0, 1, 1], dg.expfam.Binomial())
    noisy = dg.release(moments, LAPLACE, budget=dg.Budget(1), noise=dg.testing.SeededNoise(0))
    made = dg.posterior(noisy, prior=dg.expfam.Binomial().prior(), draws=50, seed=0)
    again = dg.posterior(noisy, prior=dg.expfam.Binomial().prior(), draws=50, seed=0, method="exact")
    assert isinstance(made, ParameterDraws)
    assert made.method == "exact"
    assert made.provenance == noisy.provenance
    assert made.parameters["p"].tobytes() == again.parameters["p"].tobytes()
    with pytest.raises(dg.errors.InferenceError, match="method must be one of"):
        dg.posterior(noisy, prior=dg.expfam.Binomial().prior(), method="records")


@dataclass(frozen=True)
class Heights:
    """A family written outside the package: what it describes,"""

    top: float


@dataclass(frozen=True)
class NoisyHeights:
    """what was released of it,"""

    description: Heights
    value: float


@dataclass(frozen=True)
class HeightDraws(Draws):
    """and draws of its one parameter."""

    values: tuple
    method: str = "auto"
    reason: str = "the only one"
    provenance: object = None

    @property
    def arrays(self):
        return {"height": np.array([self.values])}


def heights_posterior(description, noisy, *, prior, method, draws, rng, progress):
    spread = 1.0 if prior is None else prior
    return HeightDraws(tuple(np.minimum(rng.normal(noisy.value, spread, draws), description.top)))


def test_a_family_written_outside_registers_its_own():
    noisy = NoisyHeights(Heights(2.0), 1.7)
    with pytest.raises(dg.errors.InferenceError, match="got NoisyHeights"):
        dg.posterior(noisy)
    posterior_given.register(Heights, heights_posterior)
    made = dg.posterior(noisy, prior=0.01, draws=500, seed=0)
    assert isinstance(made, HeightDraws)
    assert isinstance(made, Draws)
    assert made.mean()["height"] == pytest.approx(1.7, abs=0.01)
    assert made == dg.posterior(noisy, prior=0.01, draws=500, seed=0)


@pytest.mark.parametrize(("counts", "warned"), [([6, 4], True), ([900, 100], False)])
@pytest.mark.parametrize("method", ["tables", "normal", "records"])
def test_a_private_number_of_rows_within_its_noise_is_told(counts, warned, method):
    """The sum of two cells of scale 10 has a deviation of 20: 10 rows are within two of them and 1000 are not."""
    network = dg.Network.of({"coin": ["heads", "tails"]}, {})
    law = {("coin",): DiscreteLaplace(10.0)}
    private, public = (dg.results.NoisyCounts(network, {("coin",): counts}, law, n) for n in (None, 30))
    asked = dg.methods.Records(chains=1, burn_in=5) if method == "records" else method
    for noisy, expected in ((private, warned), (public, False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dg.posterior(noisy, method=asked, draws=4, seed=0)
        told = [one for one in caught if issubclass(one.category, dg.errors.PriorWarning)]
        assert bool(told) == expected
        assert all(one.filename == __file__ for one in told)
