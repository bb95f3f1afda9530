"""Whatever holds a released value says everything that was paid for it: every public class and verb that joins two."""

import dataclasses
import inspect
import itertools
import re
from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.records import Event, Provenance, combined, joined
from dpgraph.structure.frozen import FrozenMap
from tests.names import public_names

DOMAIN = dg.Domain.of({"word": ["a", "b"], "spam": [0, 1]})
NETWORK = dg.naive_bayes_network(DOMAIN, "spam")
ROWS = pd.DataFrame({"word": ["a", "b", "b"] * 10, "spam": [0, 1] * 15})
#: Attributes that tell of a price.
RECORDS = {"provenance", "release", "cost", "private"}
#: What verbs call the releases that they read.
READ = {"noisy", "releases", "sweeps"}


def released(epsilon, seed, kind=dg.LaplaceMechanism, rows=ROWS):
    """One release, by secure noise where there is no seed."""
    noise = None if seed is None else dg.testing.SeededNoise(seed)
    return dg.release(dg.count(rows, NETWORK), kind(epsilon), budget=dg.Budget(10), noise=noise)


def draws(epsilon, seed):
    """A release of draws."""
    return released(epsilon, seed, dg.PosteriorSample)


def tables(epsilon, seed):
    """Tables of probabilities, learned from one release."""
    return dg.posterior(released(epsilon, seed), method="plug-in").mean()


SETTINGS = {"method": "tables", "draws": 5, "seed": 0}

#: What joins two, by the public class or verb that it passes: the two, each from an epsilon and a seed, and how.
JOINS = {
    "Release": [
        (released, lambda one, other: one + other),
        (released, lambda one, other: (one + other) + released("0.5", 9)),
        (released, lambda one, other: one.map(lambda _: dg.posterior(other, method="plug-in"))),
        (released, lambda one, other: dg.posterior(one.map(lambda _: dg.reconcile(other)), method="plug-in")),
    ],
    "pooled": [(released, lambda one, other: dg.pooled([one, dataclasses.replace(other, scope=None)]))],
    "reconcile": [(released, lambda one, other: dg.reconcile([one, other]))],
    "posterior": [
        (released, lambda one, other: dg.posterior([one, other], method="plug-in")),
        (released, lambda one, other: dg.posterior([one, other], **SETTINGS)),
    ],
    "choose_network": [
        (released, lambda one, other: dg.choose_network([one, other], constraints=dg.Constraints(target="spam")))
    ],
    "LearnedNetwork": [
        (
            released,
            lambda one, other: dg.results.LearnedNetwork(
                dg.posterior(one, method="plug-in").mean(), other, "pairs", "by hand"
            ),
        ),
        (
            released,
            lambda one, other: dg.choose_network([one, other], constraints=dg.Constraints(target="spam")).probabilities,
        ),
    ],
    "Discovered": [
        (
            released,
            lambda one, other: dg.results.Discovered(DOMAIN, FrozenMap({}), (one, other), FrozenMap({})),
        ),
    ],
    "NaiveBayesEnsemble": [
        (draws, lambda one, other: dg.results.NaiveBayesEnsemble("spam", one.value + other.value)),
        (draws, lambda one, other: dg.results.NaiveBayesEnsemble("spam", one.map(lambda _: other.value))),
        (tables, lambda one, other: dg.results.NaiveBayesEnsemble("spam", (one, one, other))),
    ],
}
#: The class that a test of its own holds to the charge, in ``tests/estimators/test_cross_validation.py``.
CHARGED = {"CrossValidation"}
#: The classes that refuse a second release.
REFUSED = {"NaiveBayes", "WeightedNaiveBayes"}
#: Verbs that read one release, and those that are handed a value without its record, which their caller keeps.
SINGLE = {
    "fit_hmm": lambda noisy: dg.fit_hmm(noisy, 2, sequence="word", time="spam"),
    "sampled_markov_model": dg.papers.sampled_markov_model,
}
BARE = {"check_total", "posterior_given", "moments_posterior"}


def holders():
    """Public classes of values that tell of a price."""
    found = {}
    for name, one in public_names().items():
        if inspect.isclass(one) and dataclasses.is_dataclass(one) and not hasattr(one, "randomise"):
            fields = {field.name for field in dataclasses.fields(one)}
            if RECORDS & ({*dir(one)} | fields):
                found[name] = one
    return found


def places(one, known):
    """In how many places a value may hold a record: two where it is a tuple of such, or of anything."""
    word = re.compile(rf"\b({'|'.join([*known, 'Event', 'Any', 'T'])})\b")
    told = [str(field.type) for field in dataclasses.fields(one) if field.init]
    return sum(1 + ("tuple[" in text) for text in told if word.search(text))


def test_every_class_and_verb_that_may_join_two_is_tried():
    known = holders()
    several = {name for name, one in known.items() if places(one, known) > 1}
    assert several <= {*JOINS, *CHARGED, *REFUSED}
    assert {"Release", "LearnedNetwork", "NaiveBayesEnsemble", "CrossValidation"} <= several
    verbs = {
        name
        for name, one in public_names().items()
        if inspect.isfunction(one) and READ & {*inspect.signature(one).parameters}
    }
    assert verbs <= {*JOINS, *SINGLE, *BARE}


