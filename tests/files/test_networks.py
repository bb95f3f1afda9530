"""Networks and domains from TOML, JSON and BIF: what is read, what is refused, and never half a network."""

import gzip
import importlib.resources
import json
import math
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given

import dpgraph as dg
from dpgraph.files.networks import network_of, parse_json, plain_network, read_probabilities
from tests.fuzz.readers import TOML
from tests.strategies import networks, words

EXPECTED = dg.Network.of(
    {
        "sex": ["Female", "Male"],
        "age": dg.Bins([17, 25, 35.5, 90], missing=True),
        "work": dg.Categories(["Private", "Public", "Other"], other="Other", missing="Other"),
        "rate": [0, 0.5, 1],
        "full time": [True, False],
    },
    {"age": ["sex"], "work": ["sex", "age"], "full time": ["work"]},
)


def bundled(name):
    folder = importlib.resources.files("pgmpy") / "utils" / "example_models"
    return gzip.decompress((folder / f"{name}.bif.gz").read_bytes()).decode()


def refusal(path, reader=dg.read_network):
    with pytest.raises(dg.errors.FileError) as caught:
        reader(path)
    assert type(caught.value) is dg.errors.FileError
    return str(caught.value)


def written(tmp_path, text, name="n.toml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_toml(tmp_path):
    path = written(tmp_path, TOML)
    assert dg.read_network(path) == EXPECTED
    assert dg.read_network(str(path)) == EXPECTED
    assert dg.read_domain(path) == EXPECTED.domain


def test_json(tmp_path):
    path = written(tmp_path, json.dumps(plain_network(EXPECTED)), "n.json")
    assert dg.read_network(path) == EXPECTED
    assert dg.read_domain(path) == EXPECTED.domain


@given(networks(names=words, text=words))
def test_the_plain_form_is_json_and_reads_back_the_same(network):
    again = network_of(parse_json(json.dumps(plain_network(network))))
    assert again == network
    assert [type(level) for name in again.domain.names for level in again.domain.levels(name)] == [
        type(level) for name in network.domain.names for level in network.domain.levels(name)
    ]


def test_a_domain_may_come_without_parents_and_a_network_may_not(tmp_path):
    path = written(tmp_path, TOML.split("[parents]")[0])
    assert dg.read_domain(path) == EXPECTED.domain
    assert "has no [parents] table" in refusal(path)


@pytest.mark.parametrize("name", ["asia", "cancer", "sachs"])
def test_an_example_is_the_file_that_pgmpy_ships(name, tmp_path):
    assert dg.read_network(written(tmp_path, bundled(name), "x.bif")) == dg.read_network(f"example:{name}")
    assert dg.read_domain(f"example:{name}") == dg.read_network(f"example:{name}").domain


def test_windows_line_ends_and_upper_case_names_are_read(tmp_path):
    text = bundled("asia")
    assert dg.read_network(written(tmp_path, text.replace("\n", "\r\n"), "x.BIF")) == dg.read_network("example:asia")
    assert dg.read_network(written(tmp_path, TOML.replace("\n", "\r\n"), "x.TOML")) == EXPECTED


@pytest.mark.parametrize("name", ["nope", "", "../asia", "ASIA", "asia.bif"])
def test_an_unknown_example_is_refused_with_those_there_are(name):
    told = refusal(f"example:{name}")
    assert "networks: alarm, andes, asia," in told
    assert told.endswith("data sets: anes96, event_log, randhie")


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize("name", ["asia", "alarm"])
def test_bif_cut_at_any_tenth_is_refused(name, tenth, tmp_path):
    """Never a smaller network: the reader of pgmpy alone would return one."""
    text = bundled(name)
    path = written(tmp_path, text[: len(text) * tenth // 10], "x.bif")
    assert refusal(path).startswith(str(path))
    assert str(path) in refusal(path, dg.load)


def test_bif_cut_after_any_line_is_refused(tmp_path):
    lines = bundled("cancer").rstrip().splitlines(keepends=True)
    for end in range(len(lines)):
        refusal(written(tmp_path, "".join(lines[:end]), "x.bif"))
    assert dg.read_network(written(tmp_path, "".join(lines), "x.bif")) == dg.read_network("example:cancer")


BIF = """network test {
}
variable a {
  type discrete [ 2 ] { yes, no };
}
variable b {
  type discrete [ 2 ] { yes, no };
}
probability ( a ) {
  table 0.2, 0.8;
}
probability ( b | a ) {
  (yes) 0.3, 0.7;
  (no) 0.6, 0.4;
}
"""


def test_the_small_bif_is_whole(tmp_path):
    learned = dg.load(written(tmp_path, BIF, "x.bif"))
    assert learned.table("a").tolist() == [0.2, 0.8]
    assert learned.table("b").tolist() == [[0.3, 0.6], [0.7, 0.4]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("variable b {", "variable a {"),
        ("variable b {", "variable A {"),
        ("( b | a )", "( b | z )"),
        ("( b | a )", "( z | a )"),
        ("( b | a )", "( a | b )"),
        ("(no) 0.6, 0.4;\n", ""),
        ("(no)", "(maybe)"),
        ("0.3, 0.7", "0.3, 0.8"),
        ("0.3, 0.7", "-0.3, 1.3"),
        ("0.3, 0.7", "0.3"),
        ("0.3, 0.7", "nan, 0.7"),
        ("0.3, 0.7", "many, few"),
        ("0.2, 0.8", "0.2, 0.3, 0.5"),
        ("0.2, 0.8", "0, 0"),
        ("{ yes, no }", "{ }"),
        ("{ yes, no }", "{ yes, yes }"),
        ("probability ( a ) {", "probability ( a | b ) {"),
        ("variable", "node"),
    ],
)
def test_bif_whose_parts_do_not_fit_is_refused(old, new, tmp_path):
    assert BIF.count(old) >= 1
    path = written(tmp_path, BIF.replace(old, new, 1), "x.bif")
    refusal(path)
    refusal(path, dg.load)


def test_bif_with_an_absurdly_large_family_is_refused_before_memory_is_taken(tmp_path):
    """A file of 3 kB declares a table of 2^34 cells; the reader of pgmpy alone takes its 128 GB."""
    names = [f"v{i}" for i in range(34)]
    text = "network x {\n}\n"
    text += "".join(f"variable {name} {{\n  type discrete [ 2 ] {{ a, b }};\n}}\n" for name in names)
    text += "".join(f"probability ( {name} ) {{\n  table 0.5, 0.5;\n}}\n" for name in names[1:])
    text += f"probability ( v0 | {', '.join(names[1:])} ) {{\n  ({', '.join('a' * 33)}) 0.5, 0.5;\n}}\n"
    path = written(tmp_path, text, "x.bif")
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))\n"
        "import dpgraph as dg\n"
        "try: dg.read_network(sys.argv[1])\n"
        "except dg.errors.FileError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert f"the family of 'v0' ({', '.join(names)}) has {2**34:,} cells" in done.stdout


