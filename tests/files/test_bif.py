"""BIF is read as pgmpy reads it, where pgmpy reads it whole; everything else is refused with its line."""

import signal
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import dpgraph as dg
from dpgraph.files.bif import MAX_CELLS, MAX_NAME, MAX_VARIABLES, read_bif
from dpgraph.files.limits import MAX_EXCERPT, MAX_NETWORK_BYTES
from dpgraph.files.pgmpy import write_bif
from tests.fuzz.readers import RICH_BIF, bundled
from tests.strategies import networks, probabilities
from tests.tiers import examples

#: All that pgmpy bundles; its reader takes seconds for each of the second group.
QUICK = ("alarm", "asia", "cancer", "child", "earthquake", "hailfinder", "insurance", "sachs", "survey", "win95pts")
LARGE = ("andes", "barley", "hepar2", "link", "munin1", "pathfinder", "pigs", "water")
#: Of these it takes ten seconds each; ``test_round_trips.py`` reads them too.
LARGEST = ("diabetes", "mildew", "munin", "munin2", "munin3", "munin4")


pytestmark = pytest.mark.usefixtures("no_hang")


def by_pgmpy(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.readwrite import BIFReader

        return dg.from_pgmpy(BIFReader(string=text.rstrip() + "\n").get_model())


def assert_same(value, expected, rtol=0.0):
    assert value.network == expected.network
    for name in expected.network.domain.names:
        np.testing.assert_allclose(value.table(name), expected.table(name), rtol=rtol, atol=0)


@pytest.mark.parametrize("name", QUICK)
def test_a_bundled_network_is_what_pgmpy_reads(name):
    assert_same(read_bif(bundled(name)), by_pgmpy(bundled(name)), 1e-15)


@pytest.mark.proof
@pytest.mark.parametrize("name", LARGE)
def test_a_large_bundled_network_is_what_pgmpy_reads(name):
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)  # pgmpy's reader takes as long as it takes
    assert_same(read_bif(bundled(name)), by_pgmpy(bundled(name)), 1e-15)


@pytest.mark.proof
@pytest.mark.parametrize("name", LARGEST)
def test_what_pgmpy_reads_at_length(name):
    test_a_large_bundled_network_is_what_pgmpy_reads(name)


@settings(deadline=None, max_examples=examples(25))
@given(networks(kinds=("text", "boolean", "bins"), max_variables=4).flatmap(probabilities))
def test_what_pgmpy_writes_is_what_pgmpy_reads(value):
    assert_same(read_bif(write_bif(value)), by_pgmpy(write_bif(value)), 1e-15)


@pytest.mark.parametrize("name", ["asia", "sachs", "child"])
def test_quotes_comments_and_line_ends_change_nothing(name):
    """Rows with quotes or comments take another way through the reader."""
    plain, value = bundled(name), read_bif(bundled(name))
    assert_same(read_bif(plain.replace(") ", " /* here */) // and here\n")), value)
    assert_same(read_bif(plain.replace("\n", "\r\n")), value)
    assert_same(read_bif("\n" * 5 + plain.replace("\n", "\n\n") + " \n// the end"), value)
    quoted = plain
    for word in {*value.network.domain.names, *sum(map(value.network.domain.levels, value.network.domain.names), ())}:
        quoted = quoted.replace(f"({word},", f'("{word}",').replace(f"({word})", f'("{word}")')
        quoted = quoted.replace(f"variable {word} {{", f'variable "{word}" {{')
    assert quoted.count('"') > 20
    assert_same(read_bif(quoted), value)


def test_everything_that_the_format_has():
    value = read_bif(RICH_BIF)
    network = value.network
    assert network.domain.names == ("Dog Problem", "b", "c")
    assert network.domain.levels("Dog Problem") == ("true", "not, true")
    assert network.domain.levels("b") == ("low", "mid", "high")
    assert dict(network.parents) == {"Dog Problem": (), "b": ("Dog Problem", "c"), "c": ("Dog Problem",)}
    assert value.table("Dog Problem").tolist() == [1e-5, 0.99999]
    assert value.table("b")[:, 0, 0].tolist() == [0.25, 0.25, 0.5]
    for other in ((0, 1), (1, 0), (1, 1)):
        assert value.table("b")[(slice(None), *other)].tolist() == [0.2, 0.3, 0.5]
    assert value.table("c").tolist() == [[0.1, 0.2], [0.9, 0.8]]


