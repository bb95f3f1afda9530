"""The weight of the package: lines, folders, imports, circles, modules loaded, and the way of rows through one fit.

``python benchmarks/house.py [CHECKOUT ...] [--out docs/figures/house.png]`` prints them for each checkout (this one if
none is named) and draws folders as rooms, layers as floors, an arrow where a module of one imports one of another.
Imports for types alone do not count, as in the import contracts. The way of the rows is what a profiler sees of
``PrivateNaiveBayes.fit`` up to the release: modules whose functions are handed something that holds the rows, steps
from a lower layer to a higher one, and steps into a module that the rows had left before.
"""

import argparse
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import networkx as nx

HERE = Path(__file__).parents[1]
MODULES = """
import grimp
graph = grimp.build_graph("dpgraph", exclude_type_checking_imports=True)
for module in sorted(graph.modules):
    for imported in sorted(graph.find_modules_directly_imported_by(module)) or [module]:
        print(module, imported)
"""

ROWS = """
import sys
import pandas as pd
import dpgraph as dg
rows = pd.DataFrame({"word": ["a", "b"] * 557, "tone": ["x", "x", "y", "y"] * 278 + ["x", "y"], "spam": [0, 1] * 557})
domain = dg.Domain.of({"word": ["a", "b"], "tone": ["x", "y"], "spam": [0, 1]})
network = dg.Network.of(domain, {"word": ["spam"], "tone": ["spam"]})
"""
LOADING = {
    "release": "dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=dg.Budget(1))",
    "fit": "dg.PrivateNaiveBayes(domain, epsilon=5).fit(rows[['word', 'tone']], rows['spam'])",
    "query": "dg.query(dg.load('example:asia'), 'smoke')",
}
WALK = """
import os
dg.PrivateNaiveBayes(domain, epsilon=5).fit(rows[["word", "tone"]], rows["spam"])
home, here, way = os.path.dirname(dg.__file__), [""], []
def holds(value, deep=2):
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and len(rows) in shape[:1]:
        return True
    if isinstance(value, (list, tuple)) and len(value) < 99:
        return any(holds(one, deep - 1) for one in value) if deep else False
    inner = value if isinstance(value, dict) else getattr(value, "__dict__", {}) if deep else {}
    return bool(deep) and len(inner) < 99 and any(holds(one, deep - 1) for one in list(inner.values()))
def watch(frame, event, argument):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(home):
        return
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if any(holds(frame.f_locals[name]) for name in names if name in frame.f_locals):
        way.append(code.co_filename[len(home) + 1 :])
    if code.co_name == "release":
        sys.setprofile(None)
sys.setprofile(watch)
dg.PrivateNaiveBayes(domain, epsilon=5).fit(rows[["word", "tone"]], rows["spam"])
sys.setprofile(None)
print(*way)
"""


