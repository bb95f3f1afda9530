"""An audit passes what is right and fails what is planted wrong; what it says of its own power is true."""

import ast
import itertools
import json
import logging
import threading
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from markupsafe import escape
from scipy import stats

import dpgraph as dg
from dpgraph import extension as ext
from dpgraph.audit import losses
from dpgraph.audit.calibrating import coverage_limits, judged_ranks
from dpgraph.audit.checks import Check, Clock
from dpgraph.audit.losses import Loss, exact_loss_check, judged
from dpgraph.audit.neighbours import all_neighbours, changed, telling_neighbours
from dpgraph.audit.replaying import MAKERS, frame_of, recorded, replay_check
from dpgraph.cli import main
from dpgraph.pages.writing import html_of
from dpgraph.privacy.exact_loss import RecordingNoise, difference
from tests.contract.data import Tables
from tests.contract.enumeration import largest_loss

COIN = dg.Network.of({"rain": ["no", "yes"], "wet": ["no", "damp", "yes"]}, {"wet": ["rain"]})
WIDE = dg.Network.of({f"v{i}": [0, 1, 2, 3] for i in range(9)}, {f"v{i}": [f"v{i - 1}"] for i in range(1, 9)})
REPLACE, ADD = dg.PrivacyUnit(), dg.PrivacyUnit("add-remove")
UNITS = [dg.PrivacyUnit(relation, rows) for relation in ("replace", "add-remove") for rows in (1, 2)]


def exact_check(mechanism, network=COIN, unit=REPLACE, seconds=20.0):
    return exact_loss_check(network, mechanism, unit=unit, clock=Clock(seconds))


# --- exact losses


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize(
    "mechanism",
    [dg.LaplaceMechanism("0.7"), dg.FourierMechanism("0.7"), dg.GaussianMechanism(1, "1e-6")],
    ids=lambda one: type(one).__name__,
)
def test_the_largest_loss_is_that_of_the_contract(mechanism, unit):
    """Another enumeration, of other code, over pairs that it makes itself."""
    data = Tables("coin", COIN)
    found = exact_check(mechanism, unit=unit)

    def make(rows, noise):
        return dg.release(data.statistics(rows), mechanism, budget=dg.Budget(100, "0.5", unit=unit), noise=noise).value

    reference = largest_loss(make, data.pairs(unit), unit, 1)
    assert found.verdict == "pass"
    assert found.numbers["all pairs"]
    assert found.numbers["share"] == pytest.approx(
        float(reference.share), rel=1e-9
    )  # Gaussian noise: of mu, and of rho
    assert (found.numbers["loss epsilon"], found.numbers["loss rho"]) == (reference.epsilon, reference.rho)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_all_pairs_are_those_of_the_definition(unit):
    """Multisets of rows of which one person's are others, or not there: every such pair, each once."""
    coin = dg.Network.of({"side": [0, 1, 2]}, {})
    found = all_neighbours(coin, unit, most=10**6)
    assert found.others == 2
    r, rows = unit.rows_per_person, [(0,), (1,), (2,)]

    def multisets(n):
        return list(itertools.combinations_with_replacement(rows, n))

    wanted = set()
    for rest in itertools.chain.from_iterable(multisets(n) for n in range(3)):
        before = multisets(r) if unit.n_is_public else [()]
        after = multisets(r) if unit.n_is_public else itertools.chain.from_iterable(map(multisets, range(1, r + 1)))
        for a, b in itertools.product(before, after):
            pair = frozenset(tuple(sorted((*rest, *mine))) for mine in (a, b))
            wanted |= {pair} if len(pair) == 2 else set()
    assert {frozenset(pair) for pair in found.pairs} == wanted
    assert len(found.pairs) == len(wanted)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_pairs_of_a_large_network_are_neighbours(unit):
    rng = np.random.default_rng(0)
    for pair in itertools.islice(telling_neighbours(WIDE, unit, rng), 40):
        for one, other in (pair, changed(pair, WIDE, unit, rng)):
            few, many = sorted((one, other), key=len)
            moved = [row for row in many if many.count(row) > few.count(row)]
            if unit.n_is_public:
                assert len(few) == len(many)
                assert len(moved) in (0, unit.rows_per_person)
            else:
                assert len(many) - len(few) == unit.rows_per_person


