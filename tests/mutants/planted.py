"""Faults that a private library must never have, planted one at a time in a copy of the package.

Each is one textual change. The runner applies it, runs the named tests, and the mutant dies when one of them fails.
``python -m tests.mutants`` prints which test killed which.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """One planted fault: in which file, what becomes what, and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


RELEASE, NOISE, BUDGET = (
    "tests/privacy/test_release.py",
    "tests/privacy/test_noise.py",
    "tests/privacy/test_accounting.py",
)
SAMPLE, MAP, QUANTILE = (
    "tests/mechanisms/test_posterior_sample.py",
    "tests/mechanisms/test_map_estimate.py",
    "tests/mechanisms/test_quantile.py",
)
REGRESSION_SAMPLE, BALL = "tests/mechanisms/test_regression_sample.py", "tests/mechanisms/test_truncated_gaussian.py"
TRUNCATED, SELECTION = "tests/mechanisms/test_truncated.py", "tests/privacy/test_selection.py"
LAPLACE, SENSITIVITY = "tests/mechanisms/test_laplace.py", "tests/mechanisms/test_sensitivity.py"
FOURIER, NONNEGATIVITY = "tests/mechanisms/test_fourier.py", "tests/mechanisms/test_nonnegativity.py"
RESIDUAL = "tests/mechanisms/test_residual_gaussian.py"
GAUSSIAN, COMPOSITION, PARALLEL = (
    "tests/mechanisms/test_gaussian.py",
    "tests/privacy/test_composition.py",
    "tests/privacy/test_parallel.py",
)
MOMENTS, MOMENT_NOISE, SUMS = (
    "tests/structure/test_moments.py",
    "tests/mechanisms/test_moment_noise.py",
    "tests/statistics/test_moments.py",
)
REGRESSION, DESIGN, REGRESSION_NOISE = (
    "tests/statistics/test_regression.py",
    "tests/structure/test_design.py",
    "tests/mechanisms/test_regression_noise.py",
)
CONTINGENCY, LEVELS = "tests/statistics/test_contingency.py", "tests/statistics/test_levels.py"
OUT_OF_CORE, DASK = "tests/statistics/test_out_of_core.py", "tests/statistics/test_dask.py"
MOMENT_CHAIN = "tests/inference/test_moment_chain.py"
COUNT_DRAWS = "tests/inference/test_dirichlet_multinomial.py"

AUGMENTATION = "tests/inference/test_augmentation.py"
ENUMERATED = f"{AUGMENTATION}::test_all_record_multisets_enumerated"
PERSONS, MARKOV = "tests/statistics/test_persons.py", "tests/inference/markov/test_latent.py"
MARKOV_MODEL = "tests/models/test_hmm.py"
LABEL_SCORES = "tests/models/test_label_scores.py"
HMM = "tests/files/test_markov.py::test_refusals_write_nothing"

GIBBS, GIBBS_COSTS = "tests/mechanisms/test_gibbs_sample.py", "tests/mechanisms/test_private_gibbs.py"

