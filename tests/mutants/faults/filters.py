"""Faults in filters: charges, the rho of a limit, the mu of noise and its sums, the shares of groups."""

from tests.mutants.planting import Mutant

FILTERS = "tests/privacy/test_filters.py"
GDP = "tests/privacy/test_gdp.py"
LAWS = f"{FILTERS}::test_no_renyi_divergence_is_above_the_rho_of_a_law_and_the_least_order_attains_it"
ADVERSARY = f"{FILTERS}::test_no_adaptive_adversary_passes_a_budget"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a rho that is not charged",
        "privacy/composition.py",
        "self.summed(spent) + price}",
        "self.summed(spent)}",
        (f"{FILTERS}::test_gaussian_noise_spends_a_rho",),
        first=True,
    ),
    Mutant(
        "a limit's rho rounded up",
        "privacy/composition.py",
        "        rho = rounded(rho * LESS, up=False)\n    return rho",
        "        rho = rounded(rho * LESS, up=False)\n    return rho / LESS",
        (f"{FILTERS}::test_the_rho_of_a_limit_is_the_largest_that_opendp_converts_to_no_more",),
    ),
    Mutant(
        "a pure epsilon at an eighth of its square",
        "privacy/composition.py",
        "return rounded(min(epsilon * (1 - low) / (1 + low), epsilon**2 / 2), up=True)",
        "return rounded(epsilon**2 / 8, up=True)",
        (f"{ADVERSARY}[zcdp-1-0.05-menu0]",),
    ),
    Mutant(
        "an event with a delta at the rho of its epsilon",
        "privacy/composition.py",
        "_recorded_rho(event)] if event.delta == 0 else []",
        "_recorded_rho(event)] if event.delta < 1 else []",
        (f"{FILTERS}::test_what_zcdp_has_no_price_for_is_refused",),
    ),
    Mutant(
        "what a record leaves of a claim is free",
        "privacy/composition.py",
        "return whole + pure_rho(max(Fraction(0), event.epsilon - told)) if met else None",
        "return whole if met else None",
        (f"{FILTERS}::test_an_event_is_charged_the_least_rho_that_is_proved",),
    ),
    Mutant(
        "noise that sums to zero at the rho of independent cells",
        "privacy/composition.py",
        "largest = Fraction(_square_sum(few - 1, high, up=True)) / Fraction(_square_sum(few, low, up=False))",
        "largest = 1 / (1 + exp_bounds(-loss / 2, DIGITS)[0]) ** 2",
        (LAWS,),
    ),
    Mutant(
        "a number that moves by two at the rho of two that move by one",
        "privacy/composition.py",
        "return laplace_rho(law.scale, distance)",
        "return distance * laplace_rho(law.scale, 1)",
        (LAWS,),
    ),
    Mutant(
        "a replaced row is one step for a group's rho",
        "privacy/composition.py",
        "else 4 * most_groups",
        "else 2 * most_groups",
        (f"{FILTERS}::test_a_share_of_rho_covers_every_way_a_person_can_be_spread",),
    ),
    Mutant(
        "a mu rounded down",
        "privacy/gdp.py",
        "return _rounded(8 * mpmath.erfinv(1 / total) ** 2, up=True)",
        "return _rounded(8 * mpmath.erfinv(1 / total) ** 2, up=False)",
        (f"{GDP}::test_no_step_between_vertices_is_above_mu_and_the_one_across_zero_attains_it",),
    ),
    Mutant(
        "whole numbers at the mu of a normal law",
        "privacy/gdp.py",
        "return _rounded(8 * mpmath.erfinv(1 / total) ** 2, up=True)",
        "return _rounded(1 / sigma**2, up=True)",
        (f"{GDP}::test_the_exact_delta_is_within_the_claim_and_nearly_attains_it",),
    ),
    Mutant(
        "mus that add up by themselves",
        "privacy/gdp.py",
        "return max(least, moved.l2_squared) * unit_shift(law.scale)",
        "return max(least, moved.l1) * unit_shift(law.scale)",
        (f"{GDP}::test_the_mu_of_an_event_is_the_root_of_its_squares",),
    ),
    Mutant(
        "a filter that forgets its first event",
        "privacy/composition.py",
        "self.summed(spent) + price}",
        "self.summed(spent) + (price if spent.epsilon else 0)}",
        (f"{GDP}::test_a_gdp_filter_adds_squares",),
        first=True,
    ),
    Mutant(
        "a bounded range at an eighth of its epsilon",
        "privacy/gdp.py",
        "pure_mu_squared(epsilon / 2 if",
        "pure_mu_squared(epsilon / 8 if",
        (f"{GDP}::test_a_bounded_range_costs_at_most_half_its_epsilon",),
    ),
    Mutant(
        "a delta of mu without its second term",
        "privacy/gdp.py",
        "mpmath.exp(loss) * mpmath.ncdf(-loss / mu - mu / 2)",
        "mpmath.exp(loss) * mpmath.ncdf(-loss / mu - mu / 2) * 1.0001",
        (f"{GDP}::test_delta_is_the_formula_in_200_digits_never_below",),
    ),
)