def test_a_network_too_large_is_tried_in_part_and_says_so():
    found = exact_check(dg.LaplaceMechanism(1), WIDE, seconds=1.0)
    assert (found.verdict, found.numbers["all pairs"]) == ("pass", False)
    assert 0.99999 <= found.numbers["share"] <= 1
    assert "not all there are" in found.found


def test_where_no_time_is_left_the_first_few_pairs_are_tried_and_no_more():
    """Half of no time is none, which is never passed: it went on for ever."""
    alarm = dg.read_network("example:alarm")
    check = exact_loss_check(alarm, dg.LaplaceMechanism(1), unit=REPLACE, clock=Clock(1e-9))
    assert check.verdict == "pass"
    assert check.numbers["pairs"] == losses.FIRST


def test_a_mechanism_that_refuses_is_not_judged():
    found = exact_check(dg.GaussianMechanism(1, "1e-6", basis="residual"))
    assert found.verdict == "not possible"
    assert "refuses" in found.found


@dataclass(frozen=True)
class Mine:
    """Laplace noise of its own on every table, and the faults that can be planted into it."""

    epsilon: object
    fault: str = ""

    def _plan(self, network, unit):
        blocks, epsilon = network.blocks(unit), ext.exact(self.epsilon)
        counted = ADD if self.fault == "add-remove" else unit
        moved = sum(block.movement.l1 for block in network.blocks(counted))
        return blocks, ext.DiscreteLaplace(ext.calibrated_scale(max(1, moved), epsilon))

    def event(self, network, unit):
        blocks, law = self._plan(network, unit)
        if self.fault in ("", "halved"):
            measured = tuple(ext.Measurement(b.name, b.cells, law, b.movement) for b in blocks)
            return ext.Event("Mine", ext.exact(self.epsilon), measurements=measured)
        return ext.Event("Mine", ext.exact(self.epsilon))

    def prepared(self, statistics, unit):
        return Told(statistics) if self.fault == "event" else statistics

    def randomise(self, statistics, unit, noise):
        blocks, law = self._plan(statistics.description, unit)
        if self.fault == "halved":
            law = ext.DiscreteLaplace(law.scale / 2)
        shared = noise.add(np.zeros(1, np.int64), law) if self.fault == "shared" else None
        values = {}
        for block in blocks:
            true = statistics.sensitive_block(block.name, unit)
            if self.fault == "none":
                noisy = true.ravel()
            elif self.fault == "unused":
                noise.add(true.ravel(), law)
                noisy = true.ravel()
            elif self.fault == "own":
                noisy = true.ravel() + np.random.default_rng().integers(-9, 9, true.size)
            elif self.fault == "branch":
                noisy = noise.add(true.ravel(), law) if true.ravel()[0] else noise.add(true.ravel()[:-1], law)
            elif self.fault == "raises" and true.ravel()[0]:
                raise RuntimeError("the first cell is not empty")
            else:
                noisy = true.ravel() + shared if shared is not None else noise.add(true.ravel(), law)
            values[block.name] = tuple(noisy.tolist())
        return values


class Told:
    """Statistics whose description, which is public, holds a count."""

    def __init__(self, statistics):
        self.description = Loud(statistics)
        self.sensitive_block = statistics.sensitive_block


class Loud:
    def __init__(self, statistics):
        self.blocks, self.said = statistics.description.blocks, int(statistics.sensitive_tables[("wet", "rain")][0, 0])


@dataclass(frozen=True)
class Telling(Mine):
    """An event whose name holds what the description was told."""

    def event(self, network, unit):
        return replace(super().event(network, unit), mechanism=f"Mine {getattr(network, 'said', '')}")


