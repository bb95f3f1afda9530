"""Public values to JSON and back, exactly.

A file names its format and version, carries the record of its release, and ends in a digest (``files.digest``). Nothing
in it is executed, and no record is believed that public structure or its own noise contradicts. Sensitive values have
no saver.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.files import models, networks  # noqa: F401 - models registers the codecs of posteriors and models
from dpgraph.files.atomic_write import is_stream, replacing, write_text
from dpgraph.files.codecs import (
    Codec,
    codec_of_kind,
    described_in,
    needed_network,
    plain_provenance,
    provenance_of,
    register_codecs,
    structural,
    written,
)
from dpgraph.files.digest import VERSION, check_version, sealed, unsealed
from dpgraph.files.limits import MAX_DOCUMENT_BYTES, MAX_NETWORK_BYTES, read_text
from dpgraph.files.packed import MOST_BYTES, nested, read_packed, unpacked, write_packed
from dpgraph.files.releases import check_total
from dpgraph.inference.discovery import Discovered
from dpgraph.inference.graphs.choosing import learned_from
from dpgraph.inference.graphs.constraints import Constraints
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.inference.regression.posterior import METHODS
from dpgraph.models.conditional import ConditionalClassifier
from dpgraph.models.naive_bayes import NaiveBayes
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.models.weighted import NO_TABLES, WeightedNaiveBayes
from dpgraph.privacy.checks import check_whole
from dpgraph.privacy.errors import FileError, FileWarning
from dpgraph.privacy.records import Provenance, Release
from dpgraph.privacy.release import recorded
from dpgraph.privacy.scope import RowsRecord
from dpgraph.privacy.structural import plain_of
from dpgraph.privacy.structural import value_of as structural_value
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities, own_methods
from dpgraph.waiting import waiting

#: The part of a fitted estimator's file that is its release.
BESIDE = "release"
#: The most numbers of a classifier's posterior that its file keeps: some 70 MB of JSON, and what ``.npz`` may hold.
KEPT = {".npz": MOST_BYTES // 16, ".json": 1 << 21}


def save(value: Any, path: str | Path, *, release: Release[Any] | None = None, progress: bool = False) -> None:
    """Writes a public value to ``.json``, to ``.npz``, where arrays are binary, or, probabilities alone, to ``.bif``.

    A network, or the result of ``discover``, may also be written to ``.toml``, to be read and edited.

    A value is a Network, LinearDesign, Release, posterior, Probabilities or fitted model; BIF has a posterior's mean.
    Of a fitted estimator its model is written, with the posterior that intervals need, and its release beside that, to
    learn from again for free; BIF keeps neither. A classifier of 210 cells takes 3.9 MB of JSON or .8 MB of ``.npz``.

    The file appears whole or not at all; an existing one keeps its permissions, and a symbolic link stays. ``.json``
    and ``.npz`` hold the same to the last bit; ``.npz`` is for many draws: it is smaller and quicker to read, and a
    question reads the tables it needs. A pipe or ``/dev/stdout`` takes JSON, whatever its name, unless that ends in
    ``.bif`` or ``.npz``.

    Args:
        value: The value.
        path: The file.
        release: The release behind a model, to be kept beside it; an estimator has its own.
        progress: A bar on a terminal, which counts the arrays of ``.npz``.

    Raises:
        FileError: If the value is sensitive or of another kind, the name ends otherwise, or the file cannot be written.
        NetworkError: If two levels read the same in BIF, which knows text alone.
        ReleaseError: If its record is not one of dpgraph's mechanisms'.

    Warns:
        DomainWarning: If BIF does not keep a name or a level, and the file has another in its place.
        FileWarning: If the file does not keep the posterior: BIF never does, ``.json`` and ``.npz`` do up to a size.
    """
    released = getattr(value, "release_", None) if hasattr(value, "model_") else release
    with waiting("saving", progress):
        _save(getattr(value, "model_", value), Path(path), released)


def _save(value: Any, target: Path, released: Any) -> None:
    value, lost = _kept(value, target.suffix.lower())
    if target.suffix.lower() == ".bif":
        from dpgraph.files.pgmpy import write_bif

        text = write_bif(probabilities_of(value))
        if len(text) > MAX_NETWORK_BYTES:
            raise FileError(f"{target} would have {len(text):,} bytes, more than is read of BIF; use .json or .npz")
        write_text(target, text)
    elif target.suffix.lower() == ".npz":
        plain = _document_with_arrays(value) | _beside(released)
        with replacing(target) as file:
            write_packed(file, plain)
    elif target.suffix.lower() == ".toml" and isinstance(value, Network):
        write_text(target, networks.toml_of(value))
    elif target.suffix.lower() == ".toml" and isinstance(value, Discovered):
        write_text(target, networks.domain_toml(value.domain, value.remarks))
    elif target.suffix.lower() == ".json" or is_stream(target):
        plain = sealed(document(value) | nested(_beside(released)))
        write_text(target, json.dumps(plain, indent=1, allow_nan=False) + "\n")
    else:
        raise FileError(f"{target}: the name must end in .json, .npz or .bif")
    if lost:
        words = f"{target} keeps mean tables and no posterior, so its predictions have no intervals: {lost}"
        warnings.warn(words, FileWarning, stacklevel=3)


def _kept(value: Any, suffix: str) -> tuple[Any, str]:
    """A value as a file keeps it, and why a posterior is not kept; empty if it is."""
    held = value.value if isinstance(value, Release) else value
    posterior = held.posterior if isinstance(held, NaiveBayes) else held
    if suffix == ".bif":
        is_lost = isinstance(posterior, DirichletPosterior | PosteriorDraws)
        return value, "BIF has probabilities alone; .json and .npz keep the posterior" if is_lost else ""
    if not isinstance(value, NaiveBayes) or not isinstance(posterior, PosteriorDraws):
        return value, ""
    numbers = sum(table.size for table in posterior.tables.values())
    most = KEPT.get(suffix, KEPT[".json"])
    if numbers <= most:
        return value, ""
    more = "" if suffix == ".npz" else "; .npz keeps more"
    return replace(value, posterior=None), f"it has {numbers:,} numbers, more than {most:,}{more}"


def load(
    path: str | Path, *, max_bytes: int = MAX_DOCUMENT_BYTES, release: bool = False, progress: bool = False
) -> Any:
    """Reads a file that ``save`` wrote, or the probabilities of a BIF file or of ``"example:alarm"``.

    A classifier, a regression or a hidden Markov model predicts from tables, arrays and paths, as its estimator does.

    Args:
        path: The file.
        max_bytes: The largest JSON file that is read, 512 MiB unless this says otherwise; it takes some ten times
            its size in memory.
        release: True to read, instead of a model, the release that its file keeps beside it.
        progress: A bar on a terminal, which counts the arrays of ``.npz``.

    Raises:
        FileError: If the file holds no release where one is asked for, is not one of dpgraph's, is cut short, was
            changed since it was written, or its parts do not fit each other: a claim, a movement or a total that
            cannot be; or the network in it is not valid.
    """
    if str(path).startswith(networks.EXAMPLE) or str(path).lower().endswith(".bif"):
        if release:
            raise FileError(f"{path} holds probabilities alone, no release")
        return networks.read_probabilities(path)
    read = _release_of if release else value_of
    check_whole("max_bytes", max_bytes, error=FileError)
    if str(path).lower().endswith(".toml"):
        raise FileError(
            f"{path} declares a domain or a graph, without probabilities: dg.read_network reads a graph, "
            "dg.read_domain the variables alone, dg.read_design those of a regression. dpgraph learn --model FILE "
            "keeps the probabilities it learned, and dpgraph posterior learns them from a release"
        )
    with waiting("loading", progress):
        if str(path).lower().endswith(".npz"):
            whole = unpacked(read_packed(Path(path)))
            return networks.with_source_name(path, lambda: read(whole))
        text = read_text(Path(path), max_bytes)
        if text.strip() and not text.lstrip().startswith("{"):
            raise FileError(f"{path} is not a dpgraph file: load reads .json and .npz, as save writes them")
        return networks.with_source_name(path, lambda: read(unsealed(networks.parse_json(text))))


def _beside(released: Any) -> dict[str, Any]:
    """The release beside the model in a fitted estimator's file."""
    return {} if released is None else {BESIDE: _document_with_arrays(released)}


