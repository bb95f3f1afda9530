"""Faults that the contract of tests/contract must notice, and some of the same kind that other tests do."""

from tests.mutants.planting import Mutant

HOME = "tests/contract"
DISCOVERY = f"{HOME}/test_discovery.py"
SELECTION, SAMPLE = "tests/privacy/test_selection.py", "tests/mechanisms/selection/test_posterior_sample.py"
REGRESSION_SAMPLE = "tests/papers/test_regression_sample.py"
REPLACE, ADD = "replace one row of one person", "add-remove one row of one person"
REPLACE_3, ADD_3 = "replace up to 3 rows of one person", "add-remove up to 3 rows of one person"


def _case(kind: str, case: str, unit: str) -> tuple[str, ...]:
    """The test of one case of the contract under one unit."""
    return (f"{HOME}/test_{kind}.py::test_no_loss_is_above_the_claim[{case}: {unit}]",)


def _mechanism(case: str, unit: str = REPLACE) -> tuple[str, ...]:
    return _case("mechanisms", case, unit)


def _command(case: str, unit: str = REPLACE_3) -> tuple[str, ...]:
    return _case("commands", f"dpgraph {case}", unit)


ARC, CHAIN = "two and three levels", "chain of two levels"
LAPLACE, FOURIER = f"LaplaceMechanism: merged, optimal; {CHAIN}", f"FourierMechanism: auto; {CHAIN}"
RESIDUAL = f"FourierMechanism: residual; {ARC}"
SAMPLED = f"PosteriorSample: 1 draws; {CHAIN}"
GIBBS = "GibbsSample: adaptive, sweeps=1; a log of two cells"
MEDIAN = "PrivateQuantile: at 0.5; 18 others"

OPTIONS = (
    Mutant(
        "a command for one row of a person whatever it is told",
        "cli/budgets.py",
        "        rows = 1 if self.rows_per_person is None else self.rows_per_person\n",
        "        rows = 1\n",
        (
            *_command("release: --mechanism laplace"),
            "tests/cli/test_evaluate.py::test_the_release_protects_whom_it_is_told_to",
        ),
    ),
    Mutant(
        "a command that forgets the relation",
        "cli/budgets.py",
        "unit=dg.PrivacyUnit(relation, rows))",
        'unit=dg.PrivacyUnit("add-remove", rows))',
        _command("release: --mechanism laplace", REPLACE),
    ),
)

CLAIMS = (
    Mutant(
        "rho of Laplace noise rounded down",
        "mechanisms/additive/laplace.py",
        "return rounded(total_up(concentrated_parts(measured)), up=True) or None",
        "return rounded(total_up(concentrated_parts(measured)), up=False) or None",
        _mechanism(LAPLACE),
    ),
    Mutant(
        "rho of a Gibbs sampler rounded down",
        "papers/gibbs_sample.py",
        "rounded(update**2 * updates / 8, up=True)",
        "rounded(update**2 * updates / 8, up=False)",
        (f"{HOME}/test_claims.py::test_the_rho_of_a_gibbs_sampler_covers_all_its_updates",),
    ),
    Mutant(
        "the epsilon of a rho rounded down",
        "mechanisms/additive/gaussian.py",
        "epsilon_of_rho(budget, slack) if mu is None",
        "rounded(epsilon_of_rho(budget, slack), up=False) if mu is None",
        ("tests/mechanisms/additive/test_gaussian.py::test_epsilon_and_rho_are_two_names_of_one_claim",),
    ),
    Mutant(
        "the rho of an epsilon rounded up",
        "privacy/noise.py",
        "    return rounded(low, up=False)",
        "    return rounded(low, up=True)",
        (f"{HOME}/test_claims.py::test_the_rho_of_an_epsilon_never_costs_more",),
    ),
    Mutant(
        "a share of rho for each update rounded up",
        "papers/gibbs_sample.py",
        "    root = rounded(Fraction(float(square) ** 0.5), up=False)\n    while root**2 > square:",
        "    root = rounded(Fraction(float(square) ** 0.5), up=True)\n    while root**2 > 2 * square:",
        (f"{HOME}/test_claims.py::test_the_rho_of_a_gibbs_sampler_covers_all_its_updates",),
    ),
)