MUTANTS = (
    Mutant(
        "an update of Gibbs sampling at Delta, not 2 Delta",
        "mechanisms/private_gibbs.py",
        'epsilon 0.5 (pure)\n    """\n    return PrivacyCost(2 * _delta(sensitivity))\n\n\ndef gibbs_sweep_cost',
        'epsilon 0.5 (pure)\n    """\n    return PrivacyCost(_delta(sensitivity))\n\n\ndef gibbs_sweep_cost',
        (f"{GIBBS_COSTS}::test_a_gibbs_update_and_an_annealed_one_cost_what_they_say",),
    ),
    Mutant(
        "a random scan with the paper's discount",
        "mechanisms/private_gibbs.py",
        "    return gibbs_update_cost(sensitivity)\n",
        "    return PrivacyCost(Fraction(math.log1p(math.expm1(2 * float(_delta(sensitivity))) / latents)))\n",
        (f"{GIBBS_COSTS}::test_a_random_scan_is_not_amplified_where_the_state_is_public",),
    ),
    Mutant(
        "an annealed update without its power",
        "mechanisms/private_gibbs.py",
        "(2 * _power(beta) * delta for beta in powers)",
        "(2 * delta for beta in powers)",
        (f"{GIBBS_COSTS}::test_a_gibbs_update_and_an_annealed_one_cost_what_they_say",),
    ),
    Mutant(
        "updates of disjoint latent variables at the mean of their prices",
        "mechanisms/private_gibbs.py",
        "return PrivacyCost(2 * max(deltas))",
        "return PrivacyCost(2 * sum(deltas) / len(deltas))",
        (f"{GIBBS_COSTS}::test_a_sweep_over_latent_variables_of_a_row_each_costs_one_update",),
    ),
    Mutant(
        "Barker's step with plain Metropolis's acceptance",
        "mechanisms/annealing.py",
        "float(barker_acceptance(there - here))",
        "float(np.exp(min(0.0, there - here)))",
        ("tests/mechanisms/test_annealing.py::test_a_step_costs_at_most_its_price_and_nearly_all_of_it",),
    ),
    Mutant(
        "a replaced entry of a log that moves one cell only",
        "mechanisms/gibbs_sample.py",
        "moves = unit.rows_per_person * (2 if unit.n_is_public else 1)",
        "moves = unit.rows_per_person",
        (f"{GIBBS}::test_epsilon_is_attained_by_an_entry_that_contradicts_all_others",),
    ),
    Mutant(
        "a sweep charged as one update",
        "mechanisms/gibbs_sample.py",
        "exact(mechanism.delta, zero=True), 2 * mechanism.sweeps",
        "exact(mechanism.delta, zero=True), mechanism.sweeps",
        (f"{GIBBS}::test_epsilon_is_attained_by_an_entry_that_contradicts_all_others",),
    ),
    Mutant(
        "states charged for one field of an entry",
        "mechanisms/cell_scores.py",
        "        apart = apart + (law",
        "        apart = np.maximum(apart, 0) * 0 + (law",
        (f"{GIBBS}::test_the_range_of_an_entry_is_that_of_the_worst_of_all_entries",),
    ),
    Mutant(
        "a sampler that starts from the rows",
        "mechanisms/gibbs_sample.py",
        "np.zeros((self.states, c.shape[2]), np.int64)",
        "np.tile(c.sum(axis=(0, 1)), (self.states, 1))",
        (f"{GIBBS}::test_no_neighbours_move_the_scores_over_a_longer_interval_than_is_paid_for",),
    ),
    Mutant(
        "a path drawn without its past",
        "privacy/selection.py",
        "(start if t == 0 else filtered[t - 1] @ transition) * here",
        "(start if t == 0 else 1.0) * here",
        (f"{SELECTION}::test_paths_have_their_law_and_not_that_of_a_wrong_scale",),
    ),
    Mutant(
        "held-out cells that teach",
        "mechanisms/gibbs_sample.py",
        "counts[_flags(self, statistics.network, shape)] = 0",
        "counts[_flags(self, statistics.network, shape)] += 0",
        (f"{GIBBS}::test_held_out_cells_teach_nothing",),
    ),
    Mutant(
        "regression weights clipped into the ball, not drawn from the truncated law",
        "mechanisms/truncated_gaussian.py",
        "                return points[int(kept.argmax())]",
        "                return points[0] * min(1.0, self.radius / float(np.linalg.norm(points[0])))",
        (REGRESSION_SAMPLE, BALL),
    ),
    Mutant(
        "regression proposals kept whatever their odds",
        "mechanisms/truncated_gaussian.py",
        "(inside >= 0) & (np.log(uniform[1]) <= log_odds - self.tilt * inside)",
        "inside >= 0",
        (BALL,),
    ),
    Mutant(
        "a regression draw under replace at the price of add/remove",
        "mechanisms/regression_sample.py",
        "unit.rows_per_person * (2 if unit.n_is_public else 1)",
        "unit.rows_per_person",
        (f"{REGRESSION_SAMPLE}::test_epsilon_is_attained_where_the_posterior_is_concentrated",),
    ),
    Mutant(
        "regression draws not charged",
        "mechanisms/regression_sample.py",
        "reach * self.draws / float(epsilon)",
        "reach / float(epsilon)",
        (f"{REGRESSION_SAMPLE}::test_epsilon_is_attained_where_the_posterior_is_concentrated",),
    ),
    Mutant(
        "rows per person ignored in a regression draw",
        "mechanisms/regression_sample.py",
        "residual_range(self.radius) * unit.rows_per_person *",
        "residual_range(self.radius) *",
        (f"{REGRESSION_SAMPLE}::test_epsilon_is_attained_where_the_posterior_is_concentrated",),
    ),
    Mutant(
        "rows of a regression longer than the bound",
        "structure/sampled_weights.py",
        "for column in columns) + len(groups)",
        "for column in columns)",
        ("tests/structure/test_sampled_weights.py",),
    ),
    Mutant(
        "moments priced as if they were tables",
        "mechanisms/laplace.py",
        '"LaplaceMechanism on moments"',
        '"LaplaceMechanism"',
        (f"{COMPOSITION}::test_moments_are_not_priced_as_tables",),
    ),
    Mutant(
        "hidden states that see the log",
        "estimators/hmm.py",
        "        seed = inference_seed(self.random_state)\n",
        "        seed = int(counts.sensitive_margin((self.chain,))[0])\n",
        ("tests/privacy/test_replay_models.py",),
    ),
    Mutant(
        "a margin read as if it had the noise of one cell",
        "inference/per_table.py",
        "CellNoise(table.law, table.values.size // values.size)",
        "CellNoise(table.law, 1)",
        ("tests/inference/test_per_table.py",),
    ),
    Mutant(
        "latent tables without their noise",
        "inference/normal.py",
        "centre + np.sqrt(shaped * variance) * rng.standard_normal((size, *mean.shape))",
        "centre + 0 * np.sqrt(shaped * variance) * rng.standard_normal((size, *mean.shape))",
        ("tests/inference/test_normal.py",),
    ),
    Mutant(
        "parity counts read without their step",
        "inference/evidence.py",
        "return self.law.scale * self.step",
        "return self.law.scale",
        ("tests/inference/test_evidence.py", AUGMENTATION),
    ),
    Mutant(
        "noise-aware inference touching raw rows",
        "inference/noise_aware.py",
        "from dpgraph.inference.dirichlet import check_prior\n",
        "from dpgraph.inference.dirichlet import check_prior\nfrom dpgraph.statistics.counts import Counts\n",
        ("tests/test_architecture.py::test_every_contract_holds",),
    ),
    Mutant(
        "latent records accepted whatever the noise says",
        "inference/_kernels.py",
        "        if accepts(rng, gain):\n            copied(proposal, 0, records, i)",
        "        if True:\n            copied(proposal, 0, records, i)",
        (f"{ENUMERATED}[laplace-0]",),
    ),
    Mutant(
        "a shift of a row without the prior ratio",
        "inference/_kernels.py",
        "    gain += (layout.prior[at + taking] - 1.0) * math.log((gets + amount) / gets)\n",
        "",
        (f"{ENUMERATED}[laplace-2]",),
    ),
    Mutant(
        "step sizes adapted after burn-in",
        "inference/record_chains.py",
        "        if i < plan.burn_in:\n            steps.adapt(shifts, this[RESIZES:])\n        else:",
        "        steps.adapt(shifts, this[RESIZES:])\n        if i >= plan.burn_in:",
        (f"{AUGMENTATION}::test_steps_adapt_in_burn_in_and_nowhere_else",),
    ),
    Mutant(
        "scale/2", "privacy/noise.py", "    return scale\n\n\n@cache", "    return scale / 2\n\n\n@cache", (LAPLACE,)
    ),
    Mutant(
        "scale rounded down",
        "privacy/noise.py",
        "    while Fraction(scale) < target or Fraction(_laplace(scale).map(sensitivity)) > epsilon:\n"
        "        scale = math.nextafter(scale, math.inf)\n",
        "",
        (f"{NOISE}::test_scales_round_up",),
    ),
    Mutant(
        "scale 0 accepted",
        "privacy/noise.py",
        "    if not 0 < scale <= 2 * MAX_SCALE_IN_STEPS:",
        "    if not 0 <= scale <= 2 * MAX_SCALE_IN_STEPS:",
        (f"{NOISE}::test_a_scale_that_is_not_above_zero_and_finite_is_refused",),
    ),
    Mutant(
        "L1 of |V| under replace",
        "mechanisms/sensitivity.py",
        "return 2 * unit.rows_per_person if",
        "return unit.rows_per_person if",
        (SENSITIVITY,),
    ),
    Mutant(
        "rows per person ignored",
        "mechanisms/sensitivity.py",
        "return 2 * unit.rows_per_person if",
        "return 2 if",
        (SENSITIVITY,),
    ),
    Mutant(
        "per-table epsilon without composition",
        "mechanisms/laplace.py",
        "epsilon * part * many[part])",
        "epsilon * many[part])",
        (LAPLACE,),
    ),
    Mutant(
        "noise on the CPT, not the count",
        "mechanisms/laplace.py",
        "{m.table: statistics.sensitive_margin(m.table) for m in planned}",
        "{m.table: 100 * statistics.sensitive_margin(m.table) // max(1, statistics.sensitive_rows) for m in planned}",
        (RELEASE,),
    ),
    Mutant(
        "clip unused",
        "structure/tables.py",
        "np.clip(table, 0, self.n).astype(float)",
        "table.astype(float)",
        ("tests/inference/test_dirichlet.py",),
    ),
    Mutant(
        "fixed seed",
        "privacy/noise.py",
        "return np.array(_laplace(scale)(np.ascontiguousarray(values, dtype=np.int64)), dtype=np.int64)",
        "return values + np.random.default_rng(0).geometric(1 / scale, len(values))",
        (RELEASE,),
    ),
    Mutant(
        "float noise",
        "privacy/noise.py",
        "return values + np.array(_sum_zero(len(values), scale), dtype=np.int64)",
        "return values + np.array(_sum_zero(len(values), scale)) * 1.0",
        (f"{NOISE}::test_noise_is_integer_and_on_the_same_grid_whatever_the_values",),
    ),
    Mutant(
        "one noise draw shared by all statistics",
        "privacy/noise.py",
        "return np.array(_laplace(scale)(np.ascontiguousarray(values, dtype=np.int64)), dtype=np.int64)",
        "return values + _laplace(scale)(np.zeros(1, dtype=np.int64))[0]",
        (f"{NOISE}::test_discrete_laplace_noise_has_its_law_and_not_that_of_a_wrong_scale",),
    ),
    Mutant(
        "sum-zero noise with one-sided parts",
        "privacy/noise.py",
        "if _accept(cells, total, mode, q_exponent):",
        "if True:",
        (f"{NOISE}::test_sum_zero_noise_has_its_law_and_not_that_of_a_wrong_scale",),
    ),
    Mutant(
        "domain from data",
        "statistics/levels.py",
        "found = pc.index_in(array.cast(pa.large_string()) if view else array, value_set=declared)",
        "found = pc.index_in(array, value_set=pc.unique(array.drop_null()))",
        ("tests/statistics/test_engines.py",),
    ),
    Mutant(
        "a bad value forgotten at the next block of rows",
        "statistics/levels.py",
        "worst = min(worst, _settle(code, variable))",
        "worst = _settle(code, variable)",
        (f"{LEVELS}::test_the_last_value_of_many_blocks_counts_as_the_first_does",),
    ),
    Mutant(
        "codes that are no levels taken from a damaged dictionary",
        "statistics/levels.py",
        "if whole.max(initial=0) < max(1, len(table)) else",
        "if True else",
        (f"{LEVELS}::test_a_damaged_dictionary_is_refused_without_its_index",),
    ),
    Mutant(
        "the rows that fill up the last block are counted",
        "statistics/bitslice.py",
        "total[lines[:, _kernels.CELLS]] -= -n % block",
        "total[lines[:, _kernels.CELLS]] -= 0",
        (f"{CONTINGENCY}::test_plain_bit_slicing_counts_what_a_person_would",),
    ),
    Mutant(
        "a margin of a packed table with its axes in the wrong order",
        "statistics/histograms.py",
        ".transpose([kept.index(v) for v in table])",
        "",
        (f"{CONTINGENCY}::test_a_margin_of_a_pack_has_the_order_of_its_own_table",),
    ),
    Mutant(
        "a cache of codes read for another domain",
        "statistics/cache.py",
        "or metadata.get(_DOMAIN) != _digest(domain)",
        "",
        ("tests/statistics/test_cache.py::test_another_domain_is_refused",),
    ),
    Mutant(
        "a table without rows left out",
        "mechanisms/laplace.py",
        "return ((m.table, done[m.table]) for m in planned)",
        "return ((m.table, done[m.table]) for m in planned if exact_tables[m.table].any())",
        (RELEASE,),
    ),
    Mutant(
        "exact n used under add-remove",
        "mechanisms/laplace.py",
        "n = statistics.sensitive_rows if unit.n_is_public else None",
        "n = statistics.sensitive_rows",
        (RELEASE,),
    ),
    Mutant(
        "sum-zero noise under add-remove",
        "mechanisms/laplace.py",
        'return unit.n_is_public and mechanism.tables != "families"',
        'return mechanism.tables != "families"',
        (LAPLACE,),
    ),
    Mutant(
        "spend after drawing",
        "privacy/release.py",
        "    budget.charge(event)\n    value = mechanism.randomise(statistics, budget.unit, source)\n",
        "    value = mechanism.randomise(statistics, budget.unit, source)\n    budget.charge(event)\n",
        (RELEASE,),
    ),
    Mutant(
        "refund on error",
        "privacy/release.py",
        "    value = mechanism.randomise(statistics, budget.unit, source)\n",
        "    try:\n        value = mechanism.randomise(statistics, budget.unit, source)\n"
        "    except BaseException:\n        budget._events = budget._events[:-1]\n        raise\n",
        (RELEASE,),
    ),
    Mutant(
        "float budget",
        "privacy/records.py",
        "            number = Fraction(text)\n",
        "            number = Fraction(float(text))\n",
        (BUDGET,),
    ),
    Mutant(
        "a deep copy of the budget is a fresh one",
        "privacy/accounting.py",
        "    def __deepcopy__(self, memo: object) -> Budget:\n        return self\n",
        "    def __deepcopy__(self, memo: object) -> Budget:\n        return Budget(self.epsilon, unit=self.unit)\n",
        (BUDGET,),
    ),
    Mutant(
        "a forked child spends its copy",
        "privacy/accounting.py",
        "if os.getpid() != self._process:",
        "if False:",
        (BUDGET,),
    ),
    Mutant(
        "per-table rho without composition",
        "mechanisms/gaussian.py",
        "calibrated_gaussian_scale(pair[0], rho * pair[1])",
        "calibrated_gaussian_scale(pair[0], rho)",
        (GAUSSIAN,),
    ),
    Mutant(
        "Gaussian scale/2",
        "privacy/noise.py",
        "    return scale\n\n\ndef _root_up",
        "    return scale / 2\n\n\ndef _root_up",
        (GAUSSIAN,),
    ),
    Mutant(
        "rows per person not squared in L2",
        "mechanisms/sensitivity.py",
        "return 2 * unit.rows_per_person**2 if",
        "return 2 * unit.rows_per_person if",
        (SENSITIVITY,),
    ),
    Mutant(
        "Gaussian tables with exact n under add-remove",
        "mechanisms/gaussian.py",
        "n = statistics.sensitive_rows if unit.n_is_public else None",
        "n = statistics.sensitive_rows",
        (GAUSSIAN,),
    ),
    Mutant(
        "Gaussian scale rounded down",
        "privacy/noise.py",
        "    while Fraction(scale) ** 2 < square or Fraction(_gaussian(scale).map(distance)) > rho:\n"
        "        scale = math.nextafter(scale, math.inf)\n",
        "",
        (f"{NOISE}::test_gaussian_scales_round_up",),
    ),
    Mutant(
        "a row that moves between groups charged once",
        "privacy/composition.py",
        "epsilon = whole.epsilon / (2 * dearest)",
        "epsilon = whole.epsilon / dearest",
        (PARALLEL,),
    ),
    Mutant(
        "groups believed, not checked",
        "privacy/release.py",
        '    _check_group(getattr(statistics, "group", None), budget)\n',
        "",
        (PARALLEL,),
    ),
    Mutant(
        "groups known by the level's name alone",
        "statistics/counts.py",
        "return RowGroup(name, domain.levels(name)[domain.code(name, level)], domain[name])",
        "return RowGroup(name, level, rows_declaration(name, level, domain))\n\n\n"
        "def rows_declaration(name: str, level: Level, domain: Domain) -> object:\n"
        "    from dpgraph.structure.domain import Categories\n\n"
        "    return Categories(domain.levels(name))",
        (PARALLEL,),
    ),
    Mutant(
        "a replaced row priced as one moved cell",
        "privacy/composition.py",
        "met[measured.law, 1] += moved",
        "met[measured.law, 1] += 1",
        (COMPOSITION,),
    ),
    Mutant(
        "one row of a person too many",
        "statistics/persons.py",
        "person) < rows_per_person",
        "person) <= rows_per_person",
        (PERSONS,),
    ),
    Mutant(
        "a cap on the rows of everybody together",
        "statistics/persons.py",
        "- np.repeat(starts, lengths)",
        "- 0 * np.repeat(starts, lengths)",
        (PERSONS,),
    ),
    Mutant(
        "the number of rows public though persons hold several",
        "estimators/hmm.py",
        "self.rows_per_person > 1 and unit.n_is_public",
        "self.rows_per_person > 1 and not unit.n_is_public",
        (HMM,),
    ),
    Mutant(
        "entries join without their prior",
        "inference/markov/latent.py",
        "+ (joins - leaves) * latent.stay",
        "+ 0 * (joins - leaves) * latent.stay",
        (MARKOV,),
    ),
    Mutant(
        "a switched state forgets its neighbours",
        "inference/markov/latent.py",
        "gain = gain.ravel() + log_law(released - new)",
        "gain = 0 * gain.ravel() + log_law(released - new)",
        (MARKOV,),
    ),
    Mutant(
        "a shift without its prior",
        "inference/markov/latent.py",
        "gain += (prior - 1) * (",
        "gain += 0 * (prior - 1) * (",
        (MARKOV,),
    ),
    Mutant(
        "entries leave by level, not evenly",
        "inference/markov/latent.py",
        "rng.hypergeometric(counts[:, v], rest, left)",
        "np.minimum(counts[:, v], left)",
        (MARKOV,),
    ),
    Mutant(
        "a pool forgets which states are matched",
        "inference/markov/loops.py",
        "elif m == 0 and (pair[k] == here or pair[k] < k):",
        "elif m == 0 and pair[k] == here:",
        (MARKOV,),
    ),
    Mutant(
        "rates move without their prior",
        "inference/markov/loops.py",
        "gain += prior[1] * (math.log1p(-rate) - stay)",
        "gain += 0 * prior[1] * (math.log1p(-rate) - stay)",
        (MARKOV,),
    ),
    Mutant(
        "transitions move without their prior",
        "inference/markov/loops.py",
        "found - now + (prior - 1.0) * ratio",
        "found - now + 0.0 * ratio",
        (MARKOV,),
    ),
    Mutant(
        "compiled entries join without their rate",
        "inference/markov/loops.py",
        "(many if joining else -many) * cells.stay[i]",
        "0.0 * cells.stay[i]",
        (MARKOV,),
    ),
    Mutant(
        "unmixed chains go unsaid",
        "models/markov_counts.py",
        'if found["r_hat"] > MOST_R_HAT:',
        'if found["r_hat"] > 1e9:',
        (f"{MARKOV_MODEL}::test_chains_that_have_not_mixed_are_told_of",),
    ),
    Mutant(
        "labels scored without their own probabilities",
        "models/label_scores.py",
        "part[:] = start[:, None]",
        "part[:] = 0.0",
        (f"{LABEL_SCORES}::test_blocks_and_groups_change_nothing",),
    ),
    Mutant(
        "a joint table with its last feature slowest",
        "models/label_scores.py",
        "(joint[:, :, None] + table.T[:, None, :])",
        "(joint[:, None, :] + table.T[:, :, None])",
        (f"{LABEL_SCORES}::test_blocks_and_groups_change_nothing",),
    ),
    Mutant(
        "every block scored by the codes of the first",
        "models/label_scores.py",
        "columns[name][block] for name in sizes",
        "columns[name][: block.stop - block.start] for name in sizes",
        (f"{LABEL_SCORES}::test_blocks_and_groups_change_nothing",),
    ),
    Mutant(
        "positions of a wide feature that wrap",
        "models/label_scores.py",
        "return first.astype(np.intp)",
        "return first.astype(np.uint16).astype(np.intp)",
        (f"{LABEL_SCORES}::test_hundreds_of_one_level_features_and_a_wide_one_are_packed_within_their_types",),
    ),
    Mutant(
        "random_state seeds the noise",
        "estimators/naive_bayes.py",
        "noise=copy.deepcopy(self.noise))",
        "noise=copy.deepcopy(self.noise) or self._seeded())",
        ("tests/estimators/test_naive_bayes.py",),
    ),
    Mutant(
        "prior chosen from data",
        "estimators/naive_bayes.py",
        "        self.posterior_ = self._posterior()\n",
        "        self.prior = self.prior + 1e-6 * len(frame)\n        self.posterior_ = self._posterior()\n",
        ("tests/privacy/test_replay.py",),
    ),
    Mutant(
        "Fourier re-run on negativity for free",
        "mechanisms/fourier.py",
        "        laws = FrozenMap((m.table, m.law) for m in plan.measurements)\n",
        "        laws = FrozenMap((m.table, m.law) for m in plan.measurements)\n"
        "        if any(int(block.min()) < 0 for block in blocks.values()):\n"
        "            blocks = FrozenMap(noisy_blocks(network, plan, true, rows, noise))\n",
        (f"{FOURIER}::test_a_negative_table_is_not_drawn_again",),
    ),
    Mutant(
        "parities of one row for a person of several",
        "mechanisms/fourier.py",
        "parity_sensitivity(network).value * rows",
        "parity_sensitivity(network).value",
        (FOURIER,),
    ),
    Mutant(
        "Walsh sums move by one under replace",
        "mechanisms/fourier.py",
        "moved = 2 * rows if unit.n_is_public else rows",
        "moved = rows",
        (FOURIER,),
    ),
    Mutant(
        "exact n with the coefficients under add-remove",
        "mechanisms/fourier.py",
        "n = rows if unit.n_is_public else None",
        "n = rows",
        (FOURIER,),
    ),
    Mutant(
        "sensitivity of contrasts without their multiplier",
        "mechanisms/sensitivity.py",
        "distances += multiplier * np.abs(",
        "distances += np.abs(",
        (SENSITIVITY,),
    ),
    Mutant(
        "residual blocks that each take the whole rho",
        "mechanisms/blocks.py",
        "rho * Fraction(parts[block], total)",
        "rho",
        (RESIDUAL,),
    ),
    Mutant(
        "squared contrasts of one row for a person of several",
        "mechanisms/sensitivity.py",
        "return int(squares.max()) * unit.rows_per_person**2",
        "return int(squares.max()) * unit.rows_per_person",
        (RESIDUAL,),
    ),
    Mutant(
        "pseudo-records from the data",
        "mechanisms/fourier.py",
        "plan.grid, plan.step, plan.pseudo_records)",
        "plan.grid, plan.step, plan.pseudo_records and plan.pseudo_records - rows)",
        (NONNEGATIVITY,),
    ),
    Mutant(
        "the quantile without its confidence",
        "mechanisms/nonnegativity.py",
        "rank = int(np.count_nonzero(missed > MISS)) + 1",
        "rank = int(probability * count)",
        (NONNEGATIVITY,),
    ),
    Mutant(
        "a posterior draw clipped into the region",
        "mechanisms/posterior_sample.py",
        "return draw_truncated_dirichlet(noise, self.prior + counts / temperature, self.floor, self.draws)",
        "free = draw_truncated_dirichlet(noise, self.prior + counts / temperature, 1e-300, self.draws)\n"
        "            return np.clip(free, self.floor, 1 - self.floor)",
        (f"{SAMPLE}::test_continuous_draws_have_the_truncated_law_and_no_atom_at_the_floor",),
    ),
    Mutant(
        "a truncated beta draw clipped into the region",
        "mechanisms/truncated.py",
        "return TruncatedBeta(shapes[i], later[i], floor / left, (levels - 1 - i) * floor / left)",
        "return TruncatedBeta(shapes[i], later[i], 1e-300, 1e-300)",
        (TRUNCATED,),
    ),
    Mutant(
        "a proposal kept whatever its mass",
        "mechanisms/truncated.py",
        "if i > 0 and math.log(_uniform(noise)) > law.log_mass - top.log_mass:",
        "if False:",
        (TRUNCATED,),
    ),
    Mutant(
        "permute-and-flip used as a posterior sampler",
        "mechanisms/lattice.py",
        'pick = noise.choose if law == "softmax" else noise.flip',
        "pick = noise.flip",
        (f"{SAMPLE}::test_draws_have_the_recorded_law",),
    ),
    Mutant(
        "OpenDP asked for permute-and-flip where softmax is meant",
        "privacy/noise.py",
        'measure = zero_concentrated_divergence() if law == "softmax" else max_divergence()',
        "measure = max_divergence()",
        (SELECTION,),
    ),
    Mutant(
        "normalised score with the plain score's sensitivity",
        "mechanisms/lattice.py",
        "totals = sum(scores[level, points[:, level]] for level in range(candidates.levels))",
        "plain = sum(scores[level, points[:, level]] for level in range(candidates.levels))\n"
        "    totals = (plain - plain.max()) * UNIT * 16 // max(1, int(plain.max() - plain.min()))",
        (MAP,),
    ),
    Mutant(
        "the prior's sharpness follows the data",
        "mechanisms/posterior_sample.py",
        "(self.prior - 1) * np.log(candidates.probabilities) * scale",
        "(self.prior - 1 + counts.sum()) * np.log(candidates.probabilities) * scale",
        (SAMPLE,),
    ),
    Mutant(
        "a draw under replace at the price of add/remove",
        "mechanisms/lattice.py",
        "return one * unit.rows_per_person * (2 if unit.n_is_public else 1)",
        "return one * unit.rows_per_person",
        (SAMPLE,),
    ),
    Mutant(
        "rows per person ignored by a draw",
        "mechanisms/lattice.py",
        "return one * unit.rows_per_person * (2 if unit.n_is_public else 1)",
        "return one * (2 if unit.n_is_public else 1)",
        (SAMPLE,),
    ),
    Mutant(
        "k draws at the price of one",
        "mechanisms/posterior_sample.py",
        "temperature = selection_scale(reach, epsilon / mechanism.draws) / UNIT",
        "temperature = selection_scale(reach, epsilon) / UNIT",
        (SAMPLE,),
    ),
    Mutant(
        "k continuous draws at the price of one",
        "mechanisms/posterior_sample.py",
        "temperature = max(reach * mechanism.draws / float(epsilon), 2.0**-40)",
        "temperature = max(reach / float(epsilon), 2.0**-40)",
        (SAMPLE,),
    ),
    Mutant(
        "quantile exponent without /2",
        "mechanisms/quantile.py",
        "return 2 * furthest * unit.rows_per_person",
        "return furthest * unit.rows_per_person",
        (QUANTILE,),
    ),
    Mutant(
        "quantiles that each take the whole epsilon",
        "mechanisms/quantile.py",
        "share = exact(self.epsilon) / len(self.probabilities)",
        "share = exact(self.epsilon)",
        (QUANTILE,),
    ),
    Mutant(
        "floats decide near a boundary",
        "privacy/selection.py",
        "return value if after_low and before_high and error < np.inf else None",
        "return value",
        (SELECTION,),
    ),
    Mutant(
        "one noise draw shared by all sums",
        "mechanisms/moment_noise.py",
        "noise.add(exact_sums, plan.law), plan.law",
        "exact_sums + (noise.add(exact_sums[:1], plan.law) - exact_sums[0]), plan.law",
        (MOMENT_NOISE,),
    ),
    Mutant(
        "sensitivity without max |t|",
        "structure/moments.py",
        "rows = np.vstack([rows, np.zeros((1, rows.shape[1]), np.int64)])",
        "pass",
        (MOMENTS,),
    ),
    Mutant(
        "Dirichlet sensitivity 1 under replace",
        "structure/moments.py",
        "return (2 if unit.n_is_public else 1) * unit.rows_per_person",
        "return unit.rows_per_person",
        (MOMENTS,),
    ),
    Mutant(
        "rows per person ignored for moments",
        "structure/moments.py",
        "return unit.rows_per_person * max(int(one.max() - one.min()) for one in along)",
        "return max(int(one.max() - one.min()) for one in along)",
        (MOMENTS,),
    ),
    Mutant(
        "a record outside the bounds is summed at the bound it passed",
        "statistics/moments.py",
        "records[(records >= low) & (records <= high)]",
        "np.clip(records, low, high)",
        (SUMS,),
    ),
    Mutant(
        "exact n shown under add-remove",
        "mechanisms/moment_noise.py",
        "n = statistics.sensitive_rows if unit.n_is_public else None",
        "n = statistics.sensitive_rows",
        (MOMENT_NOISE,),
    ),
    Mutant(
        "clip, then use the unclipped",
        "structure/design.py",
        "np.clip(steps, -RESOLUTION, RESOLUTION, out=steps)",
        "np.clip(steps, -RESOLUTION, RESOLUTION)",
        (REGRESSION,),
    ),
    Mutant(
        "a lower bound of 0 gives no noise",
        "mechanisms/moment_noise.py",
        "return NoisyMoments(statistics.description, noise.add(exact_sums, plan.law), plan.law, n)",
        "noisy = noise.add(exact_sums, plan.law)\n"
        "    declared = getattr(statistics.description, 'features', {})\n"
        "    at_zero = {name for name, one in declared.items() if getattr(one, 'low', None) == 0}\n"
        "    for i, name in enumerate(statistics.description.names):\n"
        "        if set(name.split('*')) <= at_zero:\n"
        "            noisy[i] = exact_sums[i]\n"
        "    return NoisyMoments(statistics.description, noisy, plan.law, n)",
        (REGRESSION_NOISE,),
    ),
    Mutant(
        "one noise draw for all moments",
        "mechanisms/moment_noise.py",
        "return NoisyMoments(statistics.description, noise.add(exact_sums, plan.law), plan.law, n)",
        "drawn = noise.add(exact_sums[:1] * 0, plan.law)\n"
        "    return NoisyMoments(statistics.description, exact_sums + drawn, plan.law, n)",
        (REGRESSION_NOISE,),
    ),
    Mutant(
        "half the movement of a replaced row",
        "structure/movement.py",
        "return best + 2 * groups + 2 * groups * signs + groups * (groups - 1)",
        "return (best + 2 * groups + 2 * groups * signs + groups * (groups - 1)) / 2",
        (DESIGN,),
    ),
    Mutant(
        "the squared movement of a row of d columns is d",
        "structure/movement.py",
        "return max(1, 4 * flipped * (size - flipped))",
        "return max(1, size)",
        (DESIGN,),
    ),
    Mutant(
        "rows per person not squared for Gaussian noise",
        "structure/design.py",
        "return unit.rows_per_person**2 * one * RESOLUTION**4",
        "return unit.rows_per_person * one * RESOLUTION**4",
        (DESIGN, REGRESSION_NOISE),
    ),
    Mutant(
        "rows per person ignored for a regression",
        "structure/design.py",
        "return unit.rows_per_person * math.floor(self._movement(unit) * RESOLUTION**2)",
        "return math.floor(self._movement(unit) * RESOLUTION**2)",
        (DESIGN,),
    ),
    Mutant(
        "the number of rows left out of an added row's movement",
        "structure/design.py",
        "[1] * (features * (features - 1) // 2 + squares + 1)",
        "[1] * (features * (features - 1) // 2 + squares)",
        (DESIGN,),
    ),
    Mutant(
        "the intercept's square released as if it were unknown",
        "structure/design.py",
        'return one.kind in ("number", "target") or',
        'return one.kind in ("number", "target", "intercept") or',
        (DESIGN,),
    ),
    Mutant(
        "a sign's square read as the intercept's product",
        "structure/design.py",
        "                made[i, i] = n\n",
        "                made[i, i] = n if i == 0 else made[0, i]\n",
        (DESIGN,),
    ),
    Mutant(
        "the weight of the target's sum left out of its movement",
        "structure/design.py",
        "largest_replacement(intercept, numbers - 1, signs, groups, self.copies, self._extra)",
        "largest_replacement(intercept, numbers - 1, signs, groups, self.copies)",
        (DESIGN,),
    ),
    Mutant(
        "a private number of rows decides how finely a sum is released",
        "mechanisms/regression_allocation.py",
        "moments.sensitive_rows if unit.n_is_public else None",
        "moments.sensitive_rows",
        ("tests/mechanisms/test_regression_allocation.py",),
    ),
    Mutant(
        "raw sums read as if they were weighted",
        "mechanisms/regression_sample.py",
        "sums = statistics.sensitive_sums / RESOLUTION**2",
        "sums = statistics.sensitive_sums * [*design.steps]",
        (REGRESSION_SAMPLE,),
    ),
    Mutant(
        "a target that counts twice moved as if it counted once",
        "structure/design.py",
        "largest_replacement(intercept, numbers - 1, signs, groups, self.copies, self._extra)",
        "largest_replacement(intercept, numbers, signs, groups)",
        (DESIGN,),
    ),
    Mutant(
        "the square of a doubled product taken for double",
        "structure/design.py",
        "numbers - 1 + self.copies**2",
        "numbers - 1 + self.copies",
        (DESIGN,),
    ),
    Mutant(
        "rows dropped where their number is public",
        "structure/design.py",
        'if self.on_missing == "drop" and unit.n_is_public:',
        "if False:",
        (DESIGN,),
    ),
    Mutant(
        "dropped rows counted all the same",
        "statistics/regression.py",
        "many, size = int(kept.sum()), len(design.columns)",
        "many, size = len(kept), len(design.columns)",
        (REGRESSION,),
    ),
    Mutant(
        "a null to predict from not what was declared",
        "statistics/regression.py",
        "return values if declared.missing is None else np.where(np.isnan(values), declared.missing, values)",
        "return values",
        (f"{REGRESSION}::test_rows_to_predict_are_read_as_rows_to_fit_are",),
    ),
    Mutant(
        "part of a file left behind by an interruption",
        "files/whole.py",
        "    except BaseException:\n        os.unlink(name)\n        raise",
        "    except BaseException:\n        raise",
        ("tests/files/test_whole.py",),
    ),
    Mutant(
        "an old file overwritten before the new one is whole",
        "files/whole.py",
        "            yield file\n        os.chmod",
        "            os.replace(name, target)\n            yield file\n        os.chmod",
        ("tests/files/test_whole.py",),
    ),
    Mutant(
        "a run without a place to write to",
        "cli/options.py",
        'if out is None and not ctx.params["dry_run"]:',
        "if False:",
        ("tests/cli/test_dry_run.py",),
    ),
    Mutant(
        "a declared level for nulls that is 0 taken for none",
        "statistics/regression.py",
        "declared.missing if isinstance(declared, Bins) else declared.missing is not None",
        "declared.missing",
        (REGRESSION,),
    ),
    Mutant(
        "Gaussian moments priced as if they were tables",
        "mechanisms/gaussian.py",
        '"GaussianMechanism on moments"',
        '"GaussianMechanism"',
        (REGRESSION_NOISE,),
    ),
    Mutant(
        "regions treated as independent",
        "inference/moment_chain.py",
        "cross = -centre.first[:, :, None] * outside.first[:, None, :]",
        "cross = 0.0 * centre.first[:, :, None] * outside.first[:, None, :]",
        (f"{MOMENT_CHAIN}::test_the_regions_together_vary_as_all_records_do",),
    ),
    Mutant(
        "noise variances of twice the scale",
        "inference/noisy_sums.py",
        "return scale**2 / inverse",
        "return 4 * scale**2 / inverse",
        (f"{MOMENT_CHAIN}::test_noise_variances_given_residuals",),
    ),
    Mutant(
        "counts drawn without the noise's likelihood of the first cell",
        "inference/integer_sums.py",
        "rng.random(waiting.size) * most < rest.at(totals[waiting] - tries)",
        "rest.at(totals[waiting] - tries) > 0",
        (COUNT_DRAWS,),
    ),
    Mutant(
        "a regression's noise scale forgotten",
        "inference/regression_start.py",
        "noise = Noise(noisy.values / size, noisy.scales / size, not",
        "noise = Noise(noisy.values / size, 0.1 * noisy.scales / size, not",
        ("tests/inference/test_regression_chain.py::test_intervals_are_calibrated_and_plug_in_ones_are_not",),
    ),
    Mutant(
        "the least-squares weights' Jacobian left out",
        "inference/regression_density.py",
        "value = (a + 0.5) * np.linalg.slogdet(gram)[1]",
        "value = (a - 0.5) * np.linalg.slogdet(gram)[1]",
        ("tests/inference/test_regression_density.py",),
    ),
    Mutant(
        "plug-in draws passed off as noise-aware",
        "inference/regression.py",
        'if method == "plug-in":',
        "if method:",
        ("tests/inference/test_regression.py::test_it_is_reached_by_its_release_and_repeats",),
    ),
    Mutant(
        "predictive intervals without the noise variance",
        "models/regression.py",
        "return self.draws.weights[at], np.sqrt(self.draws.variance[at])",
        "return self.draws.weights[at], 1e-6 * np.sqrt(self.draws.variance[at])",
        ("tests/models/test_regression.py",),
    ),
    Mutant(
        "a regression's prior chosen from the data",
        "estimators/regression.py",
        "        prior.centre(design)\n",
        "        prior = RegressionPrior(typical=float(np.median(target[1])))\n",
        ("tests/estimators/test_regression.py::test_a_fit_sees_the_release_alone",),
    ),
    Mutant(
        "a bad prior found after the charge",
        "estimators/regression.py",
        "        prior.centre(design)\n",
        "",
        ("tests/estimators/test_regression.py::test_a_bad_setting_is_refused_before_anything_is_charged",),
    ),
    Mutant(
        "the last row groups of a file left out",
        "statistics/parquet.py",
        "for group in groups]",
        "for group in groups[:-1]]",
        (f"{OUT_OF_CORE}::test_any_cut_of_a_file_gives_the_same_integers",),
    ),
    Mutant(
        "a worker's own words passed on",
        "statistics/errands.py",
        'f"a worker could not count its rows ({type(error).__name__})"',
        'f"a worker could not count its rows ({error})"',
        (f"{DASK}::test_a_worker_passes_on_no_word_of_what_it_meets",),
    ),
    Mutant(
        "an engine's own words passed on",
        "statistics/dask.py",
        "failure = type(error).__name__",
        "failure = str(error)",
        (f"{DASK}::test_what_dask_says_of_a_row_that_it_cannot_make_is_not_passed_on",),
    ),
    Mutant(
        "a refusal of one partition forgotten",
        "statistics/errands.py",
        "    if refusals:\n",
        "    if len(refusals) == len(answers):\n",
        (f"{DASK}::test_answers_add_beyond_32_bits_and_the_first_refusal_wins",),
    ),
    Mutant(
        "an interrupted count that ends as if it were whole",
        "statistics/engines.py",
        "        finally:\n            stopped.set()",
        "        except KeyboardInterrupt:\n            pass\n        finally:\n            stopped.set()",
        (f"{OUT_OF_CORE}::test_an_interruption_stops_the_count_and_charges_nothing",),
    ),
)


