"""Files that are read as something else than they say, and readers without their limits."""

from tests.mutants.planting import Mutant

BIF, LIMITS = "tests/files/test_bif.py", "tests/files/test_limits.py"
PACKED, MOVED = "tests/files/test_packed.py", "tests/mechanisms/additive/test_sensitivity.py"
REFUSED = f"{BIF}::test_what_does_not_fit_is_refused_with_its_line"

MUTANTS = (
    Mutant(
        "intervals of a classifier left out of its file",
        "estimators/naive_bayes.py",
        "NaiveBayes(target, new.posterior_.mean(), new.posterior_)",
        "NaiveBayes(target, new.posterior_.mean())",
        ("tests/models/test_naive_bayes.py::test_a_loaded_model_has_the_intervals_of_its_estimator[json-plug-in]",),
    ),
    Mutant(
        "a posterior lost in BIF without a word",
        "files/documents.py",
        "is_lost = isinstance(posterior, DirichletPosterior | PosteriorDraws)",
        "is_lost = False",
        ("tests/models/test_naive_bayes.py::test_a_file_says_that_it_keeps_no_intervals_and_the_refusal_what_to_do",),
    ),
    Mutant(
        "probabilities of a file that do not sum to 1 made to",
        "files/bif.py",
        "TOLERANCE = 1e-6",
        "TOLERANCE = 0.5",
        (f"{REFUSED}[a sum off by 2e-6]",),
    ),
    Mutant(
        "a second table of a variable put in place of the first",
        "files/bif.py",
        "if family[0] in self._with_table:",
        "if False:",
        (f"{REFUSED}[a second table]",),
    ),
    Mutant(
        "what follows the last block of a BIF file passed over",
        "files/bif.py",
        'raise FileError(f"{expected}, and there is {excerpt(_name(seen))}")',
        "return",
        (f"{REFUSED}[junk at the end]", f"{REFUSED}[junk]"),
    ),
    Mutant(
        "rows of a BIF table by the last parent slowest",
        "files/bif.py",
        "zip(names, self.positions, strict=True)",
        "zip(names[::-1], self.positions[::-1], strict=True)",
        (f"{BIF}::test_a_bundled_network_is_what_pgmpy_reads[sachs]",),
    ),
    Mutant(
        "memory taken for a table before its rows are there",
        "files/bif.py",
        "self.given, self.places = bytearray(self.columns), array",
        "np.ones((self.size, self.columns))\n        self.given, self.places = bytearray(self.columns), array",
        (f"{BIF}::test_memory_is_taken_for_what_is_there_and_not_for_what_a_header_claims",),
    ),
    Mutant(
        "a file of any size read",
        "files/limits.py",
        "if len(data) > most:",
        "if False:",
        (f"{LIMITS}::test_no_more_is_read_than_the_limit_and_the_limit_is_read",),
    ),
    Mutant(
        "1e999 read as infinity",
        "files/networks.py",
        "if not math.isfinite(number):",
        "if False:",
        (f"{LIMITS}::test_a_json_number_that_is_infinite_is_refused[1e999]",),
    ),
    Mutant(
        "messages as long as the file",
        "files/limits.py",
        "if len(message) <= MAX_MESSAGE:",
        "if True:",
        (f"{LIMITS}::test_messages_hold_a_few_words_of_a_file",),
    ),
    Mutant(
        "an array of an archive without its digest",
        "files/packed.py",
        'made.hexdigest() != reference["sha256"]',
        "False",
        ("tests/files/test_packed.py::test_a_damaged_archive_is_refused",),
    ),
    Mutant(
        "the draws of a question not checked",
        "files/models.py",
        "    _check_drawn(table)\n    return table\n",
        "    return table\n",
        ("tests/files/test_packed.py::test_an_array_of_numbers_that_are_no_probabilities_is_refused",),
    ),
    Mutant(
        "an array of an archive counted once, however many places name it",
        "files/packed.py",
        "if len(set(names)) < len(names):",
        "if False:",
        (f"{PACKED}::test_an_array_that_many_places_name_is_refused_before_it_is_read",),
    ),
    Mutant(
        "members of an archive that overlap",
        "files/packed.py",
        "if sum(member.compress_size for member in members) > path.stat().st_size:",
        "if False:",
        (f"{PACKED}::test_members_that_overlap_are_refused",),
    ),
    Mutant(
        "a file's largest size asked for at once",
        "files/limits.py",
        "file.read(AT_ONCE)",
        "file.read(most + 1)",
        (f"{LIMITS}::test_a_small_file_takes_little_memory",),
    ),
    Mutant(
        "the blocks of a network listed before those of its record are counted",
        "structure/tables.py",
        "return 2**widest <= len(blocks) and set(blocks)",
        "return set(blocks)",
        (f"{LIMITS}::test_coefficients_are_counted_before_those_of_their_network_are_listed",),
    ),
    Mutant(
        "a block whose subsets are not there",
        "mechanisms/additive/plans.py",
        "any(2 ** len(block) > len(found) for block in found)",
        "False",
        (f"{LIMITS}::test_a_block_of_many_names_is_refused_by_its_number_of_subsets",),
    ),
    Mutant(
        "blocks of any number of coefficients",
        "mechanisms/additive/plans.py",
        "if (size := sum(math.prod(block_shape(network, block)) for block in blocks)) > MAX_FAMILY_CELLS:",
        "if size := 0:",
        (f"{MOVED}::test_blocks_of_absurdly_many_coefficients_are_refused_before_memory_is_taken",),
    ),
    Mutant(
        "confusions of any number of classes",
        "structure/moments.py",
        'if "confusion" in self.scores and size**2 > MOST_CONFUSED:',
        "if False:",
        ("tests/structure/test_outcomes.py::test_settings_of_a_classification_that_are_none",),
    ),
)
