"""Faults in whose rows a budget is for: groups within groups, sums, caps, and the lock of a charge."""

from tests.mutants.planting import Mutant

PARALLEL, MACHINE = "tests/privacy/test_parallel.py", "tests/privacy/test_scope_machine.py"
BUDGET, SCOPE, PERSONS = (
    "tests/privacy/test_accounting.py",
    "tests/privacy/test_scope.py",
    "tests/statistics/rows/test_persons.py",
)
ENGINES, LOCK = (
    "tests/statistics/test_summary.py",
    "test_a_charge_that_comes_between_the_price_and_the_record_of_another_waits",
)
FORGETFUL = (
    "privacy/accounting.py",
    "groups = [group_with(self._group, condition) for condition in conditions]",
    "groups = [group_with(None, condition) for condition in conditions]",
)
PER_PERSON = (
    "privacy/records.py",
    'return PrivacyUnit("add-remove", self.rows_per_person)',
    'return PrivacyUnit("add-remove")',
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a group within a group forgets the outer one",
        *FORGETFUL,
        (f"{PARALLEL}::test_twenty_regions_each_split_by_sex_lose_what_was_charged_and_no_more",),
    ),
    Mutant("a group within a group forgets the outer one, by random trees", *FORGETFUL, (MACHINE,)),
    Mutant(
        "where keeps its last variable only",
        "statistics/rows/codes.py",
        "for name, level in where.items()",
        "for name, level in list(where.items())[-1:]",
        (f"{PARALLEL}::test_the_order_of_conditions_does_not_matter",),
    ),
    Mutant(
        "rows chosen by the last variable only",
        "statistics/rows/codes.py",
        "return np.logical_and.reduce(wanted)",
        "return wanted[-1]",
        (f"{ENGINES}::test_a_group_is_the_rows_that_meet_every_condition",),
    ),
    Mutant(
        "a group split again by its own variable",
        "privacy/scope.py",
        "return RowGroup((*(group.conditions if group else ()), condition))",
        "return RowGroup((*(one for one in (group.conditions if group else ()) if one.by != condition.by), condition))",
        (f"{PARALLEL}::test_a_group_is_not_split_by_its_own_variable_however_declared",),
    ),
    Mutant(
        "a variable fixed twice",
        "privacy/scope.py",
        "if names.count(name) > 1]",
        "if names.count(name) > 2]",
        (f"{SCOPE}::test_a_variable_is_fixed_once_and_a_group_has_a_condition",),
    ),
    Mutant(
        "a group known by its variables alone",
        "privacy/scope.py",
        "return set(scope.conditions) <= set(self.conditions)",
        "return scope.where.keys() <= self.where.keys()",
        (f"{SCOPE}::test_a_group_is_within_another_if_it_meets_all_its_conditions",),
    ),
    Mutant(
        "a wider group takes the budget of a narrower one",
        "privacy/scope.py",
        "return set(scope.conditions) <= set(self.conditions)",
        "return set(scope.conditions) >= set(self.conditions)",
        (f"{PARALLEL}::test_a_narrower_group_may_use_the_budget_of_a_wider_one",),
        first=True,
    ),
    Mutant(
        "the number 1 taken for true",
        "structure/domain.py",
        "((one.kind, one.levels, one.other, one.missing)",
        "((one.levels, one.other, one.missing)",
        (f"{PARALLEL}::test_the_numbers_0_and_1_are_not_the_groups_of_false_and_true",),
    ),
    Mutant(
        "groups that lose rows per person",
        *PER_PERSON,
        (f"{PARALLEL}::test_the_largest_log_ratio_over_all_neighbours_is_what_was_charged",),
    ),
    Mutant("groups that lose rows per person, by random trees", *PER_PERSON, (MACHINE,)),
    Mutant(
        "counts of another group added",
        "statistics/counts.py",
        "if other.group != self.group:",
        "if False:",
        (f"{PARALLEL}::test_groups_partition_the_counts_and_do_not_add",),
    ),
    Mutant(
        "a charge without its lock",
        "privacy/accounts.py",
        "        with self._lock:\n",
        "        if True:\n",
        (f"{BUDGET}::{LOCK}",),
        first=True,
    ),
    Mutant(
        "a charge that is locked after the price",
        "privacy/accounts.py",
        "        with self._lock:\n"
        "            chosen = None if self._choices is None else made.choice\n"
        '            if chosen is not None and self._choices and self._choices["rows"] != chosen:\n'
        "                raise other_choice()\n"
        "            after = self._after(event)\n",
        "        after = self._after(event)\n        with self._lock:\n            chosen = made.choice\n",
        (f"{BUDGET}::{LOCK}",),
    ),
    Mutant(
        "parts capped apart add",
        "statistics/counts.py",
        "cap = joined(self.cap, other.cap)",
        "cap = self.cap",
        (f"{PERSONS}::test_parts_that_were_capped_apart_do_not_add",),
    ),
    Mutant(
        "parts of no name add",
        "privacy/scope.py",
        "if not (one.parts and other.parts) or",
        "if",
        (f"{PERSONS}::test_parts_that_were_capped_apart_do_not_add",),
    ),
    Mutant(
        "a part added to itself",
        "privacy/scope.py",
        " or one.parts & other.parts:",
        ":",
        (f"{PERSONS}::test_parts_that_share_no_person_add_up_to_the_whole",),
    ),
    Mutant(
        "a cap that encoding again forgets",
        "statistics/rows/codes.py",
        "for name in domain.names), rows.cap)",
        "for name in domain.names))",
        (f"{PERSONS}::test_the_cap_travels_with_the_rows",),
    ),
    Mutant(
        "more rows of a person counted than the unit covers",
        "privacy/release.py",
        '    _check_cap(getattr(statistics, "cap", None), budget.unit)\n',
        "",
        (f"{PERSONS}::test_the_door_refuses_a_unit_that_the_cap_does_not_fit",),
    ),
)
