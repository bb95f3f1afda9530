"""The one door: charge before draw, never refund, refuse before charging, n if public (promise.md S1 to S5, S9)."""

import ast
import inspect
import json
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files.documents import document
from dpgraph.privacy.noise import SecureNoise
from tests.everything import everything

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2]}, {"b": ["a"]})
PACKAGE = Path(dg.__file__).parent


def frame(rows):
    return pd.DataFrame({"a": ["x", "y"] * rows, "b": [0, 2] * rows})


@pytest.fixture
def counts():
    return dg.count(frame(10), NETWORK)


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, MemoryError, SystemExit])
def test_a_failing_draw_stays_charged(counts, failure):
    class Failing:
        private = True

        def add(self, values, law):
            raise failure

    budget = dg.Budget(1)
    with pytest.raises(failure):
        dg.release(counts, dg.LaplaceMechanism("0.4"), budget=budget, noise=Failing())
    assert budget.spent == Fraction(2, 5)


def test_floating_point_errors_of_a_draw_tell_of_no_row(counts):
    """They would say what the statistics are, or stop the draw by it."""

    class Underflowing(dg.LaplaceMechanism):
        def randomise(self, statistics, unit, noise):
            assert np.exp(np.array([-1000.0])) == 0
            return super().randomise(statistics, unit, noise)

    with np.errstate(all="raise"):
        dg.release(counts, Underflowing(1), budget=dg.Budget(1))


def test_the_charge_is_made_before_the_first_draw(counts):
    budget, seen = dg.Budget(1), []

    class Watching:
        private = True

        def add(self, values, law):
            seen.append(budget.spent)
            return values

    dg.release(counts, dg.LaplaceMechanism("0.4", tables="families"), budget=budget, noise=Watching())
    assert seen
    assert set(seen) == {Fraction(2, 5)}


def test_a_budget_too_small_charges_and_draws_nothing(counts):
    class Forbidden:
        private = True

        def add(self, values, law):
            pytest.fail("drew noise for a refused release")

    budget = dg.Budget("0.5")
    with pytest.raises(dg.errors.BudgetExceededError, match="nothing was charged"):
        dg.release(counts, dg.LaplaceMechanism(1), budget=budget, noise=Forbidden())
    assert budget.spent == 0
    assert budget.events == ()


@pytest.mark.parametrize(
    ("statistics", "mechanism", "message"),
    [
        ("rows", dg.LaplaceMechanism(1), "takes statistics"),
        (None, dg.LaplaceMechanism(1), "takes statistics"),
        ("counts", "laplace", "takes a mechanism"),
        ("counts", dg.LaplaceMechanism("1e-13"), "nothing could be learned"),
    ],
)
def test_what_does_not_fit_is_refused_uncharged(counts, statistics, mechanism, message):
    budget = dg.Budget(1)
    subject = {"counts": counts, "rows": frame(2)}.get(statistics)
    with pytest.raises(dg.errors.ReleaseError, match=message):
        dg.release(subject, mechanism, budget=budget)
    assert budget.spent == 0


def test_a_release_needs_a_budget(counts):
    with pytest.raises(dg.errors.ReleaseError, match="Budget"):
        dg.release(counts, dg.LaplaceMechanism(1), budget=1.0)
    with pytest.raises(TypeError):
        dg.release(counts, dg.LaplaceMechanism(1))


def test_no_seed_can_enter_the_release_path(counts):
    """promise.md S3: neither the door nor a mechanism has a parameter for one, and two releases differ."""
    for function in (dg.release, dg.LaplaceMechanism, dg.Budget):
        assert not set(inspect.signature(function).parameters) & {"seed", "rng", "random_state"}
    tables = [dg.release(counts, dg.LaplaceMechanism("0.01"), budget=dg.Budget(1)).value.tables for _ in range(2)]
    assert tables[0] != tables[1]


def test_seeded_noise_marks_the_release(counts):
    release = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
    assert release.private is False
    assert document(release)["private"] is False
    assert "NOT PRIVATE" in str(dg.posterior(release, method="plug-in").mean().provenance)
    assert dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1)).private is True


