"""Posterior draws for ArviZ: its plots and diagnostics take an xarray DataTree."""

from __future__ import annotations

from typing import Any

from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.privacy.errors import FileError
from dpgraph.structure.tables import own_methods


def to_datatree(draws: PosteriorDraws) -> Any:
    """The draws as an ArviZ ``DataTree``: a group ``posterior`` with a variable for each table.

    Each has dimensions chain, draw, the variable's own name, and one for each parent, with the declared levels as
    coordinates. Needs the extra ``dpgraph[arviz]``.

    Args:
        draws: The draws from ``posterior``.

    Raises:
        FileError: If these are not draws of a network.
        ImportError: If the extra is not installed.
    """
    if not isinstance(draws, PosteriorDraws):
        asked = own_methods(draws)
        how = f"ask its own {asked}" if asked else "of a release they are posterior(release)"
        raise FileError(f"to_datatree takes posterior draws of a network; got {type(draws).__name__}: {how}")
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError("to_datatree needs arviz-base: pip install 'dpgraph[arviz]'") from error
    network = draws.network
    axes = {name: [f"{v}_level" for v in network.family(name)] for name in draws.tables}
    levels = {f"{v}_level": [str(level) for level in network.domain.levels(v)] for v in network.domain.names}
    return from_dict({"posterior": dict(draws.tables)}, dims=axes, coords=levels)
