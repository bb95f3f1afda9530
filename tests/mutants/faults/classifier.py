"""Faults in how a classifier's label is measured first."""

from tests.mutants.planting import Mutant

LAPLACE = "tests/mechanisms/additive/test_laplace.py::test_the_largest_log_ratio_over_all_neighbours_is_epsilon"
SHARE = "tests/mechanisms/additive/test_label_share.py::test_rows_change_nothing_but_their_number"

MUTANTS = (
    Mutant(
        "margins beside tables that keep the whole budget",
        "mechanisms/additive/laplace.py",
        "part * (1 - sum(alone.values()))",
        "part * 1",
        (LAPLACE,),
    ),
    Mutant(
        "the label's share from a private n",
        "estimators/naive_bayes.py",
        "counts.sensitive_rows if unit.n_is_public else None",
        "counts.sensitive_rows",
        (SHARE,),
    ),
)