@pytest.mark.proof
def test_a_mechanism_of_ones_own_passes():
    for unit in UNITS:
        found = exact_check(Mine("0.7"), unit=unit)
        assert found.verdict == "pass"
        assert 0.99999 <= found.numbers["share"] <= 1


@pytest.mark.proof
@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (Mine(1, "halved"), "loses 2.0000 of the epsilon"),
        (Mine(1, "add-remove"), "loses 2.0000 of the epsilon"),
        (Mine(1, "shared"), "past the noise"),
        (Mine(1, "none"), "past the noise"),
        (Mine(1, "unused"), "past the noise"),
        (Mine(1, "own"), "randomness past the noise source"),
        (Mine(1, "branch"), "noise call 1 depends on the rows"),
        (Mine(1, "raises"), "exception"),
    ],
    ids=lambda one: getattr(one, "fault", None),
)
@pytest.mark.parametrize("network", [COIN, WIDE], ids=["all pairs", "some pairs"])
def test_a_faulty_mechanism_fails(mechanism, said, network):
    found = exact_check(mechanism, network, seconds=2.0)
    assert found.verdict == "fail"
    assert said in found.found


def test_an_event_that_depends_on_the_rows_fails():
    """The description that its fault reads is of the smaller network."""
    found = exact_check(Telling(1, "event"), COIN, seconds=2.0)
    assert found.verdict == "fail"
    assert "the claim, its event, depends on the rows" in found.found


def test_a_claim_above_what_was_asked_about_fails():
    found = dg.audit.report(COIN, epsilon="0.5", mechanisms=[dg.LaplaceMechanism(1)], worlds=0, seconds=2)
    assert found.verdict == "fail"
    assert "claims epsilon 1, and epsilon 0.5 was asked about" in found.checks[0].found


def test_a_claim_by_mu_or_rho_is_judged_by_it_and_without_one_by_conversion():
    event = dg.GaussianMechanism(1, "1e-6").event(COIN, REPLACE)
    rho, square = Fraction(event.rho), event.mu**2
    assert judged(event, Loss(float("inf"), rho, square))[0] == "pass"
    assert judged(event, Loss(float("inf"), rho, square * Fraction(101, 100)))[0] == "fail"
    by_rho = ext.Event("mine", Fraction(2), Fraction("1e-6"), rho=rho)
    assert judged(by_rho, Loss(float("inf"), rho, float("inf")))[0] == "pass"
    assert judged(by_rho, Loss(float("inf"), rho * Fraction(101, 100), float("inf")))[0] == "fail"
    bare = ext.Event("mine", Fraction(11, 10), Fraction("1e-6"))
    assert judged(bare, Loss(float("inf"), rho))[0] == "pass"
    assert judged(bare, Loss(float("inf"), 2 * rho))[0] == "not possible"


# --- replay


def releases(rows, budget, epsilon="0.5"):
    return dg.release(dg.count(rows, COIN), dg.LaplaceMechanism(epsilon), budget=budget)


def good(rows, budget):
    noisy = releases(rows, budget)
    logging.getLogger("mine").info("released %s", noisy.value.tables["wet", "rain"].sum() >= 0)
    warnings.warn("of the release alone", UserWarning, stacklevel=2)
    posterior = dg.posterior(noisy, method="tables", draws=20, seed=0)
    return {
        "release": noisy,
        "posterior": posterior,
        "mean": dg.posterior(noisy, method="plug-in").mean().to_frame("wet"),
        "left": budget,
    }


def prints(rows, budget):
    print("rainy days:", (rows["rain"] == "yes").sum())
    return releases(rows, budget)


def warns(rows, budget):
    if (rows["rain"] == "yes").mean() > (rows["rain"] == "no").mean():
        warnings.warn("mostly rain", UserWarning, stacklevel=2)
    return releases(rows, budget)


def logs(rows, budget):
    logging.getLogger("mine").debug("rows %s", rows["wet"].tolist())
    return releases(rows, budget)


def raises(rows, budget):
    made = releases(rows, budget)
    if rows["wet"].iloc[0] == "no":
        raise RuntimeError("dry")
    return made


