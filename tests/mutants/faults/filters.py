"""Faults in filters: what is charged, how much rho a limit has, what a plan covers, what groups share."""

from tests.mutants.planting import Mutant

FILTERS = "tests/privacy/test_filters.py"
LAWS = f"{FILTERS}::test_no_renyi_divergence_is_above_the_rho_of_a_law_and_the_least_order_attains_it"
ADVERSARY = f"{FILTERS}::test_no_adaptive_adversary_passes_a_zcdp_budget"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a rho that is not charged",
        "privacy/composition.py",
        "spent.rho + rho)",
        "spent.rho)",
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
        (f"{ADVERSARY}[1-0.05-menu0]",),
    ),
    Mutant(
        "a planned event drawn twice",
        "privacy/accounts.py",
        "                self._planned.remove(event)\n",
        "",
        (f"{FILTERS}::test_a_plan_is_charged_whole_and_each_of_its_events_is_drawn_once",),
    ),
    Mutant(
        "any event drawn from a plan",
        "privacy/composition.py",
        "if not isinstance(event, Plan):",
        "if False:",
        (f"{FILTERS}::test_a_plan_is_priced_by_loss_distributions_and_its_releases_are_drawn",),
    ),
    Mutant(
        "a plan's price believed",
        "privacy/composition.py",
        "if event.epsilon < _listed(event.planned, event.delta).epsilon:",
        "if False:",
        (f"{FILTERS}::test_a_plan_that_does_not_fit_or_claims_too_little_is_not_planned",),
    ),
    Mutant(
        "an event with a delta at the rho of its epsilon",
        "privacy/composition.py",
        "if event.delta == 0 else [])]",
        "if event.delta < 1 else [])]",
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
)
