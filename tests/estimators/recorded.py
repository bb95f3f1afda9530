"""A noise source that records what it is given and answers by a script, and the exact loss between two recordings."""

import copy
import random
from fractions import Fraction

import numpy as np

from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace


class Script:
    """Answers every call alike whatever it is given, so that two data sets release the same integers.

    Only the total of a table whose noise sums to zero is kept, as the noise keeps it.
    """

    private = False

    def __init__(self, script=0):
        self.calls = []
        self._generator = random.Random(script)

    def add(self, values, law):
        assert values.dtype == np.int64
        self.calls.append((values.copy(), law))
        answer = np.array([self._generator.randrange(6) for _ in values], np.int64)
        if isinstance(law, SumZeroLaplace):
            answer[0] += values.sum() - answer.sum()
        return answer

    def bits(self, count):
        return self._generator.getrandbits(count)

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self


def losses(one, other):
    """Of each call the supremum over outputs of ln P / P', ||s - s'||_1 / scale, for independent Laplace noise and for
    noise that sums to zero, where both have the same total and the same public shape."""
    assert [(len(values), law) for values, law in one] == [(len(values), law) for values, law in other]
    found = []
    for (values, law), (others, _) in zip(one, other, strict=True):
        assert isinstance(law, DiscreteLaplace | SumZeroLaplace)
        assert isinstance(law, DiscreteLaplace) or values.sum() == others.sum()
        found.append(Fraction(int(np.abs(values - others).sum())) / Fraction(law.scale))
    return found


def recorded(call, script=0):
    """The noise calls of ``call(noise)``."""
    noise = Script(script)
    call(copy.copy(noise))
    return noise.calls
