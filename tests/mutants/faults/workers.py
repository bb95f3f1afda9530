"""Faults in counting past one machine: groups in one pass, what workers are asked, addresses of files."""

from tests.mutants.planting import Mutant

GROUPED, CLUSTERS = "tests/statistics/engines/test_grouped.py", "tests/statistics/engines/test_clusters.py"
PLACES, PAIRS = "tests/statistics/rows/test_locations.py", f"{GROUPED}::test_several_variables_make_their_combinations"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "groups given each other's rows",
        "statistics/tally.py",
        "self.groups, np.split",
        "self.groups[::-1], np.split",
        (PAIRS,),
    ),
    Mutant(
        "sums of a group over all rows that a person keeps",
        "statistics/tally.py",
        "own if kept is None else own & kept",
        "own | True if kept is None else own & kept",
        (f"{GROUPED}::test_groups_of_one_choice_hold_together_what_the_whole_keeps",),
    ),
    Mutant(
        "groups of capped rows counted of all rows",
        "statistics/summary.py",
        "tuple(groups.values()), cap)",
        "tuple(groups.values()), cap if by is None else None)",
        (f"{GROUPED}::test_groups_of_one_choice_hold_together_what_the_whole_keeps",),
    ),
    Mutant(
        "groups that forget the choice of rows they are of",
        "statistics/summary.py",
        "    if cap is not None:\n        record",
        "    if cap is not None and by is None:\n        record",
        (f"{GROUPED}::test_groups_of_one_choice_hold_together_what_the_whole_keeps",),
    ),
    Mutant(
        "a column's sums over other groups as well",
        "statistics/moments.py",
        'settings: Any = {"where": where,',
        'settings: Any = {"where": None if column and where else where,',
        ("tests/statistics/test_columns_of_records.py::test_a_column_is_summed_as_the_array_is",),
    ),
    Mutant(
        "rows counted before any worker was asked",
        "statistics/engines/dask.py",
        '    ask_workers()\n    with PublicWords("Dask could not',
        '    with PublicWords("Dask could not',
        (f"{CLUSTERS}::test_workers_of_dask_are_asked_before_a_row_is_touched",),
    ),
    Mutant(
        "a password in an address that is shown",
        "statistics/rows/files.py",
        're.sub(r"(?<=://)[^/@]*@", "", self.address)',
        'self.address.replace("?@", "")',
        (f"{PLACES}::test_an_address_that_leads_nowhere_is_told_of_without_its_password",),
    ),
)
