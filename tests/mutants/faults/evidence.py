"""Faults in what checks a record, in what prices it, and in the numbers behind it."""

from tests.mutants.planting import Mutant

CLAIMS, COMPOSITION = "tests/privacy/test_claims.py", "tests/privacy/test_composition.py"
EVIDENCE, REPRODUCTION = "tests/files/test_evidence.py", "tests/mechanisms/test_reproduction.py"
EDITED = f"{EVIDENCE}::test_an_edited_record_is_refused_for_what_does_not_fit"
STRUCTURAL = "tests/privacy/test_structural.py"
SELECTION, NOISE = "tests/privacy/test_selection.py", "tests/privacy/test_noise.py"
BY_TWO = f"{COMPOSITION}::test_one_sum_that_moves_by_two_is_priced_right_under_any_name"

MUTANTS = (
    Mutant(
        "a claim believed, not recomputed",
        "privacy/records.py",
        "if (why := claim_problem(self)) is not None:",
        "if False and (why := claim_problem(self)) is not None:",
        (CLAIMS,),
    ),
    Mutant(
        "a claimed rho believed",
        "privacy/records.py",
        "exceeds(parts, event.rho)",
        "bool(parts and False)",
        (f"{CLAIMS}::test_a_claimed_rho_is_refused_below_what_the_noise_costs_and_not_at_it",),
    ),
    Mutant(
        "a delta that forgives any epsilon",
        "privacy/records.py",
        "    if event.delta == 0:\n        if not ways:\n",
        "    if event.delta > 0:\n        return None\n    if event.delta == 0:\n        if not ways:\n",
        ("tests/privacy/test_gdp.py::test_the_mu_of_an_event_is_the_root_of_its_squares",),
    ),
    Mutant(
        "blocks that move together priced by the largest alone",
        "privacy/records.py",
        "[[max(together), *chosen]]",
        "[[min(together), *chosen]]",
        (f"{CLAIMS}::test_a_pure_claim_is_refused_below_what_the_noise_costs_and_not_at_it",),
    ),
    Mutant(
        "sums of fractions compared as floats",
        "privacy/records.py",
        "    return sum(parts, Fraction(0)) > limit\n",
        "    return float(sum(parts, Fraction(0))) > float(limit)\n",
        (f"{CLAIMS}::test_sums_are_compared_with_a_claim_exactly",),
    ),
    Mutant(
        "a record that need not fit its unit",
        "privacy/records.py",
        "if moved.l1 % rows_per_person or moved.l2_squared % rows_per_person**2:",
        "if False:",
        (f"{CLAIMS}::test_a_record_fits_its_unit",),
    ),
    Mutant(
        "movements believed on load",
        "mechanisms/reproduction.py",
        "Measurement(m.table, network.cells(m.table), m.law, partition_movement(network.cells(m.table), unit))",
        "m",
        (EDITED,),
    ),
    Mutant(
        "entries of a file that no field has passed over",
        "privacy/structural.py",
        "if unknown := set(plain).difference(known):",
        "if unknown := set[str]():",
        (f"{STRUCTURAL}::test_what_does_not_fit_is_refused_where_it_stands", EDITED),
    ),
    Mutant(
        "true read as the number one",
        "privacy/structural.py",
        "if type(plain) not in types or",
        "if not isinstance(plain, types) or",
        (f"{STRUCTURAL}::test_what_does_not_fit_is_refused_where_it_stands",),
    ),
    Mutant(
        "a joint distance believed on load",
        "mechanisms/additive/fourier.py",
        "measurements=plan.measurements, joint=plan.joint)\n\n\nregister",
        "measurements=plan.measurements, joint=event.joint)\n\n\nregister",
        (EDITED,),
    ),
    Mutant(
        "larger noise than claimed believed on load",
        "mechanisms/reproduction.py",
        "    if not any(exceeds(parts, claim * (1 - rounding)) for parts in fitting or ways):\n",
        "    if False:\n",
        (EDITED,),
    ),
    Mutant(
        "the noise of one block of several checked",
        "mechanisms/additive/fourier.py",
        "measurements=plan.measurements, joint=plan.joint)\n\n\nregister",
        "measurements=event.measurements[:1] + plan.measurements[1:], joint=plan.joint)\n\n\nregister",
        (EDITED,),
    ),
    Mutant(
        "selections that need not add up",
        "mechanisms/reproduction.py",
        "return event(name, recorded.epsilon, chosen.law, draws(structure, chosen.draws))",
        "return recorded",
        (EDITED,),
    ),
    Mutant(
        "any mechanism's name taken",
        "mechanisms/reproduction.py",
        "    if event.mechanism not in _REPLANS:\n",
        "    if event.mechanism not in _REPLANS:\n        return\n    if event.mechanism not in _REPLANS:\n",
        (EDITED,),
    ),
    Mutant(
        "a record written that cannot be read",
        "files/codecs.py",
        "    check_reproduced(provenance, structure)\n    event, unit = provenance.event, provenance.unit\n",
        "    event, unit = provenance.event, provenance.unit\n",
        (f"{EVIDENCE}::test_a_record_that_could_not_be_read_is_not_written",),
    ),
    Mutant(
        "totals of sum-zero noise not checked",
        "structure/tables.py",
        "if law.sums_to_zero and (n is None or int(table.sum()) != n):",
        "if False:",
        (EDITED,),
    ),
    Mutant(
        "totals of independent noise not checked",
        "files/documents.py",
        "        check_total(value)\n",
        "        pass\n",
        (EDITED,),
    ),
    Mutant(
        "a file's number of rows whatever its unit says",
        "files/releases.py",
        "    _check_rows(n, unit)\n    return type_",
        "    return type_",
        ("tests/files/test_documents.py::test_n_is_there_exactly_where_it_is_public",),
    ),
    Mutant(
        "true totals refused once in a million",
        "files/releases.py",
        "NATS = 101 * math.log(2)",
        "NATS = 21 * math.log(2)",
        (f"{EVIDENCE}::test_totals_are_refused_once_in_2_to_the_100_and_no_less_than_need_be",),
    ),
    Mutant(
        "the digest ignored",
        "files/digest.py",
        'if plain.get("digest") != digest(plain):',
        "if False:",
        (f"{EVIDENCE}::test_a_change_that_makes_sense_is_noticed_by_the_digest_alone",),
    ),
    Mutant(
        "a missing digest forgiven",
        "files/digest.py",
        'if plain.get("digest") != digest(plain):',
        'if plain.get("digest", digest(plain)) != digest(plain):',
        (f"{EVIDENCE}::test_a_change_that_makes_sense_is_noticed_by_the_digest_alone",),
    ),
    Mutant(
        "booleans accepted as numbers in files",
        "files/arrays.py",
        "if not set(map(type, level)) <= kinds | {list}:",
        "if not set(map(type, level)) <= kinds | {list, bool}:",
        (EDITED,),
    ),
    Mutant(
        "booleans accepted as whole numbers of a movement",
        "privacy/checks.py",
        "if not isinstance(value, int) or isinstance(value, bool):",
        "if not isinstance(value, int):",
        (f"{CLAIMS}::test_what_whole_numbers_cannot_do_is_no_movement",),
    ),
    Mutant(
        "booleans and fractions accepted as counts",
        "structure/frozen.py",
        'if np.asarray(values).dtype.kind not in "iu":',
        "if False:",
        ("tests/structure/test_tables.py::test_counts_and_n_are_whole_numbers",),
    ),
    Mutant(
        "an accountant that prices by name",
        "privacy/composition.py",
        "    if event.joint is not None:\n        return _joint_shifts(event)\n",
        '    if event.mechanism in ("LaplaceMechanism", "GaussianMechanism"):\n'
        "        met = Counter[Shift]()\n"
        "        for m in event.measurements:\n"
        "            met[Shift(m.law, 1)] += m.sensitivity\n"
        "        return met\n"
        "    if event.joint is not None:\n        return _joint_shifts(event)\n",
        (BY_TWO,),
    ),
    Mutant(
        "one sum that moves by two priced as two that move by one",
        "privacy/composition.py",
        "return Counter({Shift(law, moved.l1): 1})\n    return None",
        "return Counter({Shift(law, 1): moved.l1})\n    return None",
        (BY_TWO,),
    ),
    Mutant(
        "Gaussian moments priced as if each moved by one",
        "privacy/composition.py",
        "(measured.cells == 1 and moved.l1 <= LONGEST)",
        "moved.l1",
        ("tests/mechanisms/additive/test_regression_noise.py::test_accountants_open_moments_by_their_movement",),
    ),
    Mutant(
        "joint blocks priced by the movement of one",
        "privacy/composition.py",
        "distance = min(event.joint.distance // weights.pop(), sum(m.movement.l1 for m in event.measurements))",
        "distance = max(m.movement.l1 for m in event.measurements)",
        (f"{COMPOSITION}::test_a_record_is_opened_by_its_movements_alone",),
    ),
    Mutant(
        "several rows of a person who may be alike moved by one in each cell",
        "privacy/measurements.py",
        "l1 if rows == 1 or l1 == 0 else None",
        "l1",
        (REPRODUCTION,),
    ),
    Mutant(
        "records of a person who may be alike said to move each sum by one",
        "structure/moments.py",
        "l1 if people == 1 and reach.max() <= 1 else None",
        "l1 if reach.max() <= 1 else None",
        (f"{REPRODUCTION}::test_no_record_moves_a_family_further_than_recorded",),
    ),
    Mutant(
        "the rhos of blocks that add up to more than rho",
        "mechanisms/additive/blocks.py",
        "    total = sum(parts.values())\n",
        "    total = PARTS\n",
        (f"{REPRODUCTION}::test_the_rhos_of_residual_blocks_add_up_to_no_more_than_rho",),
    ),
    Mutant(
        "rho rounded down",
        "mechanisms/additive/laplace.py",
        "return rounded(total_up(concentrated_parts(measured)), up=True) or None",
        "return rounded(total_up(concentrated_parts(measured)), up=False) or None",
        (f"{CLAIMS}::test_the_rho_of_laplace_tables_is_rounded_up",),
    ),
    Mutant(
        "the rho of Gibbs updates rounded down",
        "papers/gibbs_sample.py",
        "rho = rounded(update**2 * updates / 8, up=True)",
        "rho = rounded(update**2 * updates / 8, up=False)",
        (f"{CLAIMS}::test_the_rho_of_gibbs_updates_is_rounded_up",),
    ),
    Mutant(
        "the float error of compositions bounded by 2^-66 for 2^-46",
        "privacy/noise.py",
        "return parts * 2.0**-46 * (largest + values + 10)",
        "return parts * 2.0**-66 * (largest + values + 10)",
        (f"{SELECTION}::test_floats_decide_nothing_wrong_near_an_edge",),
    ),
    Mutant(
        "the float error of paths bounded by 2^-69 for 2^-49",
        "privacy/noise.py",
        "(steps + 2) * (states + 800) * 2.0**-49",
        "(steps + 2) * (states + 800) * 2.0**-69",
        (f"{SELECTION}::test_floats_decide_no_state_wrongly_near_an_edge",),
    ),
    Mutant(
        "the scale of a selection not rounded up",
        "privacy/noise.py",
        "        Fraction(scale) * epsilon < score_range\n"
        '        or Fraction(_selector("permute-and-flip", scale).map(float(score_range))) > epsilon\n',
        "        False\n",
        (f"{SELECTION}::test_selection_scales_round_up",),
    ),
    Mutant(
        "the scale of a selection by half its range",
        "privacy/noise.py",
        "    if Fraction(score_range) / epsilon > 2**100:\n",
        "    score_range = (score_range + 1) // 2\n    if Fraction(score_range) / epsilon > 2**100:\n",
        (f"{SELECTION}::test_selection_scales_round_up",),
    ),
    Mutant(
        "one slot too few in stars and bars",
        "privacy/noise.py",
        "    slots = total + parts - 1\n",
        "    slots = total + parts - 2\n",
        (NOISE,),
    ),
    Mutant(
        "the candidates of a row miscounted by stars and bars",
        "mechanisms/selection/lattice.py",
        "math.comb(steps + levels - 1, levels - 1) > MAX_CANDIDATES",
        "math.comb(steps + levels - 1, levels) > MAX_CANDIDATES",
        (
            "tests/mechanisms/selection/test_map_estimate.py::test_permute_and_flip_has_the_finest_grid_that_can_be_listed",
        ),
    ),
    Mutant(
        "the candidates of a bound miscounted by stars and bars",
        "papers/zhang.py",
        "math.comb(steps + levels - 1, levels - 1)",
        "math.comb(steps + levels, levels - 1)",
        ("tests/papers/test_zhang.py::test_candidates_are_counted_by_stars_and_bars",),
    ),
)