V = "variable {} {{ type discrete [ 2 ] {{ yes, no }}; }}\n"
A, B = V.format("a"), V.format("b")
PA, PB = "probability ( a ) { table 0.2, 0.8; }\n", "probability ( b | a ) { (yes) 0.3, 0.7; (no) 0.6, 0.4; }\n"


def test_a_whole_table_has_the_own_levels_slowest_as_pgmpy_reads_it():
    text = f"{A}{B}probability ( a ) {{\n  table 0.2, 0.8;\n}}\nprobability ( b | a ) {{\n  table .1, .2, .9, .8;\n}}\n"
    text = text.replace("; }", ";\n}")
    assert read_bif(text).table("b").tolist() == [[0.1, 0.2], [0.9, 0.8]]
    assert_same(read_bif(text), by_pgmpy(text))


def test_blocks_may_come_in_any_order():
    expected = read_bif(A + B + PA + PB)
    for text in (PB + PA + B + A, A + PA + PB + B, PA + A + PB + B):
        value = read_bif(text)
        assert {name: value.table(name).tolist() for name in "ab"} == {
            name: expected.table(name).tolist() for name in "ab"
        }


def test_names_are_told_apart_without_case_and_the_oldest_headers_have_no_bar():
    for header in ("( B | A )", "( b a )", "( b, a )", '( "b" "a" )', "(b|a)"):
        assert_same(read_bif(A + B + PA + PB.replace("( b | a )", header)), read_bif(A + B + PA + PB))