def returns(rows, budget):
    return releases(rows, budget), rows["rain"].value_counts()


def objects(rows, budget):
    class Model:
        def __init__(self, share):
            self.share = share

    releases(rows, budget)
    return Model(float((rows["rain"] == "yes").mean()))


def first(rows, budget):
    return rows["wet"].iloc[0]


def branches(rows, budget):
    return releases(rows, budget, "0.5" if rows["wet"].iloc[0] == "no" else "0.25")


def elsewhere(rows, budget):
    """Half is charged where it should be."""
    return releases(rows, budget), releases(rows, dg.Budget(1, unit=budget.unit))


def seeded(rows, budget):
    noise = dg.testing.SeededNoise(0)
    return dg.release(dg.count(rows, COIN), dg.LaplaceMechanism(1), budget=budget, noise=noise)


def replayed(pipeline, unit=REPLACE):
    settings = {"epsilon": Fraction(1), "delta": Fraction(0), "unit": unit, "mechanism": dg.LaplaceMechanism(1)}
    return replay_check(COIN, pipeline, **settings, clock=Clock(60))


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_a_pipeline_that_keeps_to_its_release_passes(unit):
    found = replayed(good, unit)
    assert (found.verdict, found.numbers["charged"], found.numbers["share"]) == ("pass", Fraction(1, 2), 1)


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (prints, "what is printed"),
        (warns, "a warning"),
        (logs, "what is logged"),
        (raises, "an exception"),
        (returns, "the value[1]"),
        (objects, "the value.share"),
        (first, "the value"),
        (branches, "noise call 1"),
        (elsewhere, "it loses 2 of what its budget was charged"),
        (seeded, "the value"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_a_leaking_pipeline_fails(pipeline, said, unit):
    found = replayed(pipeline, unit)
    assert found.verdict == "fail"
    assert found.found.startswith(said)


def test_the_number_of_rows_may_be_shown_where_it_is_public_only():
    def shows(rows, budget):
        print(len(rows))

    assert replayed(shows, REPLACE).verdict == "pass"
    assert replayed(shows, ADD).verdict == "fail"


def test_what_cannot_be_replayed_is_not_judged():
    def unseeded(rows, budget):
        return np.random.default_rng().random()

    def broken(rows, budget):
        raise KeyError("always")

    def handle(rows, budget):
        return iter([1])

    for pipeline in (unseeded, broken):
        assert replayed(pipeline).verdict == "not possible"
    assert replayed(handle).verdict in ("pass", "not possible")


def test_a_pipeline_of_a_release():
    assert replayed(lambda release: dg.posterior(release, method="plug-in").mean()).verdict == "pass"
    assert replayed(lambda release: np.random.default_rng().random()).verdict == "not possible"
    times = iter(range(100))
    assert replayed(lambda release: next(times)).verdict == "not possible"


def test_only_this_thread_is_recorded_and_only_meanwhile():
    counts = dg.count(pd.DataFrame({"rain": ["no"], "wet": ["yes"]}), COIN)
    made = {}

    def spend(name):
        made[name] = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1)).private

    with recorded(RecordingNoise()):
        import dpgraph.privacy.release as door

        kept = door.SecureNoise
        spend("here")
        other = threading.Thread(target=spend, args=["there"])
        other.start()
        other.join()
    spend("after")
    assert made == {"here": False, "there": True, "after": True}
    assert kept().private


