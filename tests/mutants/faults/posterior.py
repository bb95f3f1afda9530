"""Faults in how a posterior is dispatched, in what its draws say, and in what noise laws say of themselves."""

from tests.mutants.planting import Mutant

LAWS, DRAWS = "tests/privacy/test_measurements.py", "tests/inference/test_draws.py"
VERB = "tests/inference/test_posterior.py"
ORDERED = "tests/inference/network/test_ordered.py"
HOLES = "tests/inference/network/test_holes.py"
PUBLIC = "tests/inference/network/test_public.py"
RECORDS, TABLES = "tests/inference/network/test_by_records.py", "tests/inference/network/test_by_tables.py"
NORMAL, CHAIN = "tests/inference/network/test_by_normal.py", "tests/inference/counts/test_table_chain.py"
AUDIT, SCATTER = "tests/test_audit.py", "tests/inference/network/test_scatter.py"

CONSISTENCY = "tests/inference/network/test_consistency.py"

PATHS = "tests/models/test_markov_paths.py"

MUTANTS = (
    Mutant(
        "a path whose start may be anything",
        "models/hmm.py",
        "        score = np.log(np.stack([(states[:, :, 0] == k).mean(axis=0) for k in range(size)], axis=1))\n",
        "        score = np.zeros((sequences, size))\n",
        (f"{PATHS}::test_no_path_is_more_likely_and_none_is_impossible",),
    ),
    Mutant(
        "a path of the best state of each step",
        "models/hmm.py",
        "        paths[:, t - 1] = before[t, np.arange(sequences), paths[:, t]]\n",
        "        paths[:, t - 1] = np.stack([(states[:, :, t - 1] == k).sum(0) for k in range(size)]).argmax(0)\n",
        (f"{PATHS}::test_the_best_states_of_cells_may_be_no_path",),
    ),
    Mutant(
        "a path along pairs of states read backwards",
        "models/hmm.py",
        "states[:, :, t - 1], states[:, :, t]), 1.0)",
        "states[:, :, t], states[:, :, t - 1]), 1.0)",
        (f"{PATHS}::test_no_path_is_more_likely_and_none_is_impossible",),
    ),
    Mutant(
        "a path of pairs that are not of their state",
        "models/hmm.py",
        "pairs / np.maximum(pairs.sum(axis=2, keepdims=True), 1.0)",
        "pairs / np.maximum(pairs.sum(axis=(1, 2), keepdims=True), 1.0)",
        (f"{PATHS}::test_no_path_is_more_likely_and_none_is_impossible",),
    ),
    Mutant(
        "a block of residuals read in another table's order",
        "inference/network/consistency.py",
        "return numbers.transpose([order.index(axis) for axis in range(len(order))])",
        "return numbers.reshape(sizes)",
        (f"{CONSISTENCY}::test_stacks_of_tables_give_what_tables_one_by_one_give",),
    ),
    Mutant(
        "a table with a negative cell that is not moved to the simplex",
        "inference/network/consistency.py",
        "wrong = ((tables < 0) | (~possible & (tables != 0))).any(axis=tuple(range(1, tables.ndim)))",
        "wrong = ((tables < 0) | (~possible & (tables != 0))).all(axis=tuple(range(1, tables.ndim)))",
        (f"{CONSISTENCY}::test_stacks_of_tables_give_what_tables_one_by_one_give",),
    ),
    Mutant(
        "the likelihood of n with a family's own tables in it",
        "inference/network/by_tables.py",
        "far[near] = False",
        "far[near] = self._given.n is None",
        (f"{TABLES}::test_every_family_follows_its_enumerated_posterior[unknown n, Laplace]",),
    ),
    Mutant(
        "rows that leave a margin's noise as it was where they come from",
        "inference/counts/_kernels.py",
        "log += noise_log(problem, law, rest[source] + steps) - noise_log(problem, law, rest[source])",
        "log += 0.0 * law",
        (f"{CHAIN}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "a learned concentration that never moves",
        "inference/counts/_kernels.py",
        "if problem.grid.size > 1:",
        "if problem.grid.size > 100:",
        (f"{TABLES}::test_a_learned_concentration_is_drawn_too",),
    ),
    Mutant(
        "a concentration that takes counts along whatever the noise says",
        "inference/counts/_kernels.py",
        "if left == 0 and (log >= 0 or rng.random() < math.exp(log)):",
        "if left == 0:",
        (f"{CHAIN}::test_many_moves_of_a_factor_keep_the_enumerated_posterior[rows and columns]",),
    ),
    Mutant(
        "rows that join any cell",
        "inference/counts/_kernels.py",
        "rng.binomial(left, min(1.0, more / room))",
        "rng.binomial(left, 1.0 / (counts.size - cell))",
        (f"{CHAIN}::test_many_moves_of_a_factor_keep_the_enumerated_posterior[rows and columns]",),
    ),
    Mutant(
        "a concentration of a table that moves given counts alone",
        "inference/counts/_kernels.py",
        "if sweep % EVERY == 0:",
        "if sweep < 0:",
        (f"{CHAIN}::test_a_factor_that_noise_hides_mixes",),
    ),
    Mutant(
        "a family that is read from the table least sure of it",
        "inference/network/by_tables.py",
        "spread.get((name, table), 0.0)",
        "-spread.get((name, table), 0.0)",
        (f"{TABLES}::test_a_family_is_read_from_the_table_that_is_surest_of_it",),
    ),
    Mutant(
        "a Laplace likelihood of twice the scale",
        "privacy/measurements.py",
        "return -linear * abs(z) - square * z**2",
        "return -linear * abs(z) / 2 - square * z**2",
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
        "records under the uniform prior where none is given",
        "inference/network/posterior.py",
        "HierarchicalPrior() if prior is None else hierarchy",
        "hierarchy",
        ("tests/inference/network/test_prior.py::test_records_learn_the_prior_unless_it_is_given",),
    ),
    Mutant(
        "a posterior that forgets its release",
        "inference/posterior.py",
        "return replace(made, provenance=provenance)",
        "return made",
        (f"{DRAWS}::test_a_release_is_remembered_and_a_value_has_none",),
    ),
    Mutant(
        "a centre drawn from records instead of tables of a restaurant",
        "inference/network/_kernels.py",
        "opened += rng.random() * (mine + i) < mine",
        "opened += 1",
        (f"{RECORDS}::test_a_centre_and_a_concentration_given_counts",),
    ),
    Mutant(
        "a concentration weighed without the totals of rows",
        "inference/network/_kernels.py",
        "weight[g] += math.lgamma(grid[g]) - math.lgamma(grid[g] + total)",
        "weight[g] += 0.0",
        (f"{RECORDS}::test_a_centre_and_a_concentration_given_counts",),
        within="row_weighed",
    ),
    Mutant(
        "a hole that is counted as its value",
        "inference/network/holes.py",
        "follows[code, :, 1] = 1.0",
        "follows[own, range(len(own)), 1] = 1.0",
        (f"{HOLES}::test_chains_draw_the_enumerated_posterior",),
    ),
    Mutant(
        "the noise of a cell for that of a sum of cells",
        "inference/network/holes.py",
        "* (table.values.size / counts.size)",
        "* 1",
        (f"{HOLES}::test_noise_is_seldom_taken_for_holes_that_come_together",),
    ),
    Mutant(
        "own levels read from the place of nulls",
        "structure/domain.py",
        "return code, [at for at in range(variable.size) if at != code]",
        "return code, list(range(variable.size - 1))",
        (f"{HOLES}::test_the_part_of_a_dirichlet_law_of_own_levels_is_one",),
    ),
    Mutant(
        "emissions of values among holes too",
        "models/hmm.py",
        "total = seen.sum(axis=-1, keepdims=True)",
        "total = law.sum(axis=-1, keepdims=True)",
        ("tests/models/test_hmm_holes.py::test_with_effects_values_are_of_entries_that_have_one",),
    ),
    Mutant(
        "centres about the common one alone",
        "inference/network/_kernels.py",
        "return row - stride + 1 if 0 < level < bins else 0",
        "return 0",
        (f"{ORDERED}::test_rows_lie_along_the_parent_of_most_bins",),
    ),
    Mutant(
        "rows whose number is missing beside the last bin",
        "inference/network/_kernels.py",
        "if 0 < level < bins else 0",
        "if 0 < level < size else 0",
        (f"{ORDERED}::test_rows_lie_along_the_parent_of_most_bins",),
    ),
    Mutant(
        "a concentration of centres without its totals",
        "inference/network/_kernels.py",
        "rate[kind] -= math.log(max(rng.beta(chosen[kind], held), 1e-300))",
        "rate[kind] += 0.01",
        (f"{ORDERED}::test_tables_given_exact_counts_are_those_of_the_quadrature",),
    ),
    Mutant(
        "a public row chosen whatever the others choose",
        "inference/network/_kernels.py",
        "math.log(held[g]) + math.lgamma(mass)",
        "math.lgamma(mass)",
        (f"{PUBLIC}::test_the_posterior_under_a_public_table_enumerated[gaussian]",),
    ),
    Mutant(
        "rows that follow public ones in what the others have in common",
        "inference/network/by_records.py",
        "return np.where(np.repeat(self.choice > 0, sizes), 0, counts)",
        "return counts",
        (f"{PUBLIC}::test_the_posterior_under_a_public_table_enumerated[gaussian]",),
    ),
    Mutant(
        "a public model of the same release, counted twice",
        "inference/network/public.py",
        "if any(id(event) in known for event in mine.event.priced):",
        "if False:",
        (f"{PUBLIC}::test_the_release_behind_a_model_is_in_the_record_and_counts_once",),
    ),
    Mutant(
        "a learned prior that never reaches the tables",
        "inference/network/_kernels.py",
        "layout.prior[cell] = concentration * centre[(cell - first) % levels]",
        "pass",
        (f"{RECORDS}::test_concentrations_and_centres_enumerated[laplace]",),
    ),
    Mutant(
        "centres that move without their prior",
        "inference/network/scatter.py",
        "        made.log_ratio[:] += row_sums(spread * step - held * np.expm1(step), self._sizes)\n",
        "",
        (f"{SCATTER}::test_moves_keep_the_prior",),
    ),
    Mutant(
        "concentrations that move whatever the noise says",
        "inference/network/by_records.py",
        "                gain += change\n",
        "",
        (f"{SCATTER}::test_many_moves_keep_the_enumerated_posterior",),
    ),
    Mutant(
        "levels that exchange records whatever the noise says",
        "inference/network/_kernels.py",
        "    gain += turned(rng, layout, theta, records, residual, v, high, start[one], mine, 0, room)\n"
        "    gain += turned(rng, layout, theta, records, residual, v, low, start[other], theirs, mine, room)\n",
        "    turned(rng, layout, theta, records, residual, v, high, start[one], mine, 0, room)\n"
        "    turned(rng, layout, theta, records, residual, v, low, start[other], theirs, mine, room)\n",
        (f"{SCATTER}::test_a_row_whose_records_share_one_level_reaches_another",),
    ),
    Mutant(
        "records that leave their level for any other",
        "inference/network/_kernels.py",
        "            left -= max(0.0, proposed[k] - theta[k])",
        "            left -= total / levels",
        (f"{SCATTER}::test_records_follow_their_tables_and_as_few_move_as_need_to",),
    ),
    Mutant(
        "concentrations that move given counts alone",
        "inference/network/by_records.py",
        "self._following is None and i % EVERY == 0:",
        "self._following is None and i < 0:",
        (f"{SCATTER}::test_a_concentration_that_noise_hides_mixes",),
    ),
    Mutant(
        "Gaussian noise on moments read as Laplace noise",
        "inference/expfam/posterior.py",
        "if value.law.gaussian and not counted:",
        "if False:",
        ("tests/inference/expfam/test_posterior.py::test_settings_that_do_not_fit_are_refused",),
    ),
    Mutant(
        "families within their noise drawn as normal",
        "inference/network/by_normal.py",
        "return least >= CLEAR * np.sqrt(variance) and variance <= PART * least",
        "return True",
        (f"{NORMAL}::test_one_coin_whose_noise_exceeds_its_rows_is_enumerated",),
    ),
    Mutant(
        "an unknown total without its prior",
        "inference/counts/_kernels.py",
        "return math.lgamma(total + 1.0) - math.lgamma(total + problem.prior.sum())",
        "return 0.0",
        (f"{CHAIN}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "a verdict that one of two tests may fail",
        "audit/calibrating.py",
        "return self.share_beyond <= share and self.worst <= worst",
        "return self.share_beyond <= share or self.worst <= worst",
        (f"{AUDIT}::test_one_bad_parameter_of_many_is_caught_by_the_largest_distance",),
    ),
    Mutant(
        "limits as if parameters were independent",
        "audit/calibrating.py",
        "chosen = np.stack([mine[rng.integers(len(mine))] for mine in places])",
        "chosen = np.stack([rng.permuted(mine, axis=0)[0] for mine in places])",
        (f"{AUDIT}::test_limits_follow_the_dependence",),
    ),
)
