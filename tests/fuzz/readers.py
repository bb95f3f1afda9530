"""The readers of files, what each is fed with, and what it may raise."""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dpgraph as dg
from dpgraph.files.documents import document, value_of
from dpgraph.files.networks import network_of, parse_json, plain_network, read_declaration
from dpgraph.files.pgmpy import write_bif
from dpgraph.files.queried import queried, read_questions
from tests.files.test_schemas import JSON_SCHEMA, PANDERA, TABLE
from tests.fuzz.mutations import mutated, mutated_document

SAVED = Path(__file__).parents[1] / "files" / "saved"

Mutation = Callable[[bytes, Sequence[bytes], random.Random], bytes]


@dataclass(frozen=True)
class Reader:
    """A reader of files.

    Args:
        suffix: How the names of its files end.
        seeds: Files that it reads.
        read: Reads a file; what it returns it has checked.
        refusal: The class of errors by which it refuses.
        mutation: What is done to the seeds.
    """

    suffix: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], Any]
    refusal: type[Exception] = dg.errors.FileError
    mutation: Mutation = mutated


def _there_and_back(value: Any) -> None:
    """What was read can be written, and reads back the same."""
    text = json.dumps(document(value), allow_nan=False)
    assert json.dumps(document(value_of(parse_json(text))), allow_nan=False) == text


def _model(path: Path) -> None:
    _there_and_back(dg.load(path))


def _network(path: Path) -> None:
    network = dg.read_network(path)
    assert network_of(parse_json(json.dumps(plain_network(network)))) == network


def _domain(path: Path) -> None:
    """A TOML file as each of the things that it may be."""
    for read in (_network, dg.read_domain, read_declaration, lambda path: dg.read_design(path, "age"), read_questions):
        try:
            read(path)
        except dg.errors.FileError as error:
            refused = error
        else:
            return
    raise refused


def _document(path: Path) -> None:
    for read in (_model, lambda path: queried(str(path))):
        try:
            read(path)
        except dg.errors.FileError as error:
            refused = error
        except dg.errors.InferenceError:
            return
        else:
            return
    raise refused


def bundled(name: str) -> str:
    """One of pgmpy's networks as BIF text."""
    folder = Path(str(importlib.util.find_spec("pgmpy").origin)).parent / "utils" / "example_models"  # type: ignore[union-attr]
    return gzip.decompress((folder / f"{name}.bif.gz").read_bytes()).decode()


RICH_BIF = """// a comment
network "of many words" { property "author = nobody {}" ; }
variable "Dog Problem" { type discrete [ 2 ] { "true", "not, true" }; property position = (73, 165) ; }
variable b { /* here too */ type discrete[3] { low mid high }; }
variable c { type discrete [ 2 ] { yes, no }; }
probability ( "Dog Problem" ) { table 1e-5 0.99999; }
probability ( b | "Dog Problem", c ) {
  property why = { because } ;
  default 0.2, 0.3, 0.5;
  (true, yes) 0.25, 0.25, 0.5;
}
probability ( c "Dog Problem" ) { table .1, .2, .9, .8; }
"""


def _bif_seeds() -> list[bytes]:
    written = write_bif(dg.load("example:cancer"))
    return [text.encode() for text in (RICH_BIF, written, *map(bundled, ("asia", "sachs", "child")))]


TOML = """strict = false
[variables]
sex = ["Female", "Male"]
age = { bins = [17, 25, 35.5, 90], missing = true }
work = { levels = ["Private", "Public", "Other"], other = "Other", missing = "Other" }
rate = [0, 0.5, 1]
"full time" = [true, false]
[parents]
sex = []
age = ["sex"]
work = ["sex", "age"]
"full time" = ["work"]
"""
OPEN = """strict = true
[variables]
age = { numbers = [0, 120], missing = true, about = 8 }
job = { words = true, missing = true }
code = { words = ["a", "b"], missing = true }
"""
DESIGN = """[variables]
sex = ["F", "M"]
age = { bounds = [18, 90] }
wage = { bounds = [0.0, 10.5], missing = 0 }
"""
QUESTIONS = """[[question]]
target = "a"
given = { b = ["x", "y"], "c.d" = 1 }
interval = 0.9
[[question]]
target = ["a", "b"]
do = { e = \"\"\"x\"\"\" }
samples = 0x10
"""


def _toml_seeds() -> list[bytes]:
    return [text.encode() for text in (TOML, OPEN, DESIGN, QUESTIONS)]


def _json_seeds() -> list[bytes]:
    plain = [plain_network(dg.read_network(f"example:{name}")) for name in ("cancer", "asia")]
    return [json.dumps(one).encode() for one in plain]


def _schema(path: Path) -> None:
    """A schema as a domain, which is then written and read as one of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.DomainWarning)
        domain = dg.read_domain(path)
    plain = plain_network(dg.Network.of(domain, {}))
    assert network_of(parse_json(json.dumps(plain))).domain == domain


def _schema_seeds() -> list[bytes]:
    return [json.dumps(one).encode() for one in (JSON_SCHEMA, {"resources": [{"schema": TABLE}]}, TABLE, PANDERA)]


def _document_seeds() -> list[bytes]:
    """Saved files that are small."""
    saved = [path.read_bytes() for path in sorted(SAVED.glob("*.json"))]
    return [data for data in saved if len(data) < 20_000]


def _archive_seeds() -> list[bytes]:
    """Saved values as archives."""
    made = []
    for name in ("posterior-draws", "laplace-replace", "posterior"):
        with tempfile.TemporaryDirectory() as folder:
            dg.save(dg.load(SAVED / f"{name}.json"), Path(folder) / "value.npz")
            made.append((Path(folder) / "value.npz").read_bytes())
    return made


READERS = {
    "bif": Reader(".bif", _bif_seeds, _model),
    "toml": Reader(".toml", _toml_seeds, _domain),
    "json": Reader(".json", _json_seeds, _network, mutation=mutated_document),
    "schemas": Reader(".json", _schema_seeds, _schema, mutation=mutated_document),
    "documents": Reader(".json", _document_seeds, _document, mutation=mutated_document),
    "archives": Reader(".npz", _archive_seeds, _document),
}