@pytest.mark.parametrize("name", ["x.toml", "x.json", "x.bif"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"hello", b"[1, 2]", b"null", b"\0" * 100], ids=repr)
def test_what_is_no_network_is_refused(name, data, tmp_path):
    refusal(written(tmp_path, data, name))
    refusal(written(tmp_path, data, name), dg.read_domain)


@pytest.mark.parametrize("name", ["none.toml", "none.bif", "none.json", "deep/none.toml", "n" * 500 + ".toml"])
def test_a_file_that_is_not_there_is_named(name, tmp_path):
    assert f"{tmp_path / name} cannot be read" in refusal(tmp_path / name)


@pytest.mark.parametrize("name", ["d.toml", "d.json", "d.bif"])
def test_a_folder_is_no_file(name, tmp_path):
    (tmp_path / name).mkdir()
    assert "cannot be read" in refusal(tmp_path / name)


@pytest.mark.parametrize("name", ["n.yaml", "n", "n.toml.txt", "toml"])
def test_a_file_of_another_kind_is_refused(name, tmp_path):
    assert "must end in .toml, .json or .bif" in refusal(written(tmp_path, TOML, name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[variables]\na = [0]\na = [1]\n[parents]\n", "cannot be parsed"),
        ("[variables]\na = [0]\n[variables]\nb = [0]\n[parents]\n", "cannot be parsed"),
        ("[variables]\na = [0\n[parents]\n", "cannot be parsed"),
        ("[parents]\na = []\n", "there is no table of variables"),
        ("variables = 3\n[parents]\n", "there is no table of variables"),
        ("[variables]\n[parents]\n", "there is no table of variables"),
        ("parents = 3\n[variables]\na = [0]\n", "has no [parents] table"),
        ("[variables]\na = []\n[parents]\n", "variable 'a': the level list is empty"),
        ("[variables]\na = 3\n[parents]\n", "variable 'a' needs a list of levels"),
        ("[variables]\na = { }\n[parents]\n", "variable 'a' needs a list of levels"),
        ("[variables]\na = { bins = [0, 1], levels = [0] }\n[parents]\n", "variable 'a' needs a list of levels"),
        ("[variables]\na = { bins = [0, 1], other = 0 }\n[parents]\n", "unknown settings ['other']"),
        ("[variables]\na = { levels = [0], extra = 0 }\n[parents]\n", "unknown settings ['extra']"),
        ("[variables]\na = { levels = 0 }\n[parents]\n", "levels and bins are lists"),
        ("[variables]\na = { bins = 'abc' }\n[parents]\n", "levels and bins are lists"),
        ("[variables]\na = { bins = [1, 0] }\n[parents]\n", "variable 'a': bin edges must be finite and increase"),
        ("[variables]\na = { bins = [0, inf] }\n[parents]\n", "variable 'a': a level must be"),
        ("[variables]\na = [nan]\n[parents]\n", "variable 'a': a level must be"),
        ("[variables]\na = [2020-01-01]\n[parents]\n", "variable 'a': a level must be"),
        ("[variables]\na = [[0]]\n[parents]\n", "variable 'a': a level must be"),
        ("[variables]\na = [0]\n[parents]\na = ['b']\n", "unknown parent 'b'"),
        ("[variables]\na = [0]\n[parents]\nb = []\n", "'b' is in the graph but not in the domain"),
        ("[variables]\na = [0]\n[parents]\na = 'a'\n", "must be a list of names"),
        ("[variables]\na = [0]\n[parents]\na = [1]\n", "must be names"),
        ("[variables]\na = [0]\n[parents]\na = ['a']\n", "the graph has a cycle: a -> a"),
        ("[variables]\na = [0]\nb = [0]\n[parents]\na = ['b']\nb = ['a']\n", "the graph has a cycle: "),
        ("[variables]\na = " + "[" * 5000 + "]" * 5000 + "\n[parents]\n", "cannot be parsed"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else value,
)
def test_bad_toml_is_refused_and_the_file_is_named(text, message, tmp_path):
    path = written(tmp_path, text)
    assert message in refusal(path)
    assert str(path) in refusal(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"variables": {"a": [0], "a": [1]}, "parents": {}}', "the key 'a' is there twice"),
        ('{"variables": {"a": [0]}, "parents": {}, "parents": {}}', "the key 'parents' is there twice"),
        ('{"variables": {"a": [NaN]}, "parents": {}}', "NaN is not a number"),
        ('{"variables": {"a": {"bins": [0, Infinity]}}, "parents": {}}', "Infinity is not a number"),
        ('{"variables": {"a": {"bins": [0, 1e999]}}, "parents": {}}', "'1e999' is not a number"),
        ('{"variables": {"a": [1' + "0" * 400 + ']}, "parents": {}}', "a level must be"),
        ('{"variables": {"a": [1' + "0" * 5000 + ']}, "parents": {}}', "cannot be parsed"),
        ('{"variables": {"a": [0]}, "parents": []}', "has no [parents] table"),
        ("[" * 100_000, "cannot be parsed"),
        ('{"variables": {"": [0]}, "parents": {}}', "a variable's name must be text and not empty"),
        ('{"variables": {"a": [null]}, "parents": {}}', "a level must be"),
    ],
    ids=lambda value: value[:60],
)
def test_bad_json_is_refused(text, message, tmp_path):
    assert message in refusal(written(tmp_path, text, "n.json"))


