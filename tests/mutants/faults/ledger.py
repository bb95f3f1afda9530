"""Faults of the ledger: a charge lost or made twice, rows that are believed, a password that is handed on."""

from tests.mutants.planting import Mutant

RACES, FAULTS, TAMPERING, OPENING, ALLOWANCES, CHOICES = (
    f"tests/privacy/ledger/test_{name}.py"
    for name in ("races", "faults", "tampering", "opening", "allowances", "choices")
)
STEPS, PAYING = "tests/privacy/test_every_step.py", "tests/cli/test_paying.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a draw before the row is committed",
        "privacy/ledger/sqlite.py",
        '                connection.execute("COMMIT")\n',
        '                connection.execute("ROLLBACK")\n',
        (f"{FAULTS}::test_the_row_is_on_disk_before_the_first_draw",),
    ),
    Mutant(
        "a price outside the transaction",
        "privacy/ledger/account.py",
        "        with self.chain.store.writing() as rows:\n            row = self._next(rows, event, text, made)\n"
        "            rows.append(row)\n",
        "        with self.chain.store.reading() as rows:\n            row = self._next(rows, event, text, made)\n"
        "        with self.chain.store.writing() as rows:\n            rows.append(row)\n",
        (f"{RACES}::test_nobody_else_writes_between_the_price_and_the_row",),
    ),
    Mutant(
        "a transaction that takes the lock when it writes",
        "privacy/ledger/sqlite.py",
        '        with self._transaction("BEGIN IMMEDIATE") as connection:\n            self._check_kind(connection)\n'
        '            yield SqlRows(connection.execute, "?")\n',
        '        with self._transaction("BEGIN") as connection:\n            self._check_kind(connection)\n'
        '            yield SqlRows(connection.execute, "?")\n',
        (f"{RACES}::test_nobody_else_writes_between_the_price_and_the_row",),
        within="writing",
    ),
    Mutant(
        "a connection that crosses a fork",
        "privacy/ledger/store.py",
        "    for store in list(_stores):\n        store.close()\n",
        "",
        (f"{RACES}::test_no_connection_crosses_a_fork",),
    ),
    Mutant(
        "a fork in the middle of a charge",
        "privacy/ledger/store.py",
        "os.register_at_fork(before=_before_fork, after_in_parent=gate.release, after_in_child=gate.release)",
        "pass",
        (f"{RACES}::test_a_fork_waits_for_the_end_of_a_charge",),
    ),
    Mutant(
        "a ledger opened without its chain",
        "privacy/ledger/chain.py",
        "    if (why := chain_problems(rows.rows(dataset, start), before, head)) is not None:\n",
        "    if (why := None) is not None:\n",
        (f"{TAMPERING}::test_an_edited_row_is_noticed_by_open_and_by_verify",),
    ),
    Mutant(
        "digests that nobody computes again",
        "privacy/ledger/row.py",
        "    if digest_of(row) != row.digest:\n",
        "    if not row.digest:\n",
        (f"{TAMPERING}::test_an_edited_row_is_noticed_by_open_and_by_verify",),
    ),
    Mutant(
        "rows in any order",
        "privacy/ledger/row.py",
        "    if row.previous != previous:\n",
        "    if not row.previous and before is not None:\n",
        (f"{TAMPERING}::test_a_row_written_anew_with_a_digest_of_its_own_is_noticed",),
    ),
    Mutant(
        "a head that was put back is believed",
        "privacy/ledger/chain.py",
        "        if found is None or found.digest != seen.digest:\n",
        "        if False:\n",
        (f"{TAMPERING}::test_an_older_copy_put_in_place_is_noticed_by_who_saw_the_newer",),
    ),
    Mutant(
        "totals taken from the row and not computed again",
        "privacy/ledger/checking.py",
        '    found = [] if row.spent == _text(after) else ["has totals that are not those of the events up to it"]\n',
        "    after = spent_of(row.spent)\n    totals.accounts[row.account] = rule, unit, after\n"
        "    found: list[str] = []\n",
        (f"{TAMPERING}::test_totals_are_computed_again_where_every_digest_is_right",),
    ),
    Mutant(
        "a limit that verification does not hold rows to",
        "privacy/ledger/checking.py",
        'found += [] if rule.fits(after) else ["spends more than there was"]',
        "found += []",
        (f"{TAMPERING}::test_totals_are_computed_again_where_every_digest_is_right",),
    ),
    Mutant(
        "a pickled copy with a fresh account",
        "privacy/accounting.py",
        "        return _reopened, (self._group, *self._account.reopening())\n",
        "        return Budget, (str(self.epsilon), str(self.delta))\n",
        (f"{RACES}::test_a_pickled_budget_is_the_same_one",),
    ),
    Mutant(
        "a charge to a file that is gone",
        "privacy/ledger/sqlite.py",
        "        if self._file != _place(self._path) or self._log != _place(self._log_path):\n",
        "        if False:\n",
        (f"{FAULTS}::test_a_charge_to_a_file_that_goes_meanwhile_is_an_error",),
    ),
    Mutant(
        "another ledger in the place of the one that was opened",
        "privacy/ledger/chain.py",
        "        if first != self.first:\n",
        "        if first is None:\n",
        (f"{FAULTS}::test_a_file_that_was_replaced_by_another_ledger_is_refused",),
    ),
    Mutant(
        "an error of the commit that is taken for success",
        "privacy/ledger/sqlite.py",
        "                    raise self._refusal(error, UNKNOWN) from None\n                raise\n",
        "                    return\n                raise\n",
        (f"{FAULTS}::test_a_commit_whose_outcome_is_not_known_releases_nothing",),
    ),
    Mutant(
        "an allowance that limits nobody",
        "privacy/ledger/account.py",
        "        if not rule.fits(after):\n            refused =",
        "        if False:\n            refused =",
        (f"{ALLOWANCES}::test_an_allowance_limits_who_has_it_and_the_whole_limits_all",),
    ),
    Mutant(
        "an allowance without an end",
        "privacy/ledger/account.py",
        "return allowance.expires is not None and datetime.now(UTC) >= allowance.expires",
        "return False",
        (f"{ALLOWANCES}::test_nothing_is_charged_after_an_allowance_has_ended",),
    ),
    Mutant(
        "an allowance laid down again is a fresh one",
        "privacy/ledger/book.py",
        "allowed=canonical(plain_spent(self._chain.allowed(rows, who) or start)),",
        "allowed=canonical(plain_spent(start)),",
        (f"{ALLOWANCES}::test_a_later_allowance_replaces_the_earlier_and_keeps_what_was_spent",),
    ),
    Mutant(
        "groups that are fresh after a restart",
        "privacy/ledger/account.py",
        'f"{receipt.number}.{at}"',
        'f"{receipt.number}.{at}.{now()}"',
        (f"{ALLOWANCES}::test_groups_keep_what_they_spent_over_a_restart",),
    ),
    Mutant(
        "a ledger opened with another limit than it was made with",
        "privacy/ledger/opening.py",
        "            if asked is not None and asked != laid:\n",
        "            if False:\n",
        (f"{OPENING}::test_a_ledger_is_opened_as_it_was_made",),
    ),
    Mutant(
        "a password that is handed to other processes",
        "privacy/ledger/postgres.py",
        "        return self._shown\n",
        "        return self._url\n",
        (f"{OPENING}::test_a_password_is_neither_shown_nor_handed_on",),
        within="shown",
    ),
    Mutant(
        "an event that reads back as another",
        "privacy/plain_events.py",
        '        **({} if event.rho is None else {"rho": str(event.rho)}),\n',
        "",
        (f"{OPENING}::test_an_event_comes_back_equal",),
    ),
    Mutant(
        "two choices of rows in the groups of a ledger",
        "privacy/ledger/account.py",
        "if first is not None and choice_of(first.terms).name != made.choice:",
        "if False:",
        (f"{CHOICES}::test_another_process_may_not_choose_other_rows",),
    ),
    Mutant(
        "a choice of rows that binds one group of a ledger alone",
        "privacy/ledger/account.py",
        "            key, number = row.account, row.number\n",
        '            key, number = "", row.number\n',
        (f"{CHOICES}::test_groups_within_groups_are_of_the_same_choice",),
    ),
    Mutant(
        "a choice of rows looked up before the transaction",
        "privacy/ledger/account.py",
        "        with self.chain.store.writing() as rows:\n            row = self._next(rows, event, text, made)\n",
        "        with self.chain.store.reading() as rows:\n            terms = self._terms(rows, made)\n"
        "        object.__setattr__(self, '_terms', lambda rows, made: terms)\n"
        "        with self.chain.store.writing() as rows:\n            row = self._next(rows, event, text, made)\n",
        (f"{CHOICES}::test_the_choice_is_looked_up_where_nobody_else_writes",),
    ),
    Mutant(
        "two choices of rows that verification does not see",
        "privacy/ledger/checking.py",
        "if among is None or totals.choices.setdefault(among, choice.name) == choice.name:",
        "if True:",
        (f"{CHOICES}::test_a_ledger_of_two_choices_in_one_split_is_noticed",),
    ),
    Mutant(
        "a choice kept in memory by each group",
        "privacy/accounts.py",
        "one._lock, one._choices = self._lock, choices",
        "one._lock, one._choices = self._lock, {}",
        (f"{CHOICES}::test_groups_take_one_choice_of_rows_and_no_other",),
    ),
    Mutant(
        "a log that is looked for beside a symbolic link",
        "privacy/ledger/sqlite.py",
        'f"{os.path.realpath(self._path)}-wal"',
        'f"{self._path}-wal"',
        (f"{FAULTS}::test_the_log_of_a_linked_file_is_watched_too",),
    ),
    Mutant(
        "a file with two names and two logs",
        "privacy/ledger/sqlite.py",
        "st_nlink) > 1",
        "st_nlink) > 9",
        (f"{FAULTS}::test_a_file_with_two_names_is_refused",),
    ),
    Mutant(
        "two budgets of one source made at once",
        "privacy/ledger/postgres.py",
        '            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (MAKING,))\n',
        "",
        (f"{OPENING}::test_of_two_processes_that_budget_one_source_at_once_one_is_refused",),
    ),
    Mutant(
        "names that look the same are two data sets",
        "privacy/ledger/terms.py",
        "if compared and label",
        "if False and label",
        (f"{OPENING}::test_two_names_that_look_the_same_are_not_two_data_sets",),
    ),
    Mutant(
        "a draw before its charge, met by a walk over every step",
        "privacy/release.py",
        "    receipt = budget.charge(event, made)\n    value = mechanism.randomise(statistics, budget.unit, source)\n",
        "    value = mechanism.randomise(statistics, budget.unit, source)\n    receipt = budget.charge(event, made)\n",
        (f"{STEPS}::test_no_value_and_no_draw_without_its_charge[release-in a file-some]",),
    ),
    Mutant(
        "a charge taken back on error, met by a walk over every step",
        "privacy/release.py",
        "    value = mechanism.randomise(statistics, budget.unit, source)\n",
        "    try:\n        value = mechanism.randomise(statistics, budget.unit, source)\n"
        "    except BaseException:\n        budget._account._charges.clear()\n        raise\n",
        (f"{STEPS}::test_no_value_and_no_draw_without_its_charge[release-in memory-some]",),
    ),
    Mutant(
        "totals that an interrupt parts from their events",
        "privacy/accounts.py",
        "            self._charges.append((event, after))\n",
        "            self._charges.append((event, self.spent()))\n            self._charges[-1] = (event, after)\n",
        (f"{STEPS}::test_no_value_and_no_draw_without_its_charge[charge-in memory-some]",),
    ),
    Mutant(
        "a command whose dry run charges",
        "cli/paying.py",
        '    left = budget.left_after(event) if dry_run or budget.accounting == "basic" else None\n',
        "    left = budget.left_after(event)\n    budget.charge(event)\n",
        (f"{PAYING}::test_an_allowance_limits_a_command_and_its_dry_run",),
    ),
    Mutant(
        "a data set without its ledger spent from memory",
        "cli/paying.py",
        "        if self.dataset and self.ledger is None:\n",
        "        if False:\n",
        (f"{PAYING}::TestDefaults::test_half_of_it_is_refused_and_not_spent_elsewhere",),
    ),
    Mutant(
        "a charge that stands called a refusal",
        "cli/paying.py",
        "        if not may_stand and book.seen == before:\n",
        "        if not may_stand:\n",
        (f"{PAYING}::TestExitCodes::test_an_error_after_the_charge",),
    ),
    Mutant(
        "another unit than the ledger's",
        "cli/paying.py",
        "    if asked != unit:\n",
        "    if False:\n",
        (f"{PAYING}::test_what_is_refused_charges_nothing",),
    ),
    Mutant(
        "a transaction left open in SQLite is gone on with",
        "privacy/ledger/sqlite.py",
        "                self._undo()  # of a transaction that an interrupt left between two lines\n",
        "",
        (f"{FAULTS}::test_a_transaction_that_an_interrupt_left_open_is_undone[sqlite]",),
    ),
    Mutant(
        "a transaction left open in PostgreSQL is gone on with",
        "privacy/ledger/postgres.py",
        "                if self._connection.info.transaction_status:",
        "                if False:",
        (f"{FAULTS}::test_a_transaction_that_an_interrupt_left_open_is_undone[postgres]",),
    ),
)
