"""Every error and warning of the package; an error is a ``DPGraphError``, and its class names the kind of problem.

A refusal comes before anything is charged, and its words hold public values alone.

>>> import dpgraph as dg
>>> try:
...     dg.LaplaceMechanism(epsilon=-1)
... except dg.errors.DPGraphError as error:
...     print(type(error).__name__, error)
ReleaseError epsilon must be a finite number above 0; got -1
"""


class DPGraphError(ValueError):
    """The root of the package's errors: something was refused, for a reason that is public."""


class DomainError(DPGraphError):
    """Rows do not fit the declared domain: a missing column, an undeclared value, a null, a wrong type."""


class NetworkError(DomainError):
    """A public declaration is not valid: an empty level list, a duplicate, a cycle, an unknown parent."""


class ReleaseError(DPGraphError):
    """A release was refused before anything was charged: a bad privacy parameter or statistics that do not fit."""


class BudgetExceededError(ReleaseError):
    """A release was refused because the budget does not hold it; nothing was charged and nothing was drawn."""


class LedgerError(ReleaseError):
    """A ledger cannot be used: it is locked, full, gone, replaced, edited or not as asked; nothing is released.

    Attributes:
        charge_may_stand: True if the row of a charge may have been written all the same.
    """

    def __init__(self, message: str = "", *, charge_may_stand: bool = False) -> None:
        super().__init__(message)
        self.charge_may_stand = charge_may_stand


class InferenceError(DPGraphError):
    """Nothing can be learned from a release as asked: a prior, a method, a number or a release of another kind."""


class FileError(DPGraphError):
    """A file cannot be read or written: it is missing, cut short, changed, or not valid."""


class DomainWarning(UserWarning):
    """A domain was read off rows, a column has another type than its levels, or BIF another name for one."""


class PrivacyLeakWarning(UserWarning):
    """An option that the caller asked for weakens or voids the privacy promise."""


class LargeEpsilonWarning(UserWarning):
    """A release at an epsilon that protects almost nobody."""


class UnprovedGuaranteeWarning(UserWarning):
    """A setting for which the paper's proof of its guarantee does not hold."""


class FileWarning(UserWarning):
    """A file keeps less than the value has: the intervals of a posterior are not in it."""


class ConvergenceWarning(UserWarning):
    """Chains that have not mixed: the posterior may be inaccurate. Privacy is not at stake."""


class ApproximationWarning(UserWarning):
    """A method whose approximation is too rough for a release: intervals may be wrong. Privacy is not at stake."""


class PriorWarning(UserWarning):
    """Unknowns of which the release says little: most of their posterior is prior. Privacy is not at stake."""


class PositivityWarning(UserWarning):
    """A stratum that hardly has a level of a treatment: the model guesses its effect. Privacy is not at stake."""


class SplitWarning(UserWarning):
    """Fits on different rows share a budget: their charges cover the loss only if rows did not choose the rows."""


class OwnBudgetWarning(UserWarning):
    """Several fits of the same variables, each with a budget of its own: no budget adds up their costs."""


__all__ = [name for name in dir() if name.endswith(("Error", "Warning"))]  # pyright: ignore[reportUnsupportedDunderAll]
