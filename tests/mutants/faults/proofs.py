"""Faults in the statements of docs/proofs.md that no other fault of this folder touches."""

from tests.mutants.planting import Mutant

SENSITIVITY, ELIMINATION = "tests/mechanisms/additive/test_sensitivity.py", "tests/structure/test_elimination.py"
RISK = "tests/privacy/test_risk.py"
COMPOSITION, SELECTION = "tests/privacy/test_composition.py", "tests/privacy/test_selection.py"

MUTANTS = (
    Mutant(
        "parities that never change",
        "mechanisms/additive/plans.py",
        "np.indices((2,) * len(block)).sum(axis=0) % 2",
        "np.indices((2,) * len(block)).sum(axis=0) * 0",
        (f"{SENSITIVITY}::test_the_parity_sensitivity_of_a_clique_and_of_naive_bayes",),
    ),
    Mutant(
        "an elimination that takes the least of a variable",
        "structure/elimination.py",
        "values.max(axis=scope.index(name))",
        "values.min(axis=scope.index(name))",
        (f"{ELIMINATION}::test_the_largest_sum_is_exact_or_an_upper_bound",),
    ),
    Mutant(
        "a selection at half its scale",
        "privacy/noise.py",
        "return scale",
        "return scale / 2",
        (f"{SELECTION}::test_selection_scales_round_up",),
        within="selection_scale",
    ),
    Mutant(
        "sum-zero noise that loses as a table of one cell more",
        "privacy/composition.py",
        "np.exp(log_sum(cells - 1) - log_sum(cells))",
        "np.exp(log_sum(cells) - log_sum(cells + 1))",
        (f"{COMPOSITION}::test_the_loss_of_sum_zero_noise_by_enumeration",),
    ),
    Mutant(
        "advanced composition without its drift",
        "papers/foulds.py",
        " + updates * one * math.expm1(one)",
        "",
        (f"{COMPOSITION}::test_a_hundred_tenths_as_published",),
    ),
    Mutant(
        "a rho of Laplace tables at half its square",
        "privacy/measurements.py",
        "/ (2 * Fraction(self.scale) ** 2)",
        "/ (4 * Fraction(self.scale) ** 2)",
        (f"{COMPOSITION}::test_the_rho_of_a_laplace_table_holds_for_its_real_pmf",),
        within="_Law.rho",
    ),
    Mutant(
        "pairs that are joined already counted among those that are not",
        "structure/elimination.py",
        "self.fill[one] += len(first) - len(both)",
        "self.fill[one] += len(first)",
        ("tests/structure/test_elimination.py::test_the_order_is_the_greedy_one[fill]",),
    ),
    Mutant(
        "merges that count shared variables twice",
        "structure/margins.py",
        "- first] /= self._sizes[name]",
        "- first] /= 1",
        ("tests/structure/test_merging_search.py::test_every_step_takes_the_best_pair_there_is",),
    ),
    Mutant(
        "a risk of half its mu",
        "privacy/risk.py",
        "m.ncdf(m.sqrt(_mpf(self.mu_squared)) +",
        "m.ncdf(m.sqrt(_mpf(self.mu_squared)) / 2 +",
        (f"{RISK}::test_a_count_with_gaussian_noise_attains_mu_at_its_centre_and_exceeds_it_nowhere",),
    ),
    Mutant(
        "a risk that forgets delta",
        "privacy/risk.py",
        "most = [delta + m.exp(epsilon) * f,",
        "most = [m.exp(epsilon) * f,",
        (f"{RISK}::test_the_law_that_is_told_or_answered_at_random_attains_the_curve",),
    ),
    Mutant(
        "a risk with false and true alarms exchanged",
        "privacy/risk.py",
        "(float(f), self.true_claims(f))",
        "(self.true_claims(f), float(f))",
        (f"{RISK}::test_the_curve_is_above_the_diagonal_from_corner_to_corner",),
    ),
    Mutant(
        "a risk of a rho taken for its square",
        "privacy/risk.py",
        "m.exp(-(max(rare - root, 0) ** 2))",
        "m.exp(-(max(rare - root**2, 0) ** 2))",
        (f"{RISK}::test_figures_by_hand",),
    ),
    Mutant(
        "a risk rounded down",
        "privacy/risk.py",
        "math.nextafter(near, math.inf))",
        "math.nextafter(near, -math.inf))",
        (f"{RISK}::test_no_figure_is_rounded_down",),
    ),
    Mutant(
        "a risk of a seeded release told as if it were private",
        "privacy/risk.py",
        "if not value.private:",
        "if value.private is None:",
        (f"{RISK}::test_what_has_no_risk_is_refused",),
    ),
)