SELECTIONS = (
    Mutant(
        "the moves of a person left out of the adaptive charge",
        "papers/gibbs_sample.py",
        "entry_range(logs.values()) * plan.moves, plan.update)",
        "entry_range(logs.values()), plan.update)",
        _mechanism(GIBBS),
    ),
    Mutant(
        "an adaptive charge of the mean entry, not of the worst",
        "papers/gibbs_sample.py",
        "    return int(np.max(apart))",
        "    return int(np.mean(apart))",
        _mechanism(GIBBS),
    ),
    Mutant(
        "half the scale of a selection",
        "privacy/noise.py",
        "return scale",
        "return scale / 2",
        _mechanism(f"MapEstimate: permute-and-flip; {CHAIN}"),
        within="selection_scale",
        first=True,
    ),
    Mutant(
        "the scale of a selection rounded down",
        "privacy/noise.py",
        "        Fraction(scale) * epsilon < score_range\n        or",
        "        False\n        and",
        (f"{SELECTION}::test_selection_scales_round_up",),
    ),
    Mutant(
        "secure choices at half the scale",
        "privacy/noise.py",
        'return int(_selector("softmax", scale)(bounded_scores(scores)))',
        'return int(_selector("softmax", scale / 2)(bounded_scores(scores)))',
        (f"{SELECTION}::test_choose_and_flip_have_their_own_laws_and_not_each_others[0-secure]",),
    ),
    Mutant(
        "secure permute-and-flip at half the scale",
        "privacy/noise.py",
        'return int(_selector("permute-and-flip", scale)(bounded_scores(scores)))',
        'return int(_selector("permute-and-flip", scale / 2)(bounded_scores(scores)))',
        (f"{SELECTION}::test_choose_and_flip_have_their_own_laws_and_not_each_others[0-secure]",),
    ),
    Mutant(
        "secure compositions at half the scale",
        "privacy/noise.py",
        "return draw_compositions(scores, scale, size, self.bits)",
        "return draw_compositions(scores, scale / 2, size, self.bits)",
        (f"{SELECTION}::test_compositions_have_their_law_and_not_that_of_a_wrong_scale[secure-0]",),
    ),
    Mutant(
        "secure paths at half the scale",
        "privacy/noise.py",
        "return draw_path(scores, scale, start, transition, self.bits)",
        "return draw_path(scores, scale / 2, start, transition, self.bits)",
        (f"{SELECTION}::test_paths_have_their_law_and_not_that_of_a_wrong_scale[secure-0]",),
    ),
    Mutant(
        "a quantile whose scale follows the rows",
        "mechanisms/selection/quantile.py",
        "noise.choose(_scores(below, alpha), selection_scale(_score_range(alpha, unit), share))",
        "noise.choose(_scores(below, alpha), selection_scale(_score_range(alpha, unit) + int(below[1]), share))",
        _mechanism(MEDIAN),
    ),
    Mutant(
        "weights drawn as real numbers without the word",
        "papers/regression_sample.py",
        "        if not self.idealized_numerics:\n            raise ReleaseError(",
        "        if self.idealized_numerics is None:\n            raise ReleaseError(",
        (f"{REGRESSION_SAMPLE}::test_what_does_not_fit_is_refused_before_anything_is_charged",),
    ),
    Mutant(
        "idealized numerics by default",
        "papers/regression_sample.py",
        "    idealized_numerics: bool = False",
        "    idealized_numerics: bool = True",
        (f"{REGRESSION_SAMPLE}::test_what_does_not_fit_is_refused_before_anything_is_charged",),
    ),
)