@pytest.mark.proof
def test_the_modules_that_make_secure_noise_are_known():
    package = Path(dg.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "SecureNoise":
                found.add("dpgraph." + ".".join(path.relative_to(package).with_suffix("").parts))
    assert found - {"dpgraph.audit.reporting", "dpgraph.audit.replaying"} == set(MAKERS)


def test_an_estimator_is_replayed():
    def fits(rows, budget):
        model = dg.PrivateNaiveBayes(COIN.domain, 1, inference="plug-in", budget=budget)
        model.fit(rows[["wet"]], rows["rain"])
        return model.predict_proba(pd.DataFrame({"wet": ["no", "yes"]}))

    assert replayed(fits).verdict == "pass"


def test_a_frame_holds_the_levels_of_the_domain():
    domain = dg.Domain.of({"age": dg.Bins([0, 10, 30], missing=True), "sex": ["F", "M"]})
    network = dg.Network.of(domain, {})
    rows = tuple(itertools.product(range(3), range(2)))
    counted = dg.count(frame_of(network, rows), network)
    for name in domain.names:
        assert counted.sensitive_margin((name,)).tolist() == [6 // domain.sizes[name]] * domain.sizes[name]


def test_differences_are_found_part_by_part_and_told_without_values():
    class Thing:
        def __init__(self, value):
            self.value = value

    frame = pd.DataFrame({"a": [1, 2]})
    same = [{"a": [1, (2.0, float("nan"))]}, np.array([1.0, np.nan]), frame, {1, 2}, Thing([Thing(3)]), threading.Lock]
    for one in same:
        assert difference(one, one) is None
    assert difference(Thing([Thing(3)]), Thing([Thing(3)])) is None
    assert difference(Thing([Thing(3)]), Thing([Thing(4)])) == "the value.value[0].value"
    assert difference(frame, frame.astype(float)) == "the value"
    assert difference([1], (1,)) == "the type of the value"
    assert difference({"a": 1}, {"b": 1}) == "the parts of the value"
    assert difference(np.arange(3), np.arange(3, dtype=float)) == "the value"
    loop = [1]
    loop.append(loop)
    other = [1]
    other.append(other)
    assert difference(loop, other) is None
    with pytest.raises(dg.errors.ReleaseError):
        difference((i for i in range(2)), (i for i in range(2)))


# --- calibration


def test_plug_in_posteriors_fail_and_right_ones_pass():
    blank = Check("calibration", "", "not possible", "", "", "")
    settings = {"n": 100, "trials": 60, "draws": 50}
    right = dg.audit.calibration(COIN, dg.LaplaceMechanism("0.1"), method="tables", **settings)
    wrong = dg.audit.calibration(COIN, dg.LaplaceMechanism("0.1"), method="plug-in", **settings)
    assert judged_ranks(right.ranks, blank).verdict == "pass"
    assert judged_ranks(wrong.ranks, blank).verdict == "fail"


@pytest.mark.parametrize("trials", [20, 100, 1000])
def test_coverage_limits_hold_for_whatever_dependence(trials):
    """One parameter, or all parameters alike: a binomial, exactly."""
    low, high = coverage_limits(trials, 1e-3)
    law = stats.binom(trials, 0.9)
    outside = law.cdf(np.ceil(trials * low) - 1) + law.sf(np.floor(trials * high))
    assert outside <= 1e-3
    assert low < 0.9 < high


# --- the report


@pytest.fixture(scope="module")
def audited():
    mechanisms = ["laplace", "gaussian"]
    return dg.audit.report(COIN, epsilon=1, delta="1e-6", mechanisms=mechanisms, pipeline=good, worlds=20, seconds=120)


@pytest.mark.proof
def test_a_report_has_every_check_and_all_pass(audited):
    assert audited.verdict == "pass"
    assert audited.passed
    assert [check.name for check in audited.checks].count("exact loss") == 2
    assert {check.name for check in audited.checks} == {"exact loss", "replay", "calibration"}
    assert all(check.verdict == "pass" for check in audited.checks)
    assert all(check.sees.endswith(".") and check.blind.endswith(".") for check in audited.checks)


@pytest.mark.proof
def test_a_report_is_shown_as_text_frame_json_and_page(audited):
    frame = audited.to_frame()
    assert list(frame["verdict"]) == [check.verdict for check in audited.checks]
    plain = json.loads(audited.to_json())
    assert plain["verdict"] == "pass"
    assert [one["found"] for one in plain["checks"]] == [check.found for check in audited.checks]
    page = html_of(audited)
    assert page.startswith("<!doctype html>")
    for check in audited.checks:
        assert check.found in repr(audited)
        assert check.blind in repr(audited)
        assert escape(check.found) in page
        assert escape(check.blind) in page


@pytest.mark.proof
def test_a_report_fails_where_one_check_does(audited):
    bad = replace(audited.checks[0], verdict="fail", found="<b>")
    report = replace(audited, checks=(bad, *audited.checks[1:]))
    assert (report.verdict, report.passed, report.failed) == ("fail", False, (bad,))
    assert "&lt;b&gt;" in html_of(report)
    assert "FAIL" in repr(report)
    unknown = replace(audited, checks=(replace(bad, verdict="not possible"),))
    assert (unknown.verdict, unknown.passed) == ("not possible", False)


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"epsilon": 0}, dg.errors.ReleaseError, "epsilon"),
        ({"delta": 2}, dg.errors.ReleaseError, "delta"),
        ({"mechanisms": ["laplac"]}, dg.errors.InferenceError, "one of 'laplace'"),
        ({"mechanisms": ["gaussian"]}, dg.errors.InferenceError, "needs a delta"),
        ({"mechanisms": "laplace"}, dg.errors.InferenceError, "a list"),
        ({"mechanisms": []}, dg.errors.InferenceError, "at least one"),
        ({"mechanisms": [dg.LaplaceMechanism]}, dg.errors.InferenceError, "event and randomise"),
        ({"pipeline": 3}, dg.errors.InferenceError, "pipeline"),
        ({"pipeline": lambda: None}, dg.errors.InferenceError, "0 arguments"),
        ({"worlds": -1}, dg.errors.InferenceError, "worlds"),
        ({"seconds": 0}, dg.errors.InferenceError, "seconds"),
        ({"seconds": float("nan")}, dg.errors.InferenceError, "seconds"),
        ({"unit": "replace"}, dg.errors.InferenceError, "PrivacyUnit"),
        ({"network": 3}, dg.errors.InferenceError, "takes a network"),
    ],
)
def test_what_is_wrong_is_refused_by_name(settings, error, said):
    network = settings.pop("network", COIN)
    with pytest.raises(error, match=said):
        dg.audit.report(network, **{"epsilon": 1} | settings)


