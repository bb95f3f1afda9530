"""scikit-learn's own checks of an estimator, as parameters of a test."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

#: The checks that need an optional environment of scikit-learn's own skip themselves.
SKIPPED = {"check_array_api_input"}


def checks_of(estimator):
    return [
        pytest.param(instance, check, id=check.func.__name__)
        for instance, check in estimator_checks_generator(estimator)
        if check.func.__name__ not in SKIPPED
    ]