@dataclass(frozen=True)
class Verdict:
    """Whether the tests noticed, and the first that did."""

    killed: bool
    by: str
    output: str


def plant(folder: Path, mutant: Mutant | None) -> None:
    """Copies the package and its tests, and plants a fault in the copy."""
    ignore = shutil.ignore_patterns("__pycache__", "mutants")
    for name in ("dpgraph", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)
    if mutant is None:
        return
    path = folder / "dpgraph" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise AssertionError(f"mutant {mutant.name!r}: its text is there {text.count(mutant.old)} times, not once")
    planted = text.replace(mutant.old, mutant.new)
    if "self._seeded()" in mutant.new:
        planted += (
            "\n\ndef _seeded(self: Any) -> Any:\n    from dpgraph.privacy.seeded_noise import SeededNoise\n\n"
            "    return None if self.random_state is None else SeededNoise(self.random_state)\n\n\n"
            "PrivateNaiveBayes._seeded = _seeded\n"
        )
    path.write_text(planted)


def run(folder: Path, tests: tuple[str, ...]) -> Verdict:
    """Runs tests in the copy, up to the first failure; properties try the same examples in every run.

    A fault that keeps the tests from being collected at all is no fault of the kind planted here, and is not dead.
    """
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--hypothesis-profile=repeated",
            *tests,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"^(?:FAILED|ERROR) (\S+::\S+)", done.stdout, re.MULTILINE)
    return Verdict(done.returncode == 1 and found is not None, found.group(1) if found else "", done.stdout[-2000:])