def test_a_classifier_refuses_the_posterior_of_another_release():
    one, other = (dg.posterior(released(1, seed), **SETTINGS) for seed in (1, 2))
    assert dg.results.NaiveBayes("spam", one.mean(), one).provenance == one.provenance
    with pytest.raises(dg.errors.InferenceError, match="of another release"):
        dg.results.NaiveBayes("spam", one.mean(), other)


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
@pytest.mark.parametrize(("name", "at"), [(name, at) for name, ways in JOINS.items() for at in range(len(ways))])
@pytest.mark.parametrize(("epsilons", "seeds"), [(("0.1", 5), (None, 1)), ((5, "0.1"), (1, None)), ((1, 1), (1, 2))])
def test_what_is_made_of_two_says_both_prices_and_is_as_private_as_the_less(name, at, epsilons, seeds):
    make, join = JOINS[name][at]
    made = join(*itertools.starmap(make, zip(epsilons, seeds, strict=True)))
    record = made.provenance
    assert record.event.epsilon >= sum(map(Fraction, epsilons))
    assert not record.private
    assert dg.cost(record.event).epsilon == record.event.epsilon


@pytest.mark.parametrize("name", ["NaiveBayesEnsemble", "Release", "posterior"])
def test_a_file_of_what_is_made_of_two_says_both_prices(name, tmp_path):
    make, join = JOINS[name][0]
    made = join(make("0.1", None), make(5, 1))
    dg.save(made, tmp_path / "f.json")
    record = dg.load(tmp_path / "f.json").provenance
    assert (record.event, record.private) == (made.provenance.event, False)
    assert record.event.epsilon == Fraction("5.1")


def test_one_release_is_counted_once():
    one = draws(1, None)
    made = dg.results.NaiveBayesEnsemble("spam", one)
    assert (
        made.provenance.event is one.event is dg.results.NaiveBayesEnsemble("spam", one.value[:1] * 3).provenance.event
    )
    first, second = released(1, None), released(1, None)
    whole = dg.posterior([first, second], method="plug-in").mean(), dg.posterior(first, method="plug-in").mean()
    assert dg.results.NaiveBayesEnsemble("spam", whole).provenance.event.epsilon == 2
    assert first.map(lambda _: dg.posterior(first, method="plug-in")).event is first.event


@pytest.mark.parametrize("name", SINGLE)
def test_verbs_of_one_release_refuse_two(name):
    with pytest.raises(dg.errors.DPGraphError):
        SINGLE[name]([released(1, 1), released(1, 2)])


def test_draws_of_two_units_make_no_ensemble():
    unit = dg.PrivacyUnit("add-remove")
    other = dg.release(dg.count(ROWS, NETWORK), dg.PosteriorSample(1), budget=dg.Budget(1, unit=unit))
    with pytest.raises(dg.errors.ReleaseError, match="under different units"):
        dg.results.NaiveBayesEnsemble("spam", draws(1, None).value + other.value)


def test_a_mechanism_that_plans_one_event_object_for_all_is_told_apart():
    class Same(dg.PosteriorSample):
        planned = dg.PosteriorSample(1).event(NETWORK, dg.PrivacyUnit())

        def event(self, network, unit):
            return self.planned

    made = dg.results.NaiveBayesEnsemble("spam", released(1, None, Same).value + released(1, None, Same).value)
    assert made.provenance.event.epsilon == 2


def test_released_draws_name_the_rows_of_the_ledger_that_paid(tmp_path):
    budget = dg.Budget.open(tmp_path / "ledger.sqlite", dataset="mail", epsilon=2)
    two = [dg.release(dg.count(ROWS, NETWORK), dg.PosteriorSample(1), budget=budget) for _ in range(2)]
    made = dg.results.NaiveBayesEnsemble("spam", two[0].value + two[1].value)
    assert made.provenance.receipts == two[0].scope.receipts + two[1].scope.receipts
    assert budget.ledger.verify(release=made).ok
    assert budget.ledger.verify(release=dg.results.NaiveBayes("spam", two[1].value[0])).ok


MANY = [
    Provenance(Event(name, Fraction(1, 3)), dg.PrivacyUnit(), private, receipts)
    for name, private, receipts in itertools.product("ab", [True, False], [(), ("x",), ("x", "y")])
]


@given(st.lists(st.none() | st.sampled_from(MANY), max_size=5))
def test_a_joined_record_has_every_event_once_and_is_private_if_all_are(records):
    known = {id(record): record for record in records if record is not None}.values()
    made = joined(records)
    if made is None:
        assert not known
        return
    assert made.event.epsilon == sum(record.event.epsilon for record in known)
    assert {id(event) for event in made.event.events} == {id(record.event) for record in known}
    assert made.private == all(record.private for record in known)
    assert {*made.receipts} == {receipt for record in known for receipt in record.receipts}


@pytest.mark.parametrize("private", [*itertools.product([True, False], repeat=2)])
def test_a_release_made_of_others_is_private_if_all_are(private):
    parts = [dataclasses.replace(released(1, seed), private=one) for seed, one in enumerate(private)]
    assert combined(None, parts).private == all(private)
    assert (parts[0] + parts[1]).private == all(private)