REFUSED = {
    "nothing": ("", "no variable is declared"),
    "junk": ("hello", "line 1: one network, variables and probabilities are expected, and there is 'hello'"),
    "junk at the end": (A + PA + "more", "line 3: one network, variables .* there is 'more'"),
    "a bracket at the end": (A + PA + "}", "line 3"),
    "a header at the end": (A + PA + "probability (" * 3, "line 3: "),
    "junk before": ("\n\nx " + A + PA, "line 3"),
    "two networks": ("network x {}\nnetwork y {}\n" + A + PA, "line 2"),
    "a NUL": (A + PA + "\0", r"line 3: .*there is '\\x00'"),
    "a NUL in a name": (V.format("a\0") + PA, r"line 1: a name has .*'a\\x00'"),
    "a name from right to left": (V.format("a\u202e") + PA, "line 1: a name has"),
    "a line break in a name": (V.format("a\nb") + PA, "line 1: a name has"),
    "a long name": (V.format("a" * (MAX_NAME + 1)) + PA, "line 1: a name has 1 to 200"),
    "no name": (V.format('""') + PA, "line 1: a name has"),
    "no variable at all": (PA, "line 1: no variable is called 'a'"),
    "a variable twice": (A + A + PA, "line 2: variable 'a' is declared twice"),
    "twice but for case": (A + V.format("A") + PA, "line 2: variable 'A' is declared twice"),
    "twice but for width": (A + V.format("\uff41") + PA, "line 2: variable '\uff41' is declared twice"),
    "twice but for the Kelvin sign": (V.format("k") + V.format("\u212a") + PA, "line 2: .* is declared twice"),
    "a level twice": (A.replace("no", "yes") + PA, "line 1: variable 'a' has no levels, or one of them twice"),
    "no levels": ("variable a { type discrete [ 0 ] { }; }" + PA, "line 1: variable 'a' has no levels"),
    "more levels than said": (A.replace("[ 2 ]", "[ 3 ]") + PA, "line 1: 2 levels are listed where '3' are declared"),
    "a count in other digits": (A.replace("[ 2 ]", "[ \uff12 ]") + PA, "2 levels are listed where"),
    "no type": ("variable a { }" + PA, "line 1: a block of this form .* variable NAME"),
    "two types": (
        A.replace("; }", "; type discrete [ 1 ] { x }; }") + PA,
        "line 1: a block of this form .* variable NAME",
    ),
    "another type": (A.replace("discrete", "continuous") + PA, "line 1: a block of this form .* type discrete"),
    "no semicolon": (A.replace(";", "") + PA, "line 1: a block of this form .* }; }"),
    "an open comment": (A + "/* /*" + PA, "line 2: a comment has no end"),
    "comments in comments": (A + "/* /* */ */" + PA, "line 2: one network, .*there is '\\*/"),
    "an open quote": (A + 'variable "b { }\n' + PA, "line 2: a quoted name has no end on its line"),
    "an open property": (A + "variable b { property x" + PA[:-5], "line 2: "),
    "an open block": (A + PA[:-3], "line 2: a block of this form .*, whole: probability"),
    "an unknown parent": (A + B + PA + PB.replace("| a", "| z"), "line 4: no variable is called 'z'"),
    "an unknown variable": (A + B + PA + PB.replace("b |", "z |"), "line 4: no variable is called 'z'"),
    "a parent twice": (A + B + PA + PB.replace("| a", "| a, a"), "line 4: .*'b' names a variable twice"),
    "its own parent": (A + B + PA + PB.replace("| a", "| b"), "line 4: .*'b' names a variable twice"),
    "a cycle": (A + B + PA.replace("( a )", "( a | b )").replace("table 0.2, 0.8", "default 0.2, 0.8") + PB, "a cycle"),
    "a second table": (A + PA + PA, "line 3: 'a' has a second probability table"),
    "no table": (A + B + PA, "no probability table for 'b'"),
    "a row that is not there": (A + B + PA + PB.replace("(no) 0.6, 0.4;", ""), "line 4: .*'b' lacks 1 of its rows"),
    "a row twice": (A + B + PA + PB.replace("(no)", "(yes)"), "line 4: the row of these levels is there twice"),
    "a row of no level": (A + B + PA + PB.replace("(no)", "(maybe)"), "line 4: 'maybe' is not a level"),
    "a row of two levels": (A + B + PA + PB.replace("(no)", "(no, no)"), "line 4: a row names a level of each of the"),
    "a row of none": (A + PA.replace("table", "()"), "line 2: a row names a level of each of the 0"),
    "rows and a table": (A + B + PA + PB.replace("{", "{ table .1 .2 .9 .8;"), "line 4: .*given whole and by rows"),
    "two tables in one": (A + PA.replace("}", "table 0.2, 0.8; }"), "line 2: there is a second table"),
    "two defaults": (A + B + PA + PB.replace("{", "{ default .1 .9; default .2 .8;"), "line 4: .*second default"),
    "too few numbers": (A + PA.replace(", 0.8", ""), "line 2: 1 numbers stand where 2 belong"),
    "too many numbers": (A + PA.replace("0.8", "0.4, 0.4"), "line 2: 3 numbers stand where 2 belong"),
    "an empty number": (A + PA.replace("0.8", ""), "line 2: decimal numbers are expected"),
    "commas and blanks": (A + PA.replace("0.2, 0.8", "0.1 0.1, 0.8"), "line 2: decimal numbers are expected"),
    "words": (A + PA.replace("0.2, 0.8", "few, many"), "line 2: decimal numbers are expected"),
    "nan": (A + PA.replace("0.2", "nan"), "line 2: decimal numbers are expected"),
    "inf": (A + PA.replace("0.2", "inf"), "line 2: decimal numbers are expected"),
    "a number of Python": (A + PA.replace("0.2", "1_0"), "line 2: decimal numbers are expected"),
    "other digits": (A + PA.replace("0.2", "\uff10.\uff12"), "line 2: decimal numbers are expected"),
    "a huge number": (A + PA.replace("0.2", "1e999"), "line 2: .*an entry that is not a probability"),
    "a long number": (A + PA.replace("0.2", "0." + "2" * 10**6), "line 2: decimal numbers are expected"),
    "a negative number": (A + PA.replace("0.2, 0.8", "-0.2, 1.2"), "line 2: .*an entry that is not a probability"),
    "zeros": (A + PA.replace("0.2, 0.8", "0, 0"), "line 2: .*does not sum to 1"),
    "a sum off by 2e-6": (A + PA.replace("0.8", "0.800002"), "line 2: .*one sum is off by 2e-06"),
    "many parents": (A + "".join(V.format(f"v{i}") for i in range(40)) + PA.replace("a )", "a | " + ", ".join(
        f"v{i}" for i in range(40)) + ")"), f"line 42: the family of 'a' .* has {2**41:,} cells"),
    "parents without end": (A + PA.replace("a )", "a | " + "a, " * 10**6 + "a )"), "a table has too many parents"),
    "levels without end": (A + B + PA + PB.replace("(no)", "(" + "no, " * 10**6 + "no)"), "a row names too many"),
    "variables without end": ("".join(V.format(f"v{i}") for i in range(MAX_VARIABLES + 1)), "more than 10,000"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_its_line(case):
    text, message = REFUSED[case]
    with pytest.raises((dg.errors.FileError, dg.errors.NetworkError), match=message) as caught:
        read_bif(text)
    if case not in ("many parents",):
        assert len(str(caught.value)) < 150 + 3 * MAX_EXCERPT


def test_rounding_is_divided_out():
    value = read_bif(A + PA.replace("0.2, 0.8", "0.2000005, 0.8"))
    assert value.table("a").sum() == pytest.approx(1, abs=1e-15)
    assert value.table("a")[0] == pytest.approx(0.2000005 / 1.0000005, rel=1e-15)


@pytest.mark.parametrize("tail", ["probability (", "variable ", "network ", "(", "\n", " ", "/**/", "//", '"" ', "}"])
def test_the_attacks_that_took_minutes_are_refused(tail):
    """Words without end after a whole file, of which pgmpy's reader made a network after all, and before it."""
    text = bundled("asia")
    for attack in (text + tail * 20_000, tail * 20_000 + "x\n" + text):
        with pytest.raises(dg.errors.FileError):
            read_bif(attack + "\nx")
    assert_same(read_bif("\n" * 100_000 + text), read_bif(text))


def peak(text):
    """The most memory that reading took beyond the text, in bytes."""
    tracemalloc.start()
    try:
        read_bif(text)
    except (dg.errors.FileError, dg.errors.NetworkError):
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most


def wide(size, name):
    return f"variable {name} {{ type discrete [ {size} ] {{ {', '.join(map(str, range(size)))} }}; }}\n"


def test_memory_is_taken_for_what_is_there_and_not_for_what_a_header_claims():
    heads = wide(3000, "a") + wide(1000, "b")
    assert peak(heads + "probability ( a | b ) { (7) 1; }") < 10 * 2**20  # 24 MB of cells
    assert peak(heads + "probability ( a | b ) { }") < 10 * 2**20
    assert peak(wide(3000, "a") + wide(3000, "b") + "probability ( a | b ) { default 1; }") < 10 * 2**20


def test_a_default_fills_no_more_cells_than_the_limit():
    size = 100
    assert size**3 * 4 == MAX_CELLS
    heads = wide(size, "a") + wide(size, "b") + "".join(wide(size, f"v{i}") for i in range(5))
    row = ",".join(["0.01"] * size)
    text = heads + "".join(f"probability ( v{i} | a, b ) {{ default {row}; }}\n" for i in range(5))
    with pytest.raises(dg.errors.FileError, match="more than 4,000,000 cells together"):
        read_bif(text)
    assert peak(text) < MAX_CELLS * 8 * 3 + 10 * 2**20


def test_a_file_is_not_written_that_would_not_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgraph.files.documents.MAX_NETWORK_BYTES", 700)
    with pytest.raises(dg.errors.FileError, match=r"would have 7\d\d bytes, more than is read of BIF"):
        dg.save(dg.load("example:cancer"), tmp_path / "x.bif")
    assert not list(tmp_path.iterdir())


@pytest.mark.proof
def test_the_largest_bundled_network_is_within_the_limits():
    assert len(bundled("diabetes")) < MAX_NETWORK_BYTES
    assert read_bif(bundled("diabetes")).network == dg.read_network("example:diabetes")