def test_json_cut_anywhere_is_refused(tmp_path):
    text = json.dumps(plain_network(EXPECTED))
    for end in range(len(text)):
        refusal(written(tmp_path, text[:end], "n.json"))


def test_sizes_are_checked_before_tables_are_made():
    with pytest.raises(dg.errors.NetworkError, match=f"{math.prod([1000] * 5):,} cells"):
        network_of({"variables": {c: list(range(1000)) for c in "abcde"}, "parents": {"a": list("bcde")}})


def test_a_saved_file_names_its_network(tmp_path):
    network = dg.Network.of({"a": ["x", "y"], "b": dg.Bins([0, 1, 2])}, {"b": ["a"]})
    dg.save(network, tmp_path / "n.json")
    assert dg.read_network(tmp_path / "n.json") == network
    assert dg.read_domain(tmp_path / "n.json") == network.domain
    counts = dg.count(pd.DataFrame({"a": ["x"], "b": [0.5]}), network)
    dg.save(dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1)), tmp_path / "r.json")
    assert dg.read_network(tmp_path / "r.json") == network


STRICT = """
strict = true
[variables]
age = { bins = [17, 90], missing = true }
work = { levels = ["Private", "Other"], other = "Other", missing = "Other" }
[parents]
age = []
work = ["age"]
"""


