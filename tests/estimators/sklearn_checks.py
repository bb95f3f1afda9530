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


#: Checks of every estimator that call ``fit`` with arrays.
_FITTING = """
    check_fit_score_takes_y check_estimators_overwrite_params check_dont_overwrite_parameters
    check_estimators_fit_returns_self check_readonly_memmap_input check_n_features_in_after_fitting
    check_positive_only_tag_during_fit check_estimators_dtypes check_complex_data check_dtype_object
    check_estimators_empty_data_messages check_pipeline_consistency check_estimators_nan_inf
    check_estimator_sparse_tag check_estimator_sparse_array check_estimator_sparse_matrix check_estimators_pickle
    check_f_contiguous_array_estimator check_methods_sample_order_invariance check_methods_subset_invariance
    check_fit2d_1sample check_fit2d_1feature check_dict_unchanged check_fit_idempotent check_fit_check_is_fitted
    check_n_features_in check_fit2d_predict1d
"""
#: Those of classifiers and of regressions alone.
_CLASSIFYING = """
    check_classifier_data_not_an_array check_classifiers_one_label check_classifiers_classes check_classifiers_train
    check_classifiers_regression_target check_supervised_y_2d check_requires_y_none
"""
_REGRESSING = """
    check_regressors_train check_regressor_data_not_an_array check_regressors_no_decision_function
    check_supervised_y_2d check_regressors_int check_requires_y_none
"""
_DECLARED = "what rows may hold is declared, not read off them: without a declaration every fit is refused, uncharged"
_OTHERS = (
    "the check fits arrays of its own, whose columns and values are not those that were declared: refused, uncharged"
)
_LOG = "a log is a table with named columns, of which two are the sequence and the time; an array is refused"
_CELLS = "it predicts the cells of the log that it was fitted to, so predict takes no rows"


def expected_failed_checks(estimator):
    """The checks that an estimator fails by design, with the reason of each, for ``check_estimator``.

    Those with "infer" for all that is declared pass every one. A check whose arrays happen to fit a declaration may
    pass; ``PrivateHMM`` takes a log, which is not an array.
    """
    settings = estimator.get_params(deep=False)
    match type(estimator).__name__:
        case "PrivateHMM":
            return dict.fromkeys(_FITTING.split(), _LOG) | {"check_estimators_unfitted": _CELLS}
        case "PrivateNaiveBayes" | "PrivateClassifier" if not _inferred(settings["domain"]):
            return dict.fromkeys(
                (_FITTING + _CLASSIFYING).split(), _DECLARED if settings["domain"] is None else _OTHERS
            )
        case "PrivateLinearRegression" if not (_inferred(settings["bounds_X"]) and _inferred(settings["bounds_y"])):
            return dict.fromkeys(
                (_FITTING + _REGRESSING).split(), _DECLARED if settings["bounds_X"] is None else _OTHERS
            )
    return {}


def _inferred(declared):
    return isinstance(declared, str) and declared == "infer"
