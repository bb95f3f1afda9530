"""What tests of several readers share.

Half a second of every BIF file goes into building pgmpy's grammar, which is the same each time: it is built once.
"""

import functools
import signal
import warnings

import pytest


@pytest.fixture(autouse=True, scope="session")
def _one_grammar():
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        from pgmpy.readwrite import BIFReader

        for name in ("get_variable_grammar", "get_probability_grammar"):
            made = functools.cache(functools.partial(getattr(BIFReader, name), None))
            patch.setattr(BIFReader, name, lambda self, made=made: made())
        yield


@pytest.fixture
def no_hang():
    """Ends a test that computes for 20 seconds; those that ask for it take far less."""

    def hangs(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, hangs)
    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)
