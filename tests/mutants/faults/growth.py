"""Faults in what lets large graphs and many rows be drawn in little time and memory."""

from tests.mutants.planting import Mutant

BLOCKS = "tests/inference/counts/test_block_proposals.py"

MUTANTS = (
    Mutant(
        "blocks proposed without the ways to fill them",
        "inference/counts/block_proposals.py",
        "sums[-1] * ways[np.minimum(left, ways.size - 1)]",
        "sums[-1]",
        (f"{BLOCKS}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "proposals by blocks that are all kept",
        "inference/counts/block_proposals.py",
        "np.log1p(-rng.random(proposals)) <= log",
        "np.log1p(-rng.random(proposals)) <= 0",
        (f"{BLOCKS}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "a bound at the far end of a block",
        "inference/counts/block_proposals.py",
        "below, above = starts - y[:, None], y[:, None] - (starts + block - 1)",
        "below, above = starts + block - 1 - y[:, None], y[:, None] - starts",
        (f"{BLOCKS}::test_draws_follow_the_enumerated_posterior",),
    ),
)
