"""XMLBIF is read as pgmpy reads it; what could expand, nest or multiply without end is refused."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import dpgraph as dg
from dpgraph.files.xmlbif import MAX_ATTRIBUTES, MAX_DEPTH, read_xmlbif
from tests.fuzz.readers import XMLBIF
from tests.strategies import networks, probabilities


def by_pgmpy(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.readwrite import XMLBIFReader

        return dg.from_pgmpy(XMLBIFReader(string=text).get_model())


def written(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.readwrite import XMLBIFWriter

        return str(XMLBIFWriter(dg.to_pgmpy(value)))


def assert_same(value, expected):
    assert value.network == expected.network
    for name in expected.network.domain.names:
        np.testing.assert_allclose(value.table(name), expected.table(name), rtol=1e-15)


@pytest.mark.parametrize("name", ["cancer", "asia", "sachs", "alarm"])
def test_what_pgmpy_writes_of_a_bundled_network_is_what_it_reads(name):
    text = written(dg.load(f"example:{name}"))
    assert_same(read_xmlbif(text), by_pgmpy(text))


@settings(deadline=None, max_examples=20)
@given(networks(kinds=("text", "boolean"), max_variables=4).flatmap(probabilities))
def test_what_pgmpy_writes_is_what_pgmpy_reads(value):
    assert_same(read_xmlbif(written(value)), by_pgmpy(written(value)))


def test_a_table_has_the_own_levels_fastest():
    value = read_xmlbif(XMLBIF)
    assert value.table("a").tolist() == [0.2, 0.8]
    assert value.table("b").T.tolist() == [[0.1, 0.2, 0.7], [0.1, 0.3, 0.6]]
    assert value.network.domain.levels("b") == ("0", "1", "2")


def entities(text):
    return text.replace("[ <!ELEMENT", '[ <!ENTITY e "x"> <!ELEMENT')


REFUSED = {
    "an entity": (entities, "an entity is declared"),
    "an entity of a file": (lambda t: t.replace("[ <!E", '[ <!ENTITY e SYSTEM "file:///etc/passwd"> <!E'), "an entity"),
    "a parameter entity": (lambda t: t.replace("[ <!E", '[ <!ENTITY % e "x"> <!E'), "an entity is declared"),
    "a reference to none": (lambda t: t.replace("small", "&e;"), "line 3: the XML text is not well-formed"),
    "attributes without end": (
        lambda t: t.replace("]>", "".join(f"<!ATTLIST a b{i} CDATA 'x'>" for i in range(MAX_ATTRIBUTES)) + "]>"),
        "line 2: more than 16 attributes are declared",
    ),
    "elements without end": (lambda t: t.replace("small", "<a>" * MAX_DEPTH), "line 3: elements lie more than 16 deep"),
    "cut short": (lambda t: t[:-10], "line 8: the XML text is not well-formed"),
    "junk at the end": (lambda t: t + "x", "line 8: the XML text is not well-formed"),
    "two networks": (lambda t: t.replace("</NETWORK>", "</NETWORK><NETWORK/>"), "one network, not 2"),
    "a NUL": (lambda t: t.replace("yes", "\0"), "line 4: the XML text is not well-formed"),
    "a variable twice": (lambda t: t.replace("<NAME>b", "<NAME>a"), "line 5: variable 'a' is declared twice"),
    "a level twice": (lambda t: t.replace("yes", "no"), "line 4: variable 'a' has no levels, or one of them twice"),
    "two names": (lambda t: t.replace("<NAME>b", "<NAME>a</NAME><NAME>b"), "line 5: a variable has one NAME, not 2"),
    "two tables": (
        lambda t: t.replace("<TABLE>0.2", "<TABLE/><TABLE>0.2"),
        "line 6: a definition has one TABLE, not 2",
    ),
    "an unknown parent": (lambda t: t.replace("<GIVEN>a", "<GIVEN>z"), "line 7: no variable is called 'z'"),
    "its own parent": (lambda t: t.replace("<GIVEN>a", "<GIVEN>b"), "line 7: .*'b' names a variable twice"),
    "a second definition": (
        lambda t: t.replace("<FOR>b", "<FOR>a").replace("<GIVEN>a</GIVEN>", ""),
        "line 7: 'a' has a",
    ),
    "too few numbers": (lambda t: t.replace("0.7", ""), "line 7: 5 numbers stand where 6 belong"),
    "a sum that is not 1": (lambda t: t.replace("0.7", "0.6"), "line 7: .*'b' does not sum to 1"),
    "nan": (lambda t: t.replace("0.2 0.8", "nan 0.8"), "line 6: .*no decimal number"),
    "too large": (lambda t: t.replace("0.2 0.8", "1e999 0.8"), "line 6: .*an entry that is no probability"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_its_line(case):
    change, message = REFUSED[case]
    assert change(XMLBIF) != XMLBIF
    with pytest.raises(dg.errors.FileError, match=message):
        read_xmlbif(change(XMLBIF))