def run(checkout: Path, program: str) -> str:
    """What a program prints that imports the package of a checkout."""
    environment = {"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True).stdout


def lines(checkout: Path) -> int:
    """Lines of the files of the package that git knows, templates too."""
    names = subprocess.run(["git", "ls-files", "dpgraph"], cwd=checkout, capture_output=True, text=True, check=True)
    return sum(len((checkout / name).read_text().splitlines()) for name in names.stdout.split())


def loaded(checkout: Path, job: str) -> int:
    """Modules of the package that one job loads."""
    count = "print(sum(name.startswith('dpgraph') for name in sys.modules))"
    return int(run(checkout, f"{ROWS}{LOADING[job]}\n{count}"))


def way_of_rows(checkout: Path) -> tuple[int, int, int]:
    """Modules that the rows of a fit pass, steps up a layer, and steps into a module that they had left."""
    floor = floors(checkout)
    level = lambda name: floor[name.split("/")[0].removesuffix(".py")]  # noqa: E731
    visits = run(checkout, ROWS + WALK).split()
    stays = [one for one, before in zip(visits, ["", *visits], strict=False) if one != before]
    climbs = sum(level(after) > level(before) for before, after in pairwise(stays))
    return len(set(stays)), climbs, len(stays) - len(set(stays))


def imports(checkout: Path) -> nx.DiGraph:
    """The graph of imports between the modules of a checkout's package; a module without imports is a node."""
    graph = nx.DiGraph(line.split() for line in run(checkout, MODULES).splitlines())
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def room(module: str, packages: set[str]) -> str:
    """The folder of a module, without the package's own name; a module beside folders is a room of its own."""
    folder = module if module in packages else module.rpartition(".")[0]
    beside = any(one.startswith(folder + ".") for one in packages)
    return (module if beside else folder).partition(".")[2] or "dpgraph"


def rooms(graph: nx.DiGraph, checkout: Path) -> nx.DiGraph:
    """The graph of folders; ``modules`` of a node and ``imports`` of an edge say how many lie behind it."""
    packages = {".".join(one.parent.relative_to(checkout).parts) for one in (checkout / "dpgraph").rglob("__init__.py")}
    folders = nx.DiGraph()
    for module in graph:
        name = room(module, packages)
        folders.add_node(name, modules=folders.nodes.get(name, {}).get("modules", 0) + 1)
    for first, second in graph.edges:
        ends = room(first, packages), room(second, packages)
        if ends[0] != ends[1]:
            folders.add_edge(*ends, imports=folders.edges.get(ends, {}).get("imports", 0) + 1)
    folders.remove_nodes_from(["dpgraph"])
    return folders


def circles(graph: nx.DiGraph) -> int:
    """How many groups of two or more nodes reach one another."""
    return sum(len(group) > 1 for group in nx.strongly_connected_components(graph))


def floors(checkout: Path) -> dict[str, int]:
    """The floor of each layer, from the import contract in pyproject.toml; the lowest is 0."""
    contracts = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one for one in contracts if one["type"] == "layers")["layers"]
    return {name.strip(" ()"): at for at, floor in enumerate(reversed(layers)) for name in floor.split("|")}


def draw(axes, folders: nx.DiGraph, checkout: Path) -> None:
    """Rooms on their floors, in the order of a barycentre; the wider an arrow, the more imports."""
    floor = floors(checkout)
    on = {}
    for name in sorted(folders):
        on.setdefault(floor[name.partition(".")[0]], []).append(name)
    at, height = {}, 0.0
    for level in sorted(on):
        rows = -(-len(on[level]) // 7)  # of at most seven rooms, so that names do not overlap
        for place, name in enumerate(on[level]):
            middle, wide = (len(on[level]) - 1) / 2, max(7, len(on[level]))
            at[name] = ((place - middle) * 7 / wide, height + 0.45 * (place % rows))
        height += 0.55 + 0.45 * rows
    names = {name: name.rpartition(".")[2] + f"\n{folders.nodes[name]['modules']}" for name in folders}
    widths = [0.3 + folders.edges[edge]["imports"] ** 0.5 / 4 for edge in folders.edges]
    nx.draw_networkx_edges(
        folders,
        at,
        ax=axes,
        width=widths,
        edge_color="#7a8aa0",
        alpha=0.5,
        arrowsize=7,
        node_size=900,
        connectionstyle="arc3,rad=0.06",
    )
    nx.draw_networkx_labels(
        folders,
        at,
        names,
        ax=axes,
        font_size=7,
        bbox={"boxstyle": "round", "facecolor": "#eef3fa", "edgecolor": "#35507a", "linewidth": 0.8},
    )
    axes.set_axis_off()


def main() -> None:
    """Prints a row for each checkout and draws all of them."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("checkouts", nargs="*", type=Path, default=[HERE])
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    print(
        "| | lines | folders | modules | imports | arrows between folders | circles of folders | circles of modules |",
        end="",
    )
    print(" loaded by a release | by a fit | by a query | rooms of the rows | climbs | returns |")
    print("|---" * 14 + "|")
    drawn = []
    for checkout in given.checkouts:
        graph = imports(checkout.resolve())
        folders = rooms(graph, checkout.resolve())
        figures = [lines(checkout), len(folders), len(graph), graph.number_of_edges(), folders.number_of_edges()]
        figures += [circles(folders), circles(graph), *(loaded(checkout.resolve(), job) for job in LOADING)]
        figures += way_of_rows(checkout.resolve())
        print(f"| {checkout.resolve().name} |", " | ".join(map(str, figures)), "|")
        drawn.append((folders, checkout.resolve()))
    if given.out:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, len(drawn), figsize=(9 * len(drawn), 9), squeeze=False)
        for one, (folders, checkout) in zip(axes[0], drawn, strict=True):
            draw(one, folders, checkout)
        figure.tight_layout()
        figure.savefig(given.out, dpi=110)


if __name__ == "__main__":
    main()
