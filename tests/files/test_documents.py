"""Files round-trip exactly, hold nothing private, and a hostile one is refused by name or not at all."""

import copy
import json
import math
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.files.documents import document, probabilities_of, value_of
from dpgraph.files.networks import parse_json
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.privacy.measurements import SumZeroLaplace
from tests.files.edits import edited
from tests.small_tables import LABELLED, labelled
from tests.strategies import networks, networks_with_frames, probabilities, words
from tests.tiers import examples

NETWORK = dg.Network.of(
    {
        "a": ["x", "y"],
        "b": dg.Bins([0, 1, 2.5], missing=True),
        "c": dg.Categories([1, 2.5], other=1, missing=2.5),
        "d": [True, False],
    },
    {"b": ["a"], "c": ["b"], "d": ["a", "b"]},
)
ROWS = pd.DataFrame(
    {
        "a": ["x", "y", "x"] * 17,
        "b": [0.5, math.nan, 9.0] * 17,
        "c": [1, 2.5, 7] * 17,
        "d": [True, False, True] * 17,
    }
)

REPLACE, ADD_REMOVE = dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove", 2)


def released(unit=REPLACE, tables="maximal", epsilon="1/3"):
    mechanism = dg.LaplaceMechanism(epsilon, tables=tables)
    return dg.release(
        dg.count(ROWS, NETWORK), mechanism, budget=dg.Budget(1, unit=unit), noise=dg.testing.SeededNoise(4)
    )


RELEASE, PRIVATE_N = released(), released(ADD_REMOVE, "families")
POSTERIOR = dg.posterior(RELEASE, prior=0.1, method="plug-in")
MODEL = dg.results.NaiveBayes(
    "a",
    dg.Probabilities(
        dg.naive_bayes_network(NETWORK.domain.restrict("ab"), "a"), {"a": [0.1, 0.9], "b": np.full((3, 2), 1 / 3)}
    ),
)
VALUES = {
    "network": NETWORK,
    "release": RELEASE,
    "release with private n": PRIVATE_N,
    "posterior": POSTERIOR,
    "probabilities": POSTERIOR.mean(),
    "probabilities without provenance": dg.Probabilities(POSTERIOR.network, POSTERIOR.mean().tables),
    "draw": POSTERIOR.sample(np.random.default_rng(1))[0],
    "naive Bayes": MODEL,
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_file_reads_back_the_same_value(kind, tmp_path):
    path = tmp_path / "value.json"
    dg.save(VALUES[kind], path)
    loaded = dg.load(path)
    assert type(loaded) is type(VALUES[kind])
    assert loaded == VALUES[kind]
    assert dg.load(str(path)) == loaded
    dg.save(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def there_and_back(value):
    return value_of(parse_json(json.dumps(document(value), allow_nan=False)))


@settings(deadline=None, max_examples=examples(40))
@given(networks_with_frames(names=words, text=words), st.sampled_from([REPLACE, ADD_REMOVE]), st.integers(0, 99))
def test_any_network_and_any_release_read_back_the_same(case, unit, seed):
    network, frame = case
    assert there_and_back(network) == network
    counts = dg.count(frame, network)
    release = dg.release(
        counts, dg.LaplaceMechanism("0.7"), budget=dg.Budget(1, unit=unit), noise=dg.testing.SeededNoise(seed)
    )
    again = there_and_back(release)
    assert again == release
    assert (again.event.epsilon, again.private) == (release.event.epsilon, False)


@settings(deadline=None, max_examples=examples(40))
@given(networks().flatmap(probabilities), st.integers(0, 2**32))
def test_any_table_of_doubles_reads_back_the_same(value, seed):
    assert there_and_back(value) == value
    rng = np.random.default_rng(seed)
    wild = {name: np.exp(rng.normal(0, 60, table.shape)) for name, table in value.tables.items()}
    learned = DirichletPosterior(value.network, wild)
    assert there_and_back(learned) == learned


def test_a_secure_release_is_marked_private():
    release = dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1))
    assert there_and_back(release).private is True
    assert document(release)["private"] is True
    assert document(RELEASE)["private"] is False


