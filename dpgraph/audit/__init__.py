"""Checks to run on your own network, mechanism and pipeline: is a privacy claim true, is a posterior calibrated?

``report`` runs all checks on one network and states the limits of each; ``dpgraph audit`` is the command.
``privacy_loss`` is the exact loss of any mechanism between two data sets, ``calibration`` checks a posterior.
None needs data: rows are made up. None is a proof of privacy: a check finds faults, or finds none.
"""

from __future__ import annotations

from dpgraph.audit.calibrating import Calibration, calibration, discrepancy, null_of
from dpgraph.audit.checks import Check
from dpgraph.audit.reporting import AuditReport, report
from dpgraph.privacy.exact_loss import PrivacyLoss, privacy_loss

__all__ = [
    "AuditReport",
    "Calibration",
    "Check",
    "PrivacyLoss",
    "calibration",
    "discrepancy",
    "null_of",
    "privacy_loss",
    "report",
]
