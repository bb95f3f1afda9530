"""Faults in how a classifier pays for its parts and measures its label first, and in the chains over its counts."""

from tests.mutants.planting import Mutant

LAPLACE = "tests/mechanisms/additive/test_laplace.py::test_the_largest_log_ratio_over_all_neighbours_is_epsilon"
SHARE = "tests/mechanisms/additive/test_label_share.py::test_rows_change_nothing_but_their_number"
CHAINS = "tests/inference/classifier/test_posterior.py"
PUBLIC = f"{CHAINS}::test_chains_agree_with_enumeration_where_n_is_public"
PLANNED = "estimators/classifier.py"
FITS = "tests/estimators/test_classifier.py"
ONCE = f"{FITS}::test_one_charge_pays_for_all_parts"
DROWNED = f"{FITS}::test_where_features_would_drown_half_of_the_charge_counts_the_label"
CHARGED = "        scope = self.charged(any_tables(codes, self.domain))\n"
PURSE = (
    "        purse = Budget(self.epsilon, self.delta, unit=self.budget.unit, "
    'accounting="gdp" if self.delta else "basic")\n'
)
FIRST = "        measured = [release(count(codes, self.label()), self.share(LABEL), budget=purse, noise=self.noise)]\n"
LOSS = (
    "tests/contract/test_estimators.py::test_no_loss_is_above_the_claim"
    "[PrivateClassifier: 2 variables, delta 0, up to 2 rows, n 1000000: add-remove one row of one person]"
)

MUTANTS = (
    Mutant(
        "a classifier's scores paid from a budget of their own",
        PLANNED,
        "self.share(JUDGED), budget=purse",
        "self.share(Fraction(1)), budget=Budget(self.epsilon, self.delta, unit=self.budget.unit)",
        (LOSS, ONCE),
    ),
    Mutant(
        "a classifier charged after its label was drawn",
        PLANNED,
        f"{CHARGED}{PURSE}{FIRST}",
        f"{PURSE}{FIRST}{CHARGED}",
        (f"{FITS}::test_the_charge_comes_before_the_first_draw_and_stays",),
        first=True,
    ),
    Mutant(
        "a classifier's record without the price of its scores",
        "estimators/measured_pairs.py",
        "len(more)], *more))",
        "len(more)],))",
        (f"{FITS}::test_the_record_names_the_price_of_every_part_scores_too", LOSS),
    ),
    Mutant(
        "a classifier's tables that forget the label's share",
        PLANNED,
        "self._rows_in(measured[0]), 1 - LABEL",
        "self._rows_in(measured[0]), Fraction(1)",
        (ONCE,),
    ),
    Mutant(
        "a classifier's tables that forget its label's second counts",
        PLANNED,
        "self._rows_in(measured[-1]), part - more",
        "self._rows_in(measured[-1]), part",
        (DROWNED,),
    ),
    Mutant(
        "bins of scores from private rows",
        PLANNED,
        "one.bin_of(one.scores.of_rows(features))",
        "Candidate.of(one.name, one.scores, one.base, one.start, features, one.edges.shape[1] + 1)"
        ".bin_of(one.scores.of_rows(features))",
        (LOSS,),
    ),
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
