"""Faults in what lets families and mechanisms from outside the package in."""

from tests.mutants.planting import Mutant

EXTENSION = "tests/test_extension.py"
LOSS = f"{EXTENSION}::test_the_largest_loss_over_all_neighbours_is_the_claim"

MUTANTS = (
    Mutant(
        "the record of a registered mechanism believed",
        "mechanisms/reproduction.py",
        "    if planned != event:\n",
        "    if False:\n",
        (f"{EXTENSION}::test_an_edited_file_is_refused",),
    ),
    Mutant(
        "a mechanism from outside that takes the name of one inside",
        "mechanisms/reproduction.py",
        "    if _REPLANS.setdefault(name, replan) is not replan:\n",
        "    if False:\n",
        (f"{EXTENSION}::test_a_name_is_registered_once",),
    ),
    Mutant(
        "a kind of file taken by a second codec",
        "files/codecs.py",
        'if _KINDS.get((codec.role == "released", codec.kind), codec) != codec:',
        "if False:",
        (f"{EXTENSION}::test_a_name_is_registered_once",),
    ),
    Mutant(
        "the blocks of a description with the noise of the furthest alone",
        "mechanisms/additive/plans.py",
        "moved = sum(block.movement.l1 for block in blocks)",
        "moved = max(block.movement.l1 for block in blocks)",
        (LOSS,),
    ),
    Mutant(
        "the blocks of a description with the Gaussian noise of the furthest alone",
        "mechanisms/additive/plans.py",
        "moved = sum(block.movement.l2_squared for block in blocks)",
        "moved = max(block.movement.l2_squared for block in blocks)",
        (LOSS,),
    ),
    Mutant(
        "a description charged whose noisy integers mean nothing",
        "mechanisms/additive/plans.py",
        'not callable(getattr(description, "blocks", None)) or not is_readable(description)',
        'not callable(getattr(description, "blocks", None))',
        (f"{EXTENSION}::test_a_description_that_gives_noisy_integers_no_meaning_is_refused_uncharged",),
    ),
    Mutant(
        "a mechanism for networks run on any description",
        "mechanisms/reproduction.py",
        "    if not isinstance(description, Network):\n",
        "    if False:\n",
        (f"{EXTENSION}::test_what_cannot_measure_it_refuses_it_uncharged",),
    ),
    Mutant(
        "a law from outside recorded by its own word",
        "privacy/exact_loss.py",
        "            return law.add_to(values, self)\n",
        "            law = DiscreteLaplace(2 * law.scale)\n",
        (f"{EXTENSION}::test_a_wrong_proof_is_found",),
    ),
    Mutant(
        "a law from outside priced at half of what it says",
        "privacy/records.py",
        "[times * cost for (moved, law), times in alike.items()",
        "[times * cost / (1 if law.__class__.__module__.startswith('dpgraph') else 2)"
        " for (moved, law), times in alike.items()",
        (f"{EXTENSION}::test_a_claim_below_the_cost_of_a_new_law_is_refused",),
    ),
)