def test_n_shows_under_replace_only():
    """promise.md S5: 77 001 rows; under add/remove the number is in no output, repr or file. The noise is seeded,
    because a secure draw makes a cell of 77 001 by chance once in a hundred runs."""
    rows = pd.DataFrame({"a": ["x"] * 77_001, "b": [1] * 77_001})
    counts = dg.count(rows, NETWORK)
    unit = dg.PrivacyUnit("add-remove")
    budget = dg.Budget(1, unit=unit)
    release = dg.release(counts, dg.LaplaceMechanism("0.01"), budget=budget, noise=dg.testing.SeededNoise(1))
    learned = dg.posterior(release, method="plug-in")
    seen = [release, release.value, budget, counts, learned, learned.mean(), dg.reconcile(release), unit]
    texts = [repr(value) for value in seen] + [json.dumps(document(value)) for value in (release, learned)]
    texts += map(everything, (release, learned, dg.reconcile(release)))
    assert release.value.n is None
    assert not any("77001" in text or "77_001" in text for text in texts)
    public = dg.release(counts, dg.LaplaceMechanism("0.01"), budget=dg.Budget(1))
    assert public.value.n == 77_001


def test_shapes_keys_and_order_do_not_depend_on_the_rows():
    """promise.md S4: the empty table, one row and many give the same keys, shapes and order of everything."""

    def skeleton(rows):
        release = dg.release(dg.count(rows, NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1))
        learned = dg.posterior(release, method="plug-in")
        plain = document(release)
        return (
            [(key, table.shape, table.dtype) for key, table in release.value.tables.items()],
            [(key, table.shape) for key, table in learned.concentration.items()],
            list(plain),
            [entry["variables"] for entry in plain["tables"]],
            everything(release.event),
        )

    assert skeleton(frame(0)) == skeleton(frame(1).head(1)) == skeleton(frame(500))


def test_released_tables_are_integers(counts):
    """promise.md S2, and sum-zero noise keeps the public total."""
    release = dg.release(counts, dg.LaplaceMechanism("0.1"), budget=dg.Budget(1))
    for table in release.value.tables.values():
        assert table.dtype == np.int64
        assert table.sum() == 20


#: Modules of inference that are handed a Generator and make none.
GIVEN_A_GENERATOR = (
    "classifier/loops",
    "chains",
    "counts/_kernels",
    "counts/dirichlet_multinomial",
    "counts/table_chain",
    "draws",
    "expfam/chain",
    "expfam/posterior",
    "markov/_kernels",
    "markov/effects",
    "markov/loops",
    "markov/sampler",
    "network/_kernels",
    "network/by_normal",
    "network/by_records",
    "network/by_tables",
    "network/evidence",
    "network/holes",
    "network/draws",
    "network/plug_in",
    "network/posterior",
    "network/prior",
    "network/public",
    "network/queries",
    "network/scatter",
    "queries/buckets",
    "regression/chain",
    "regression/posterior",
    "simplex",
)