def test_a_strict_network_is_read_and_written_strict(tmp_path):
    (tmp_path / "net.toml").write_text(STRICT)
    network = dg.read_network(tmp_path / "net.toml")
    assert network.domain.strict
    assert dg.read_domain(tmp_path / "net.toml") == network.domain
    assert network_of(parse_json(json.dumps(plain_network(network)))) == network
    dg.save(network, tmp_path / "net.json")
    assert dg.load(tmp_path / "net.json") == network == dg.read_network(tmp_path / "net.json")
    assert dg.read_domain(tmp_path / "net.json").strict
    released = dg.release(dg.count(pd.DataFrame({"age": [{}], "work": ["?"]}), network), dg.LaplaceMechanism(1),
                          budget=dg.Budget(1))  # fmt: skip
    dg.save(released, tmp_path / "release.json")
    assert dg.load(tmp_path / "release.json").value.network == network
    assert "strict" not in plain_network(EXPECTED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STRICT.replace(", missing = true", ""), "variable 'age' could refuse a row, and the domain is strict"),
        (STRICT.replace("strict = true", 'strict = "true"'), "strict must be true or false; got 'true'"),
        (STRICT.replace("strict = true\n", "").replace("[parents]", "strict = true\n[parents]"), "variable 'strict'"),
        (STRICT.replace("strict = true\n", "") + "strict = true\n", "parents of 'strict'"),
    ],
)
def test_a_file_that_is_not_as_strict_as_it_says_is_refused(text, message, tmp_path):
    (tmp_path / "net.toml").write_text(text)
    with pytest.raises(dg.errors.FileError, match=message):
        dg.read_network(tmp_path / "net.toml")


def test_a_graph_without_probabilities_is_not_read_as_one_with_them(tmp_path):
    (tmp_path / "net.toml").write_text('[variables]\na = ["x", "y"]\n\n[parents]\na = []\n')
    with pytest.raises(dg.errors.FileError, match="holds no probabilities"):
        read_probabilities(tmp_path / "net.toml")
    for reader in ("dg.read_network", "dg.read_domain", "dg.read_design"):
        with pytest.raises(dg.errors.FileError, match=reader):
            dg.load(tmp_path / "net.toml")
