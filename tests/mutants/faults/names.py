"""Errors of the wrong class, and files of former versions that are not read."""

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
        "raise InferenceError(",
        "raise ReleaseError(",
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
        "models whose sequence is called a chain are not read",
        "files/markov.py",
        'for key in ("sequence", "chain") if key in plain]',
        'for key in ("sequence",) if key in plain]',
        ("tests/files/test_markov.py::test_files_that_call_a_sequence_a_chain_are_read",),
    ),
    Mutant(
        "a class that is returned and has no public name",
        "results.py",
        '    "PrivacyReport",\n',
        "",
        (f"{NAMES}::test_what_is_returned_has_a_public_name",),
    ),
)
