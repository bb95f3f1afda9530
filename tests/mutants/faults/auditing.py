"""Faults in what an audit sees."""

from tests.mutants.planting import Mutant

TESTS = "tests/test_audit_report.py"

MUTANTS = (
    Mutant(
        "an audit that takes the least loss",
        "audit/losses.py",
        "return max(sums, default=Fraction(0))",
        "return min(sums, default=Fraction(0))",
        (f"{TESTS}::test_the_largest_loss_is_that_of_the_contract",),
    ),
    Mutant(
        "an audit that does not compare values",
        "audit/losses.py",
        "    if apart is not None:\n",
        "    if apart is not None and type(one.value) is not type(other.value):\n",
        (f"{TESTS}::test_a_faulty_mechanism_fails",),
    ),
    Mutant(
        "an audit that believes the claim",
        "audit/losses.py",
        'verdict: Verdict = "pass" if share <= 1 else "fail"',
        'verdict: Verdict = "pass"',
        (f"{TESTS}::test_a_faulty_mechanism_fails",),
    ),
    Mutant(
        "coverage judged without the number of worlds",
        "audit/calibrating.py",
        "wanted = math.log(2 / level) / trials",
        "wanted = 0.001 + 0 * math.log(2 / level) / trials",
        (f"{TESTS}::test_coverage_limits_hold_for_whatever_dependence",),
    ),
    Mutant(
        "a replay that does not hear what is printed",
        "audit/replaying.py",
        '"what is printed": (one.printed, other.printed),',
        '"what is printed": (one.printed, one.printed),',
        (f"{TESTS}::test_a_leaking_pipeline_fails",),
    ),
    Mutant(
        "a replay that does not add up the loss",
        "audit/replaying.py",
        "        if share > 1:",
        "        if share > 10**9:",
        (f"{TESTS}::test_a_leaking_pipeline_fails",),
    ),
    Mutant(
        "recorded noise that outlives its replay",
        "audit/replaying.py",
        "stack.callback(here.clear)",
        "stack.callback(list)",
        (f"{TESTS}::test_only_this_thread_is_recorded_and_only_meanwhile",),
    ),
    Mutant(
        "a replay that takes the noise of every thread",
        "audit/replaying.py",
        "if threading.get_ident() in here else",
        "if here else",
        (f"{TESTS}::test_only_this_thread_is_recorded_and_only_meanwhile",),
    ),
    Mutant(
        "a rho of selections in 64 bits",
        "privacy/exact_loss.py",
        "np.asarray(self.moved(differences)).astype(object)",
        "np.asarray(self.moved(differences), object)",
        ("tests/privacy/test_recording_noise.py::test_the_rho_of_large_scores_does_not_overflow",),
    ),
)
