"""Faults in how a posterior is dispatched, in what its draws say, and in what noise laws say of themselves."""

from tests.mutants.planting import Mutant

LAWS, DRAWS = "tests/privacy/test_measurements.py", "tests/inference/test_draws.py"
VERB = "tests/inference/test_posterior.py"

MUTANTS = (
    Mutant(
        "a Laplace likelihood of twice the scale",
        "privacy/measurements.py",
        "return -abs(z) / self.scale",
        "return -abs(z) / (2 * self.scale)",
        (f"{LAWS}::test_density_deviation_and_penalties_are_those_of_the_mass_function",),
    ),
    Mutant(
        "a sum of draws with the deviation of one",
        "privacy/measurements.py",
        "return math.sqrt(copies) * self.scale * math.sqrt(2)",
        "return self.scale * math.sqrt(2)",
        (f"{LAWS}::test_sums_of_draws_reach_no_further_and_fall_off_as_said",),
    ),
    Mutant(
        "noise that sums to zero taken as independent along contrasts",
        "privacy/measurements.py",
        "return spread * cells / (cells - 1) if cells > 1 else spread",
        "return spread",
        (f"{LAWS}::test_noise_that_sums_to_zero_by_enumeration",),
    ),
    Mutant(
        "chains that have not mixed, unsaid",
        "inference/draws.py",
        "return r_hat <= MOST_R_HAT and effective_size >= LEAST_SIZE",
        "return r_hat <= MOST_R_HAT or effective_size >= LEAST_SIZE",
        (f"{DRAWS}::test_one_pair_of_thresholds_judges_all_chains",),
    ),
    Mutant(
        "the settings of a method forgotten",
        "inference/network/posterior.py",
        "**vars(chosen)",
        "**vars(Records())",
        (f"{VERB}::test_settings_of_chains_reach_them",),
    ),
    Mutant(
        "a posterior that forgets its release",
        "inference/posterior.py",
        "return replace(made, provenance=provenance)",
        "return made",
        (f"{DRAWS}::test_a_release_is_remembered_and_a_value_has_none",),
    ),
    Mutant(
        "Gaussian noise on moments read as Laplace noise",
        "inference/expfam/posterior.py",
        "if value.law.gaussian and not counted:",
        "if False:",
        ("tests/inference/expfam/test_posterior.py::test_settings_that_do_not_fit_are_refused",),
    ),
)
