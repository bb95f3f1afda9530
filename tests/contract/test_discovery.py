"""Whatever spends is in the contract: a new mechanism, estimator, command or setting of one must join it."""

import importlib
import inspect
import itertools
import pkgutil
from dataclasses import fields, is_dataclass
from typing import Literal, get_args, get_origin, get_type_hints

import click
import pytest

import dpgraph as dg
import dpgraph.mechanisms
import dpgraph.papers
from dpgraph.cli import main
from dpgraph.estimators.naive_bayes import MECHANISMS
from dpgraph.structure.moments import ClassifierScore
from tests.contract import commands, data, estimators, mechanisms
from tests.names import public_names

CASES = {kind.__name__: list(kind.cases()) for kind in (mechanisms, estimators, commands)}
MECHANISM_CASES, ESTIMATOR_CASES, COMMAND_CASES = CASES.values()

#: Commands with an epsilon that spend nothing, and why.
FREE = {
    "cost": "reads no rows",
    "audit": "makes up its rows",
    "ledger create": "makes a budget",
    "ledger allow": "limits a budget",
}


def classes():
    """Every mechanism that a module of ``dpgraph.mechanisms`` or of ``dpgraph.papers`` defines."""
    rooms = ((room.__path__, f"{room.__name__}.") for room in (dpgraph.mechanisms, dpgraph.papers))
    for found in itertools.chain.from_iterable(itertools.starmap(pkgutil.walk_packages, rooms)):
        module = importlib.import_module(found.name)
        for _, one in inspect.getmembers(module, inspect.isclass):
            if one.__module__ == module.__name__ and callable(getattr(one, "randomise", None)):
                yield one


def leaves(group, path=()):
    """Every command, by the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def spending():
    """Commands that take an epsilon, but for those that are known to be free."""
    return {
        name: command
        for name, command in leaves(main)
        if any(option.name == "epsilon" for option in command.params) and name not in FREE
    }


def test_every_mechanism_is_in_the_contract():
    assert {type(case.subject) for case in MECHANISM_CASES} == set(classes())


@pytest.mark.parametrize("mechanism", list(classes()), ids=lambda one: one.__name__)
def test_every_setting_of_a_mechanism_is_in_the_contract(mechanism):
    hints = get_type_hints(mechanism)
    for part in fields(mechanism):
        if get_origin(hints[part.name]) is Literal:
            tried = {getattr(case.subject, part.name) for case in MECHANISM_CASES if type(case.subject) is mechanism}
            assert tried == set(get_args(hints[part.name])), part.name


def test_every_family_of_moments_is_in_the_contract():
    public = {one for one in vars(dg.expfam).values() if is_dataclass(one) and one.__module__ == dg.expfam.__name__}
    assert {type(one.family) for one in data.FAMILIES} == {one for one in public if not one.__name__.endswith("Prior")}


def test_every_mechanism_that_takes_moments_is_run_on_moments():
    """Those of a regression, and for Laplace noise those of families too."""
    moments = dg.LinearDesign({"x": (-1, 1)}, "y", (-1, 1))
    for mechanism in classes():
        cases = [case for case in MECHANISM_CASES if type(case.subject) is mechanism]
        runs = any(word in case.setting for case in cases for word in ("moments", "regression", "radius"))
        assert runs == any(_takes(case.subject, moments) for case in cases)


def _takes(mechanism, description):
    """Whether a release of it would be made: a refusal comes before any data."""
    try:
        mechanism.event(description, dg.PrivacyUnit("add-remove"))
    except dg.errors.ReleaseError:
        return False
    return True


def test_every_public_name_that_takes_a_budget_is_in_the_contract():
    """``release`` is what every case goes through."""
    takes = {name for name, value in public_names().items() if callable(value) and _takes_a_budget(value)}
    tried = {case.name for case in ESTIMATOR_CASES}
    assert takes == tried | {"release"}


def _takes_a_budget(one):
    try:
        return "budget" in inspect.signature(one).parameters
    except ValueError:  # an exception's signature is that of a built-in
        return False


def test_every_way_an_estimator_spends_is_in_the_contract():
    def tried(estimator, name):
        return {
            value
            for case in ESTIMATOR_CASES
            if case.name == estimator and isinstance(value := getattr(case.subject, name), str)
        }

    assert tried("PrivateNaiveBayes", "mechanism") == set(MECHANISMS) - {"gaussian"}  # needs a delta: a value
    assert any(isinstance(getattr(case.subject, "mechanism", None), dg.GaussianMechanism) for case in ESTIMATOR_CASES)
    assert tried("PrivateHMM", "sampler") == {"blocked", "collapsed"}
    assert tried("PrivateHMM", "person") == {"who"}
    assert tried("PrivateHMM", "n_states") == {"auto"}  # beside numbers
    assert tried("PrivateLinearRegression", "mechanism") == {"laplace"}
    for estimator in ("PrivateNaiveBayes", "PrivateHMM", "PrivateLinearRegression"):
        assert any(case.name == estimator and case.setting == "persons" for case in ESTIMATOR_CASES)
        assert tried(estimator, "inference") == {"noise-aware", "plug-in"}


def test_every_kind_of_model_and_noise_is_judged_in_the_contract():
    def settings(name):
        return " | ".join(case.setting for case in ESTIMATOR_CASES if case.name == name)

    for word in ("classes", "target", "entries", "laplace", "gaussian", *get_args(ClassifierScore)):
        assert word in settings("evaluate"), word
    for estimator in ("PrivateNaiveBayes", "PrivateLinearRegression", "PrivateHMM"):
        assert estimator in settings("cross_validate")


def test_every_command_that_spends_is_in_the_contract():
    assert {case.subject[0] for case in COMMAND_CASES} == set(spending())
    assert set(FREE) <= dict(leaves(main)).keys()


@pytest.mark.parametrize("name", spending())
def test_every_choice_of_a_command_is_in_the_contract(name):
    words = [case.subject for case in COMMAND_CASES if case.subject[0] == name]
    for option in spending()[name].params:
        if isinstance(option.type, click.Choice) and option.name != "neighbours":  # the units are its choices
            asked = {said[said.index(option.opts[0]) + 1] for said in words if option.opts[0] in said}
            assert asked == set(option.type.choices), option.opts[0]


def test_every_command_that_takes_a_person_is_in_the_contract_with_one():
    takes = {name for name in spending() if any("--person" in option.opts for option in spending()[name].params)}
    assert takes == {case.subject[0] for case in COMMAND_CASES if "--person" in case.subject}
    assert takes == {
        "discover",
        "release",
        "learn",
        "fit classifier",
        "fit naive-bayes",
        "fit hmm",
        "fit regression",
        "evaluate",
    }


def test_both_relations_and_one_and_three_rows_of_a_person_are_in_the_contract():
    for cases in CASES.values():
        for name in {case.name for case in cases}:
            units = {unit for case in cases if case.name == name for unit in case.units}
            assert {(unit.neighbours, unit.rows_per_person) for unit in units} == {
                ("replace", 1),
                ("replace", 3),
                ("add-remove", 1),
                ("add-remove", 3),
            }, name


def test_what_is_far_below_its_claim_says_why():
    for case in (case for cases in CASES.values() for case in cases):
        assert bool(case.tight) == bool(case.why), case
