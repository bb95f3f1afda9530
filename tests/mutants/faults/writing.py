"""Faults of files and of ends: a name before the content, a link replaced, a name obeyed."""

from tests.mutants.planting import Mutant

INTERRUPTED = "tests/files/test_interrupted_writes.py"
WRITTEN = "tests/files/test_atomic_write.py"
ENDING = "tests/cli/test_exit_codes.py"
PRINTED = "tests/cli/test_printed.py"

MUTANTS = (
    Mutant(
        "a file named before it is on the disk",
        "files/atomic_write.py",
        "            os.fsync(handle)\n            os.replace",
        "            os.replace",
        (f"{INTERRUPTED}::test_a_file_is_on_the_disk_before_its_name_is",),
    ),
    Mutant(
        "a private file made readable by all",
        "files/atomic_write.py",
        "os.chmod(handle, stat.S_IMODE(old.st_mode) & 0o777)",
        "os.chmod(handle, 0o644)",
        (f"{WRITTEN}::test_an_old_file_keeps_its_permissions",),
    ),
    Mutant(
        "a link replaced by a file",
        "files/atomic_write.py",
        "path = Path(os.path.realpath(target))",
        "path = Path(os.path.abspath(target))",
        (f"{WRITTEN}::test_a_link_stays_and_its_target_is_written",),
    ),
    Mutant(
        "a result that is lost told as a refusal",
        "cli/output.py",
        "    exit_code = 3",
        "    exit_code = 1",
        (f"{ENDING}::test_a_fit_is_written_before_it_is_printed",),
    ),
    Mutant(
        "a charge that bought nothing told as a refusal",
        "cli/output.py",
        "if charged or is_stream(out):",
        "if is_stream(out):",
        (f"{ENDING}::test_a_charge_whose_result_finds_no_room_is_3_and_the_old_file_stays",),
    ),
    Mutant(
        "a place to write to that is tried after the charge",
        "cli/options.py",
        "    check_writable(out)\n",
        "",
        (f"{ENDING}::test_a_place_that_takes_no_file_is_found_out_before_the_rows_are_read",),
    ),
    Mutant(
        "a name that a terminal obeys",
        "privacy/display.py",
        "one if one.isprintable() or one in keep else",
        "one if one >= ' ' or one in keep else",
        (f"{PRINTED}::test_tables_show_escapes",),
    ),
    Mutant(
        "a formula written for a spreadsheet to run",
        "cli/models.py",
        "        frames = map(harmless_frame, frames)",
        "        frames = iter(frames)",
        (f"{PRINTED}::test_synthetic_rows_hold_no_formula",),
    ),
    Mutant(
        "a carriage return that begins a line",
        "files/atomic_write.py",
        'if "\\r" in text:',
        "if False:",
        ("tests/files/test_spreadsheet.py::test_a_carriage_return_begins_no_line",),
    ),
    Mutant(
        "a compiled loop that a signal may break into",
        "inference/chains.py",
        "interruptible(lambda _: side_by_side(run, enumerate(streams), workers))",
        "side_by_side(run, enumerate(streams), workers)",
        ("tests/inference/test_interruption.py::test_the_loops_of_a_log_run_in_another_thread",),
    ),
    Mutant(
        "a loop that nobody waits for",
        "inference/interruption.py",
        "            wait([outcome])\n",
        "            pass\n",
        ("tests/inference/test_interruption.py::test_an_interruption_stops_the_work_and_is_raised_here",),
    ),
)