NETWORK = '[variables]\nrain = ["no", "yes"]\nwet = ["no", "yes"]\n[parents]\nrain = []\nwet = ["rain"]\n'
PIPELINE = """
import dpgraph as dg
def good(rows, budget):
    network = dg.Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    return dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=budget)
def leaks(rows, budget):
    print((rows["rain"] == "yes").sum())
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.toml").write_text(NETWORK)
    Path("mine.py").write_text(PIPELINE)
    return ["audit", "net.toml", "--epsilon", "1", "--mechanism", "laplace", "--worlds", "0", "--seconds", "5"]


@pytest.mark.proof
def test_the_command(desk):
    done = CliRunner().invoke(main, [*desk, "--pipeline", "mine.py:good", "--html", "page.html"])
    assert done.exit_code == 0, done.output
    assert "PASS: good(rows, budget)" in done.output
    assert "cannot see" in Path("page.html").read_text()
    done = CliRunner().invoke(main, [*desk, "--pipeline", "mine.py:leaks", "--json", "--neighbours", "add-remove"])
    assert done.exit_code == 4
    plain = json.loads(done.stdout)
    assert (plain["verdict"], plain["neighbours"]) == ("fail", "add-remove")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--pipeline", "mine.py:nothing"], 2, "no function"),
        (["--pipeline", "nowhere.py:good"], 2, "not FILE.py:NAME"),
        (["--html", "page.txt"], 2, "must end in .html"),
        (["--mechanism", "gaussian"], 1, "needs a delta"),
        (["--rows-per-person", "0"], 1, "rows_per_person"),
    ],
)
def test_wrong_words_are_refused(desk, words, code, said):
    done = CliRunner().invoke(main, [*desk, *words])
    assert done.exit_code == code, done.output
    assert said in done.output