def test_a_file_names_its_format_event_unit_and_cost():
    plain = document(PRIVATE_N)
    assert plain["format"] == "dpgraph-release"
    assert plain["version"] == 3
    assert plain["unit"] == {"neighbours": "add-remove", "rows_per_person": 2}
    assert plain["cost"] == {"epsilon": "1/3", "delta": "0"}
    assert plain["event"]["mechanism"] == "LaplaceMechanism"
    assert [entry["variables"] for entry in plain["tables"]] == [list(family) for family in NETWORK.families]
    assert {entry["law"]["name"] for entry in plain["tables"]} == {"discrete-laplace"}
    assert {entry["law"]["name"] for entry in document(RELEASE)["tables"]} == {"sum-zero-laplace"}


def numbers(plain):
    """Every number in a document."""
    if isinstance(plain, dict):
        return [x for value in plain.values() for x in numbers(value)]
    if isinstance(plain, list):
        return [x for value in plain for x in numbers(value)]
    return [plain] if isinstance(plain, int | float) and not isinstance(plain, bool) else []


@pytest.mark.parametrize("rows", [1371, 86243])
def test_a_file_under_add_remove_holds_no_exact_count(rows, tmp_path):
    """The noise is replaced by a large known shift, so an exact count would be found as itself."""

    class Shift:
        private = False

        def add(self, values, law):
            shift = np.full(len(values), 1_000_003)
            if isinstance(law, SumZeroLaplace):
                shift[1] = -1_000_003
            return values + shift

    frame = pd.DataFrame({"a": ["x"] * (rows - 518) + ["y"] * 518})
    network = dg.Network.of({"a": ["x", "y"]}, {})
    exact = {rows, rows - 518, 518}
    found = {}
    for unit in (REPLACE, ADD_REMOVE):
        release = dg.release(
            dg.count(frame, network), dg.LaplaceMechanism(1), budget=dg.Budget(1, unit=unit), noise=Shift()
        )
        values = {
            "release": release,
            "posterior": dg.posterior(release, method="plug-in"),
            "mean": dg.posterior(release, method="plug-in").mean(),
        }
        found[unit] = set()
        for name, value in values.items():
            dg.save(value, tmp_path / f"{name}.json")
            text = (tmp_path / f"{name}.json").read_text()
            found[unit] |= exact & set(numbers(json.loads(text)))
            assert unit.n_is_public or str(rows) not in text
    assert document(release)["n"] is None
    assert found == {REPLACE: {rows}, ADD_REMOVE: set()}


