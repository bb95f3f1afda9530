"""What to do where a call needs a network's probabilities and was given something else."""

from __future__ import annotations

from typing import Any

from dpgraph.privacy.records import released_value
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

#: Methods by which models that are no network answer what others are asked of a network's tables.
OWN = ("predict", "predict_interval", "predict_fields", "forecast", "sample")


def probabilities_given(value: Any, call: str, error: type[Exception]) -> Probabilities:
    """Probabilities, or their release, as Probabilities; anything else is refused with what to give instead."""
    found, _ = released_value(value)
    if isinstance(found, Probabilities):
        return found
    raise error(f"{call} takes Probabilities; got {type(found).__name__}: {advice(found, call)}")


def own_methods(value: Any) -> str:
    """What a model of dpgraph's that is no network answers by itself, in words; nothing for anything else."""
    if not type(value).__module__.startswith("dpgraph."):
        return ""
    has = [name for name in OWN if callable(getattr(value, name, None))]
    return " or ".join(filter(None, [", ".join(has[:-1]), has[-1]])) if has else ""


def advice(value: Any, call: str) -> str:
    """How to make Probabilities of a value of dpgraph's; of anything else, where they are to be had."""
    if isinstance(value, Network):
        return "a network alone has no tables; those of a release of counts are dg.posterior(release).mean()"
    if isinstance(value, tuple | list) and value and all(isinstance(one, Probabilities) for one in value):
        return "give one of these draws"
    if not type(value).__module__.startswith("dpgraph."):
        return "dg.load reads them from a file, and dg.posterior(release).mean() learns them from a release of counts"
    if hasattr(value, "probabilities"):
        named = "learned" if hasattr(value, "posterior") else "model"
        return f"give {call}({named}.probabilities)"
    if hasattr(value, "model_"):
        return f"of a fitted estimator give {call}(estimator.model_.probabilities), where its model has them"
    if callable(getattr(value, "mean", None)) and hasattr(value, "network"):
        return f"give the mean of the draws, {call}(posterior.mean())"
    if asked := own_methods(value):
        return f"it has no tables of a network; ask its own {asked}"
    return f"of a release of counts make a posterior first, {call}(dg.posterior(release).mean())"
