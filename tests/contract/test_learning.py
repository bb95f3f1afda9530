"""The loss of networks learned by paid choices, on data sets of up to four rows."""

import pytest

from tests.contract.learning import long_cases


@pytest.mark.proof
@pytest.mark.parametrize("case", list(long_cases()), ids=str)
def test_no_loss_of_a_learned_network_is_above_its_claim(case):
    for unit in case.units:
        case.check(unit)