@pytest.mark.parametrize(
    "value",
    [
        dg.count(ROWS, NETWORK),
        dg.statistics.encode(ROWS, NETWORK.domain),
        ROWS,
        ROWS["a"],
        ROWS.assign(model_=1),
        dg.Budget(1),
        RELEASE.value,
        dg.reconcile(RELEASE),
        dg.LaplaceMechanism(1),
        dg.PrivateNaiveBayes(NETWORK.domain),
        NETWORK.domain,
        RELEASE.map(lambda value: dg.count(ROWS, NETWORK)),
        {"a": 1},
        "text",
        None,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("suffix", [".json", ".npz", ".bif"])
def test_what_is_not_a_public_value_is_not_saved(value, suffix, tmp_path):
    path = tmp_path / f"value{suffix}"
    with pytest.raises(dg.errors.FileError, match=r"is not saved|has no probability tables|nothing yet: fit it first"):
        dg.save(value, path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["value", "value.txt", "value.pkl", "value.json.gz", "json"])
def test_the_name_says_the_format(name, tmp_path):
    with pytest.raises(dg.errors.FileError, match=r"must end in \.json, \.npz or \.bif"):
        dg.save(NETWORK, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_fitted_estimator_is_saved_as_its_model(tmp_path):
    fitted = dg.PrivateNaiveBayes(NETWORK.domain, noise=dg.testing.SeededNoise(0)).fit(ROWS[["a", "b", "c"]], ROWS["d"])
    dg.save(fitted, tmp_path / "m.json")
    assert dg.load(tmp_path / "m.json") == fitted.model_
    assert fitted.model_.probabilities.provenance == fitted.release_.provenance


def test_bif_keeps_the_mean_of_a_posterior(tmp_path):
    for value in (POSTERIOR, POSTERIOR.mean(), RELEASE.map(lambda noisy: POSTERIOR)):
        lost = pytest.warns(dg.errors.FileWarning, match="no intervals")
        with nullcontext() if isinstance(value, dg.Probabilities) else lost:
            dg.save(value, tmp_path / "m.bif")
        for name in NETWORK.domain.names:
            np.testing.assert_allclose(
                dg.load(tmp_path / "m.bif").table(name), POSTERIOR.mean().table(name), rtol=1e-12
            )
    assert probabilities_of(MODEL) is MODEL.probabilities


@pytest.mark.parametrize("where", ["folder that is not", "folder instead of a file", "name too long"])
def test_a_file_that_cannot_be_written_is_refused_and_nothing_is_left(where, tmp_path):
    path = {
        "folder that is not": tmp_path / "none" / "m.json",
        "folder instead of a file": tmp_path / "m.json",
        "name too long": tmp_path / ("m" * 300 + ".json"),
    }[where]
    if where == "folder instead of a file":
        path.mkdir()
    with pytest.raises(dg.errors.FileError, match="cannot be written"):
        dg.save(NETWORK, path)
    assert [entry.name for entry in tmp_path.rglob("*")] == (["m.json"] if where == "folder instead of a file" else [])


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt, MemoryError])
def test_a_save_that_fails_leaves_the_old_file_whole(failure, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    dg.save(NETWORK, path)
    before = path.read_bytes()

    def fail(*args):
        raise failure

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(dg.errors.FileError if failure is OSError else failure):
        dg.save(POSTERIOR, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_saved_file_may_be_read_by_whom_any_new_file_may(tmp_path):
    dg.save(NETWORK, tmp_path / "m.json")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "m.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def load_text(text, tmp_path):
    path = tmp_path / "hostile.json"
    path.write_text(text, encoding="utf-8")
    return dg.load(path)


def refused(plain, tmp_path):
    """Loading refuses, with one of the two classes and the file's name."""
    text = plain if isinstance(plain, str) else edited(plain)
    with pytest.raises(dg.errors.FileError) as caught:
        load_text(text, tmp_path)
    assert type(caught.value) is dg.errors.FileError
    assert "hostile.json" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", VALUES)
def test_a_file_cut_short_is_refused(kind, tmp_path):
    text = json.dumps(document(VALUES[kind]))
    for end in [*range(0, len(text), max(1, len(text) // 40)), len(text) - 1]:
        refused(text[:end], tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "3",
        '"dpgraph-network"',
        "{}",
        "[" * 200_000,
        '{"format": "dpgraph-network"' + ', "x": [' * 50_000,
        '{"format": "dpgraph-network", "version": 3}',
        '{"format": ["dpgraph-network"], "version": 3, "network": {}}',
        '{"format": "pickle", "version": 3, "network": {}}',
        '{"format": "dpgraph-", "version": 3, "network": {}}',
        '{"format": "dpgraph-network", "format": "dpgraph-network", "version": 3}',
        '{"version": 3' + "0" * 5000 + "}",
        "\ud7ff" * 3,
        "cposix\nsystem\n(S'true'\ntR.",
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_document_is_refused(text, tmp_path):
    refused(text, tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "x.json").write_bytes(b"\x80\x04\x95\xff\xfe")
    with pytest.raises(dg.errors.FileError, match="cannot be read"):
        dg.load(tmp_path / "x.json")
    with pytest.raises(dg.errors.FileError, match="cannot be read"):
        dg.load(tmp_path / "none.json")


JUNK = [
    None,
    True,
    -1,
    0,
    1.5,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    {"x": 1},
    10**30,
    -(10**400),
    "1e999",
    "nan",
    [[[[[1]]]]],
]


def paths(plain, before=()):
    """Every place in a document, the first two of each list."""
    if before:
        yield before
    pairs = plain.items() if isinstance(plain, dict) else enumerate(plain[:2]) if isinstance(plain, list) else ()
    for key, value in pairs:
        yield from paths(value, (*before, key))


def changed(plain, path, *value):
    """A copy with another value in one place, or without that place."""
    made = copy.deepcopy(plain)
    at = made
    for key in path[:-1]:
        at = at[key]
    if value:
        at[path[-1]] = value[0]
    else:
        del at[path[-1]]
    return made


@pytest.mark.proof
@pytest.mark.parametrize("kind", VALUES)
def test_junk_in_any_place_is_refused_or_still_a_value(kind, tmp_path):
    """Never another class of error; and what is loaded after all is sound: it saves, and reads back as it is."""
    plain = document(VALUES[kind])
    survived = 0
    for path in paths(plain):
        for made in (changed(plain, path), *(changed(plain, path, junk) for junk in JUNK)):
            try:
                loaded = value_of(parse_json(json.dumps(made)))
            except dg.errors.DPGraphError:
                continue
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, IndexError):
                refused(made, tmp_path)
                continue
            survived += 1
            assert there_and_back(loaded) == loaded
    assert survived < 17 * len(list(paths(plain))) / 4


BROKEN = {
    "an unknown version": (("version",), 4),
    "no version": (("version",), None),
    "an unknown format": (("format",), "dpgraph-hmm"),
    "no event": (("event",), None),
    "a negative scale": (("tables", 0, "law", "scale"), -1.0),
    "a scale of zero": (("tables", 0, "law", "scale"), 0),
    "a scale that is true": (("tables", 0, "law", "scale"), True),
    "a scale in words": (("tables", 0, "law", "scale"), "3"),
    "a huge whole scale": (("tables", 0, "law", "scale"), 10**400),
    "another scale than the event's": (("tables", 0, "law", "scale"), 1.5),
    "another law than the event's": (("tables", 0, "law", "name"), "discrete-laplace"),
    "an unknown law": (("tables", 0, "law", "name"), "cauchy"),
    "a count that is no whole number": (("tables", 0, "counts", 0, 0), 0.5),
    "a count in words": (("tables", 0, "counts", 0, 0), "7"),
    "a count beyond 64 bits": (("tables", 0, "counts", 0, 0), 2**63),
    "a count far beyond 64 bits": (("tables", 0, "counts", 0, 0), 10**40),
    "a table of another shape": (("tables", 0, "counts"), [[1, 2], [3, 4]]),
    "a ragged table": (("tables", 0, "counts", 0), [[1, 2], [3], 4, 5]),
    "a table of unknown variables": (("tables", 0, "variables"), ["a", "z"]),
    "a table of other variables": (("tables", 0, "variables"), ["a", "b"]),
    "a table that is not the event's": (("event", "measurements", 0, "table"), ["a", "b"]),
    "other cells than the event's": (("event", "measurements", 0, "cells"), 7),
    "no tables": (("tables",), []),
    "no measurements": (("event", "measurements"), []),
    "epsilon as a number": (("event", "epsilon"), 1.0),
    "epsilon zero": (("event", "epsilon"), "0"),
    "epsilon nan": (("event", "epsilon"), "nan"),
    "epsilon another than the cost": (("event", "epsilon"), "0.001"),
    "a cost that is not the event's": (("cost", "epsilon"), "0.001"),
    "negative delta": (("event", "delta"), "-1"),
    "an unknown unit": (("unit", "neighbours"), "bounded"),
    "no person": (("unit", "rows_per_person"), 0),
    "n where it is private": (("unit", "neighbours"), "add-remove"),
    "no n where it is public": (("n",), None),
    "a negative n": (("n",), -1),
    "n that is no whole number": (("n",), 51.0),
    "a huge n": (("n",), 10**400),
    "private in words": (("private",), "yes"),
    "another network": (("network", "variables", "a"), ["x", "y", "z"]),
    "a cyclic network": (("network", "parents", "a"), ["d"]),
    "an empty network": (("network", "variables"), {}),
    "no network": (("network",), None),
    "a huge network": (("network", "variables"), {name: {"levels": list(range(300))} for name in "abcd"}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_release_whose_parts_do_not_fit_is_refused(case, tmp_path):
    plain = document(RELEASE)
    assert [entry["variables"] for entry in plain["tables"]] == [["c", "b"], ["d", "a", "b"]]
    refused(changed(plain, *BROKEN[case]), tmp_path)


@pytest.mark.parametrize(("unit", "n"), [(REPLACE, None), (dg.PrivacyUnit("add-remove"), 51)], ids=str)
def test_n_is_there_exactly_where_it_is_public(unit, n, tmp_path):
    """Independent noise in each cell, so that nothing else of the file contradicts the number of rows."""
    mechanism, noise = dg.LaplaceMechanism("1/3", noise="independent"), dg.testing.SeededNoise(4)
    release = dg.release(dg.count(ROWS, NETWORK), mechanism, budget=dg.Budget(1, unit=unit), noise=noise)
    said = refused(changed(document(release), ("n",), n), tmp_path)
    assert "the number of rows is there exactly when the unit makes it public" in said


def test_a_table_given_twice_is_refused(tmp_path):
    plain = document(RELEASE)
    plain["tables"].append(plain["tables"][0])
    assert "not those the event measured" in refused(plain, tmp_path)
    plain["event"]["measurements"].append(plain["event"]["measurements"][0])
    assert "but its noise costs" in refused(plain, tmp_path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("kind", ["release", "posterior", "probabilities", "naive Bayes"])
def test_a_number_that_is_none_is_refused_wherever_it_stands(kind, number, tmp_path):
    """1e999 is good JSON, and infinite."""
    plain = document(VALUES[kind])
    places = [path for path in paths(plain) if isinstance(path[-1], int) or path[-1] in ("scale", "n")]
    tried = 0
    for path in places:
        marked = changed(plain, path, "@")
        if kind == "release" and path[-1] == "scale":  # the table's law and the event's, so that they agree
            for entry, planned in zip(marked["tables"], marked["event"]["measurements"], strict=True):
                entry["law"]["scale"] = planned["law"]["scale"] = "@"
        text = json.dumps(marked).replace('"@"', number)
        if isinstance(plain_at(plain, path), int | float):
            refused(text, tmp_path)
            with pytest.raises((dg.errors.DPGraphError, OverflowError)):
                value_of(parse_json(text))
            tried += 1
    assert tried >= 2


def plain_at(plain, path):
    for key in path:
        plain = plain[key]
    return plain


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("posterior", ("concentration", "a"), [1.0, 2.0, 3.0]),
        ("posterior", ("concentration", "a"), [0.0, 1.0]),
        ("posterior", ("concentration", "a"), [-1.0, 1.0]),
        ("posterior", ("concentration", "a"), ["1", "2"]),
        ("posterior", ("concentration", "a"), [True, True]),
        ("posterior", ("concentration", "z"), [1.0]),
        ("posterior", ("concentration",), {}),
        ("probabilities", ("tables", "a"), [0.5, 0.6]),
        ("probabilities", ("tables", "a"), [1.5, -0.5]),
        ("probabilities", ("tables", "a"), [1.0]),
        ("probabilities", ("tables", "a"), [None, 1.0]),
        ("probabilities", ("tables", "z"), [1.0]),
        ("probabilities", ("tables",), []),
        ("naive Bayes", ("target",), "b"),
        ("naive Bayes", ("target",), "z"),
        ("naive Bayes", ("target",), None),
        ("naive Bayes", ("network", "parents", "b"), []),
        ("naive Bayes", ("network", "parents"), {"a": ["b"], "b": []}),
    ],
    ids=str,
)
def test_a_model_whose_parts_do_not_fit_is_refused(kind, path, value, tmp_path):
    refused(changed(document(VALUES[kind]), path, value), tmp_path)


def test_loading_runs_nothing(tmp_path):
    """Names that would mean something to eval, format, pickle or a shell stay names."""
    names = ["__import__('os').system('touch ran')", "{0.__class__}", "$(touch ran)", "c__builtin__\neval\n"]
    network = dg.Network.of({name: ["x", name] for name in names}, {names[0]: names[1:]})
    dg.save(network, tmp_path / "n.json")
    program = "import sys, dpgraph as dg; print(repr(dg.load(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", program, "n.json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Network(4 variables")
    assert [path.name for path in tmp_path.iterdir()] == ["n.json"]
    assert dg.load(tmp_path / "n.json") == network


def test_what_was_not_fitted_says_so_when_it_is_written(tmp_path):
    for model in (dg.PrivateNaiveBayes(LABELLED, target="y"), dg.PrivateHMM(2)):
        for write, name in ((dg.save, "m.json"), (dg.write_html, "m.html")):
            with pytest.raises(dg.errors.FileError, match="has learned nothing yet: fit it first"):
                write(model, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_file_of_rows_is_not_said_to_be_cut_short(tmp_path):
    labelled().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(dg.errors.FileError, match="not a dpgraph file: load reads"):
        dg.load(tmp_path / "rows.csv")