def _release_of(plain: Any) -> Release[Any]:
    inner = plain.get(BESIDE, plain) if isinstance(plain, dict) else plain
    value = value_of(inner)
    if not isinstance(value, Release):
        raise FileError("it keeps no release: it was written from a model alone, or before models kept theirs")
    return value


def population(
    path: str, *, released: bool = False, constraints: Constraints | None = None, progress: bool = False
) -> Any:
    """What a file says of the people: its value, or what is learned of its release.

    The latter of a classifier whose own tables are not the population's, with ``released`` of any release, and with
    constraints of all.
    """
    value = load(path, progress=progress)
    if isinstance(value, WeightedNaiveBayes) or (constraints is not None and not isinstance(value, Release)):
        value, released = load(path, release=True), True
    if isinstance(value, ConditionalClassifier):
        value = value.posterior
    return learned_from(value, constraints) if released else value


def probabilities_of(value: Any) -> Probabilities:
    """The conditional probability tables that a value stands for."""
    match value:
        case Release():
            return probabilities_of(value.value)
        case WeightedNaiveBayes():
            raise FileError(NO_TABLES)
        case LearnedNetwork():
            return value.probabilities
        case Probabilities():
            return value
        case DirichletPosterior() | PosteriorDraws():
            return value.mean()
        case NaiveBayes():
            return value.probabilities
    if isinstance(value, Network):
        raise FileError("a network alone has no probability tables; dpgraph learn --model or --release writes them")
    if not hasattr(value, "fit") and (asked := own_methods(value)):
        raise FileError(f"{type(value).__name__} has no tables of a network; ask its own {asked}")
    raise FileError(f"{type(value).__name__} has no probability tables; a release of counts needs a posterior first")