ROWS = (
    Mutant(
        "one row of a person in tables where n is private",
        "privacy/measurements.py",
        "    rows = unit.rows_per_person\n",
        "    rows = unit.rows_per_person if unit.n_is_public else 1\n",
        _mechanism(LAPLACE, ADD_3),
    ),
    Mutant(
        "one row of a person in squared tables where n is private",
        "privacy/measurements.py",
        "moved * rows**2",
        "moved * rows ** (2 if unit.n_is_public else 1)",
        _mechanism(f"GaussianMechanism: maximal, optimal; {ARC}", ADD_3),
    ),
    Mutant(
        "one row of a person in joint blocks",
        "mechanisms/additive/plans.py",
        "return value * unit.rows_per_person, exact",
        "return value, exact",
        _mechanism(RESIDUAL, REPLACE_3),
    ),
    Mutant(
        "one row of a person in a block",
        "mechanisms/additive/plans.py",
        "    return moved * unit.rows_per_person\n",
        "    return moved\n",
        _mechanism(RESIDUAL, ADD_3),
    ),
    Mutant(
        "one row of a person in Walsh sums where n is private",
        "mechanisms/additive/fourier.py",
        "moved = 2 * rows if unit.n_is_public and paper else rows",
        "moved = 2 * rows if unit.n_is_public and paper else 1",
        _mechanism(FOURIER, ADD_3),
    ),
    Mutant(
        "one row of a person in selections on a grid",
        "mechanisms/selection/lattice.py",
        "return one * unit.rows_per_person * (2",
        "return one * (2",
        _mechanism(f"MapEstimate: exponential; {ARC}", ADD_3),
    ),
    Mutant(
        "one row of a person in quantiles",
        "mechanisms/selection/quantile.py",
        "return 2 * furthest * unit.rows_per_person",
        "return 2 * furthest",
        _mechanism(MEDIAN, ADD_3),
    ),
    Mutant(
        "one entry of a person in a Gibbs sampler",
        "papers/gibbs_sample.py",
        "moves = unit.rows_per_person * (2 if unit.n_is_public else 1)",
        "moves = 2 if unit.n_is_public else 1",
        _mechanism(GIBBS, ADD_3),
    ),
    Mutant(
        "one record of a person in counts of categories",
        "structure/moments.py",
        "return (2 if unit.n_is_public else 1) * unit.rows_per_person",
        "return 2 if unit.n_is_public else 1",
        _mechanism("LaplaceMechanism: moments; Multinomial(3)", ADD_3),
    ),
    Mutant(
        "one record of a person in moments where n is private",
        "structure/moments.py",
        "return unit.rows_per_person * int(np.abs(rows).sum(axis=1).max())",
        "return int(np.abs(rows).sum(axis=1).max())",
        _mechanism("LaplaceMechanism: moments; Poisson()", ADD_3),
    ),
    Mutant(
        "one row of a person in weights of a regression",
        "papers/regression_sample.py",
        "residual_range(self.radius) * unit.rows_per_person *",
        "residual_range(self.radius) *",
        _mechanism("RegressionSample: radius 1, 1 draws; one column", ADD_3),
    ),
    Mutant(
        "an estimator whose own budget forgets the unit",
        "estimators/fitting.py",
        "return budget_of(budget, unit, epsilon, delta)",
        "return budget_of(budget, None, epsilon, delta)",
        _case("estimators", "PrivateNaiveBayes: laplace, plug-in", ADD_3),
        first=True,
    ),
    Mutant(
        "no noise on a table without rows",
        "mechanisms/additive/plans.py",
        "    for (law, _), sharing in counted(list(groups.items())):",
        "    for (law, _), sharing in groups.items() if any(t.any() for t in true.values()) else ():",
        _mechanism(LAPLACE, ADD),
        first=True,
    ),
    Mutant(
        "an empty log refused by the estimator",
        "estimators/hmm.py",
        "            released = fit.release(counts, mechanism, log, budget)\n",
        '            if not counts.sensitive_rows:\n                raise DomainError("the log is empty")\n'
        "            released = fit.release(counts, mechanism, log, budget)\n",
        _case("estimators", "PrivateHMM: laplace, plug-in, collapsed", ADD),
    ),
    Mutant(
        "an empty table refused by the sums of a regression",
        "statistics/moments.py",
        "        if many > most:\n",
        '        if not many:\n            raise DomainError("there are no rows")\n        if many > most:\n',
        _command("fit regression: --inference plug-in --on-missing error", ADD),
    ),
    Mutant(
        "an empty table refused by the count",
        "statistics/counts.py",
        "    tables = measured_families(network)\n    parts =",
        '    if not vector.any():\n        raise DomainError("there are no rows")\n'
        "    tables = measured_families(network)\n    parts =",
        _command("fit naive-bayes: --inference plug-in", ADD),
    ),
)

MEMBERS = (
    Mutant(
        "a new setting of a mechanism that nobody tries",
        "mechanisms/additive/laplace.py",
        'Shape = Literal["auto", "independent", "sum-zero"]',
        'Shape = Literal["auto", "independent", "sum-zero", "correlated"]',
        (f"{DISCOVERY}::test_every_setting_of_a_mechanism_is_in_the_contract[LaplaceMechanism]",),
    ),
    Mutant(
        "a new mechanism that nobody tries",
        "mechanisms/selection/quantile.py",
        "\n\ndef _score_range(",
        "\n\nclass PrivateMedian(PrivateQuantile):\n    pass\n\n\ndef _score_range(",
        (f"{DISCOVERY}::test_every_mechanism_is_in_the_contract",),
    ),
    Mutant(
        "a new command that spends and that nobody tries",
        "cli/__init__.py",
        "ledger):  # of what was made\n    main.add_command(_command)\n",
        'ledger):  # of what was made\n    main.add_command(_command)\nmain.add_command(release, "publish")\n',
        (f"{DISCOVERY}::test_every_command_that_spends_is_in_the_contract",),
    ),
    Mutant(
        "a new public function that takes a budget and that nobody tries",
        "__init__.py",
        "    from dpgraph.privacy.release import release as release\n",
        "    from dpgraph.privacy.release import release as release\n"
        "    from dpgraph.privacy.release import release as fit_budget\n",
        (f"{DISCOVERY}::test_every_public_name_that_takes_a_budget_is_in_the_contract",),
    ),
)

MUTANTS = OPTIONS + CLAIMS + SELECTIONS + ROWS + MEMBERS
