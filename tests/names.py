"""What has a public name: in ``dg``, in a namespace of it, or in a module that is one."""

import dpgraph as dg

SPACES = ("errors", "extension", "methods", "papers", "questions", "results", "statistics", "testing")


def public_names(without=""):
    """Every public class, function and module, by its name, but for those of one namespace."""
    listed = {name: getattr(dg, name) for name in dg.__all__}
    for space in (one for one in SPACES if one != without):
        listed |= {name: getattr(getattr(dg, space), name) for name in getattr(dg, space).__all__}
    return listed
