"""No command that spends loses more than it claims, over all neighbours of small data sets; most lose all of it."""

import pytest

from tests.contract.commands import cases


@pytest.mark.filterwarnings("ignore:no level of")  # so few rows do not stand out
@pytest.mark.covering(lambda case, unit: ((case.name, str(unit)), str(case)))
@pytest.mark.parametrize(
    ("case", "unit"), [pytest.param(case, unit, id=f"{case}: {unit}") for case in cases() for unit in case.units]
)
def test_no_loss_is_above_the_claim(case, unit):
    case.check(unit)
