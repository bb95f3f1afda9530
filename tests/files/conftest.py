"""Half a second of every BIF file goes into building pgmpy's grammar, which is the same each time: build it once."""

import functools
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
