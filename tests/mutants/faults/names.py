"""Errors of the wrong class."""

from tests.mutants.planting import Mutant

NAMES, FILES = "tests/test_names.py", "tests/files/test_documents.py"

MUTANTS = (
    Mutant(
        "an error outside the one root",
        "privacy/errors.py",
        "class InferenceError(DPGraphError):",
        "class InferenceError(ValueError):",
        (f"{NAMES}::test_every_error_has_one_root",),
    ),
    Mutant(
        "a posterior that raises what releases raise",
        "inference/posterior.py",
        'raise InferenceError("missing_because',
        'raise ReleaseError("missing_because',
        (f"{NAMES}::test_a_layer_raises_its_own_errors",),
    ),
    Mutant(
        "a damaged file that is refused as a release",
        "files/networks.py",
        'raise FileError(f"{source}: {shortened(str(error))}") from None',
        'raise type(error)(f"{source}: {shortened(str(error))}") from None',
        (f"{FILES}::test_a_release_whose_parts_do_not_fit_is_refused",),
    ),
    Mutant(
        "a class that is returned and has no public name",
        "results.py",
        "    from dpgraph.analysis.cost import PrivacyReport as PrivacyReport\n",
        "",
        (f"{NAMES}::test_what_is_returned_has_a_public_name",),
    ),
)