def document(value: Any) -> dict[str, Any]:
    """The plain form of a public value, as it stands in JSON."""
    return nested(_document_with_arrays(value))


def _document_with_arrays(value: Any) -> dict[str, Any]:
    """The plain form of a public value, its large arrays as they are."""
    if isinstance(value, Release):
        codec, body = written(value.value, released=True)
        structure = codec.measured(value.value)
        scope = {} if value.scope is None else {"scope": plain_of(value.scope, RowsRecord)}
        record = plain_provenance(value.provenance, structure) | scope
        return _document(codec, "release", structure, record | {"kind": codec.kind}, body)
    value = LinearRegressionModel(value) if isinstance(value, RegressionDraws) else value
    codec, body = written(value, released=False)
    if codec.role == "description":
        return _document(codec, codec.kind, value if isinstance(value, Network) else None, {}, body)
    structure, provenance = codec.measured(value), codec.recorded(value)
    record = plain_provenance(provenance, structure)
    if provenance is not None and provenance.receipts:  # the rows of a ledger that paid
        record["receipts"] = list(provenance.receipts)
    return _document(codec, codec.kind, structure, record, body)


def _document(codec: Codec, kind: str, structure: Any, record: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The parts that every file has, its description in the place of files of this kind, and its body."""
    network = structure if isinstance(structure, Network) else None
    head = {
        "format": f"dpgraph-{kind}",
        "version": VERSION,
        "network": None if network is None else networks.plain_network(network),
        **record,
    }
    if codec.role != "description" and network is None and codec.measured_in is described_in:
        inner, description = written(structure, released=False)
        head["description"] = {"kind": inner.kind, **description}
    if taken := sorted(set(body) & {*head, "digest", BESIDE}):
        raise FileError(f"values of kind {codec.kind!r} write {', '.join(taken)}, which every file has already")
    return head | body


def value_of(plain: Any) -> Any:
    """The inverse of ``document``."""
    if not isinstance(plain, dict) or not str(plain.get("format", "")).startswith("dpgraph-"):
        raise FileError("not a dpgraph file")
    check_version(plain)
    kind = plain["format"].removeprefix("dpgraph-")
    released = kind == "release"
    codec = codec_of_kind(plain.get("kind") if released else kind, released=released)
    if codec is None and released:
        raise FileError(f"a release of kind {plain.get('kind')!r:.60} is not known")
    if codec is None:
        raise FileError(f"unknown format {plain['format']!r}")
    network = None if plain["network"] is None else networks.network_of(plain["network"])
    if codec.role == "description":
        return codec.read(plain, network, None)
    structure = codec.measured_in(plain, network)
    provenance = provenance_of(plain, structure)
    if not released:
        return codec.read(plain, structure, provenance)
    if provenance is None:
        raise FileError("a release without its event")
    value = codec.read(plain, structure, provenance)
    check_total(value)
    scope = structural_value(plain.get("scope"), RowsRecord | None, "scope")
    return recorded(Release(value, provenance.event, provenance.unit, provenance.private, scope))


def _check_regression(draws: RegressionDraws, provenance: Provenance | None) -> None:
    if draws.method not in METHODS or not all(map(np.isfinite, draws.mixing.values())):
        raise FileError("the record of the draws is not whole")
    if draws.weights.ndim != 2 or draws.variance.ndim != 1:
        raise FileError("the draws of weights are a table, and those of variances a list")


_plain_regression, _regression_of = structural(RegressionDraws, _check_regression)

register_codecs(
    Codec(
        "description", "network", Network, lambda network: {}, lambda plain, network, _: needed_network(plain, network)
    ),
    Codec(
        "description",
        "linear-design",
        LinearDesign,
        lambda design: {"design": plain_of(design)},
        lambda plain, *_: structural_value(plain["design"], LinearDesign, "design"),
    ),
    Codec(
        "fitted",
        "linear-regression",
        LinearRegressionModel,
        lambda model: _plain_regression(model.draws),
        lambda plain, design, provenance: LinearRegressionModel(_regression_of(plain, design, provenance)),
        attrgetter("draws.design"),
    ),
)
