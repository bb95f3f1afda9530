"""Faults in how a classifier's label is measured first, and in the chains over its counts."""

from tests.mutants.planting import Mutant

LAPLACE = "tests/mechanisms/additive/test_laplace.py::test_the_largest_log_ratio_over_all_neighbours_is_epsilon"
SHARE = "tests/mechanisms/additive/test_label_share.py::test_rows_change_nothing_but_their_number"
CHAINS = "tests/inference/classifier/test_sampler.py"
PUBLIC = f"{CHAINS}::test_chains_agree_with_enumeration_where_n_is_public"

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
    Mutant(
        "moved rows without their multinomial coefficients",
        "inference/classifier/loops.py",
        "log -= math.lgamma(had - many + 1.0) - math.lgamma(has + 1.0) + math.lgamma(has + many + 1.0)",
        "log -= math.lgamma(had + 1.0)",
        (PUBLIC,),
    ),
    Mutant(
        "relabelled rows without the labels' prior",
        "inference/classifier/loops.py",
        "log = moved_labels(plan, state.label[source], state.label[target], many)",
        "log = 0.0",
        (PUBLIC,),
    ),
    Mutant(
        "scaled columns without the Jacobian",
        "inference/classifier/loops.py",
        "labels * (levels - 1) * math.log(factor)",
        "0.0",
        (PUBLIC,),
    ),
)
