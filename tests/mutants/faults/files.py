"""Files that are read as something else than they say, and readers without their limits."""

from tests.mutants.planting import Mutant

BIF, XMLBIF, LIMITS = "tests/files/test_bif.py", "tests/files/test_xmlbif.py", "tests/files/test_limits.py"
REFUSED = f"{BIF}::test_what_does_not_fit_is_refused_with_its_line"

MUTANTS = (
    Mutant(
        "probabilities of a file that do not sum to 1 made to",
        "files/declared.py",
        "TOLERANCE = 1e-6",
        "TOLERANCE = 0.5",
        (f"{REFUSED}[a sum off by 2e-6]",),
    ),
    Mutant(
        "a second table of a variable put in place of the first",
        "files/declared.py",
        "if family[0] in self._with_table:",
        "if False:",
        (f"{REFUSED}[a second table]",),
    ),
    Mutant(
        "what follows the last block of a BIF file passed over",
        "files/bif.py",
        'if kind not in ("network", "variable", "probability") or networks > 1:',
        "if networks > 1:",
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
        "entities of an XMLBIF file expanded",
        "files/xmlbif.py",
        "self._parser.EntityDeclHandler, self._parser.AttlistDeclHandler = self._entity, self._attribute",
        "self._parser.AttlistDeclHandler = self._attribute",
        (f"{XMLBIF}::test_what_does_not_fit_is_refused_with_its_line[an entity]",),
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
        "files/network_models.py",
        "    _check_drawn(table)\n    return table\n",
        "    return table\n",
        ("tests/files/test_packed.py::test_an_array_of_numbers_that_are_no_probabilities_is_refused",),
    ),
)