def test_noise_is_drawn_through_its_one_home():
    """promise.md S1: no module under the door names a sampler, but those of seeded and recording noise.

    Post-processing takes a Generator as an argument: a type in a signature, never a source made here. The CLI makes
    one, for synthetic rows of a public model; the calibration of pseudo-records one, to simulate a noise law without
    any data (``test_nonnegativity`` shows that it stays out of the draw); noise-aware inference one, from a seed, after
    the release; the audit its own, as everything in it is simulated, and the forecast of an answer's width, whose rows
    are; questions one, to sample from a public model. A budget draws its random name, before any row, and so does a
    choice of some rows of each person, with its key: the loss is bounded for every key (proofs.md P86).
    """
    takes, makes = {"np.random.Generator"}, {"np.random.Generator", "np.random.default_rng"}
    homes = {
        "privacy/seeded_noise.py": makes,
        "privacy/exact_loss.py": makes,  # compares generators of two runs
        "privacy/noise.py": {"secrets.randbits", "secrets.token_bytes"},
        "privacy/accounts.py": {"secrets.token_hex"},
        "privacy/ledger/account.py": {"secrets.token_hex"},
        "files/atomic_write.py": {"secrets.token_hex"},
        "statistics/rows/persons.py": {"secrets.token_bytes", "secrets.token_hex"},
        "estimators/fitting.py": {"np.random.Generator", "np.random.RandomState"},
        "estimators/classifier.py": makes | {"np.random.RandomState"},
        "estimators/naive_bayes.py": {"np.random.Generator", "np.random.RandomState"},
        "estimators/hmm.py": {"np.random.Generator", "np.random.RandomState"},
        "estimators/regression.py": {"np.random.Generator", "np.random.RandomState"},
        "cli/models.py": {"np.random.default_rng"},
        "analysis/cost.py": {"np.random.default_rng"},
        "analysis/question_cost.py": makes | {"np.random.SeedSequence", "np.random.SeedSequence(seed).spawn"},
        "audit/losses.py": makes,
        "audit/neighbours.py": {"np.random.Generator"},
        "audit/replaying.py": makes,
        "audit/calibrating.py": makes | {"np.random.SeedSequence", "np.random.SeedSequence(seed).spawn"},
        "inference/classifier/posterior.py": makes,
        "inference/graphs/_kernels.py": {"np.random.Generator"},
        "inference/graphs/averaging.py": {"np.random.Generator"},
        "inference/graphs/choosing.py": makes,
        "inference/graphs/learned.py": {"np.random.default_rng"},
        "inference/graphs/pair_estimates.py": {"np.random.Generator"},
        "inference/graphs/trees.py": {"np.random.default_rng"},  # moves released scores between starts of a search
        "models/projection.py": makes,
        "models/weighted.py": {"np.random.Generator"},
        "inference/arguments.py": makes,
        "inference/posterior.py": {"np.random.Generator"},
        "inference/queries/asking.py": makes,
        "inference/queries/tables.py": {"np.random.default_rng"},
        "models/markov_counts.py": makes,
        "models/hmm.py": takes | {"from scipy.stats"},  # quantiles of a law
        "models/evaluation.py": {"np.random.default_rng", "np.random.default_rng(0).standard_normal"},
    } | {f"inference/{name}.py": takes for name in GIVEN_A_GENERATOR}
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = set()
            if isinstance(node, ast.Attribute):
                text = ast.unparse(node)
                sources = ("np.random.", "numpy.random.", "random.", "secrets.", "os.urandom")
                if text.startswith(sources) or text.endswith(".rvs"):
                    names.add(text)
            elif isinstance(node, ast.ImportFrom) and node.module in (
                "random",
                "secrets",
                "numpy.random",
                "scipy.stats",
            ):
                names.add(f"from {node.module}")
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names if alias.name in ("random", "numpy.random", "scipy.stats")}
            if names:
                found.setdefault(path.relative_to(PACKAGE).as_posix(), set()).update(names)
    assert found == homes


def test_randomise_is_called_by_the_door_alone():
    callers = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "randomise"
    ]
    assert callers == ["privacy/release.py"]


def test_the_door_uses_the_secure_source_by_default(counts, monkeypatch):
    laws = []
    real = SecureNoise.add
    monkeypatch.setattr(SecureNoise, "add", lambda self, values, law: laws.append(law) or real(self, values, law))
    release = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1))
    assert laws == list(release.value.laws.values())


def test_what_is_no_noise_source_is_refused_uncharged(counts):
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.ReleaseError, match="noise must be a source"):
        dg.release(counts, dg.LaplaceMechanism(1), budget=budget, noise=3)
    assert budget.spent == 0


@pytest.mark.parametrize("subject", ["released", "probabilities"])
def test_what_is_released_already_is_no_statistic(counts, subject):
    budget = dg.Budget(1)
    release = dg.release(counts, dg.LaplaceMechanism("0.5"), budget=budget)
    value = {"released": release.value, "probabilities": dg.posterior(release, method="plug-in").mean()}[subject]
    with pytest.raises(dg.errors.ReleaseError, match="takes statistics"):
        dg.release(value, dg.LaplaceMechanism("0.5"), budget=budget)
    with pytest.raises(dg.errors.ReleaseError, match="noise must be a source"):
        dg.release(counts, dg.LaplaceMechanism("0.5"), budget=budget, noise=dg.testing.SeededNoise)
    assert budget.spent == Fraction(1, 2)


def test_an_epsilon_that_protects_nobody_is_told_before_the_charge(counts):
    budget = dg.Budget(50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dg.release(counts, dg.LaplaceMechanism(20), budget=budget)
        with pytest.raises(dg.errors.LargeEpsilonWarning, match=r"a factor of exp\(21\)"):
            dg.release(counts, dg.LaplaceMechanism(21), budget=budget)
    assert budget.spent == 20


def test_no_rows_are_told_before_the_charge_where_their_number_is_public_alone():
    empty = dg.count(frame(0), NETWORK)
    public, private = dg.Budget(1), dg.Budget(1, unit=dg.PrivacyUnit("add-remove"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(dg.errors.PriorWarning, match="there are no rows"):
            dg.release(empty, dg.LaplaceMechanism(1), budget=public)
        dg.release(empty, dg.LaplaceMechanism(1), budget=private)
    assert (public.spent, private.spent) == (0, 1)
