"""What has a public name: in ``dg``, in a namespace of it, or in a module that is one."""

import dpgraph as dg

SPACES = ("errors", "extension", "methods", "papers", "questions", "results", "statistics", "testing")


def names_of(module):
    """The names that a module lists, or gives as its own where it lists none."""
    return getattr(module, "__all__", None) or sorted(name for name in dir(module) if not name.startswith("_"))


def public_names(without=""):
    """Every public class, function and module, by its name, but for those of one namespace."""
    listed = {name: getattr(dg, name) for name in names_of(dg)}
    for space in (one for one in SPACES if one != without):
        listed |= {name: getattr(getattr(dg, space), name) for name in names_of(getattr(dg, space))}
    return listed
