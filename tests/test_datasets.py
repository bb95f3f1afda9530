"""The data sets: each TOML file declares what its export writes, and its names survive every file format."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg

sys.path.append(str(Path(__file__).parents[1] / "datasets"))
import export

ROWS = {"affairs": 6366, "breast_cancer": 569, "randhie": 20190, "anes96": 944, "event_log": 11561}
MAX_PARENTS = 3


@pytest.fixture(params=export.NAMES, scope="module")
def name(request):
    return request.param


@pytest.fixture(scope="module")
def network(name):
    return dg.read_network(export.declaration(name))


@pytest.fixture(scope="module")
def rows(name):
    return export.rows(name)


def test_every_toml_file_has_an_export():
    own = [path.stem for path in export.HERE.glob("*.toml")]
    assert sorted([*own, *dg.datasets.NAMES]) == sorted(export.NAMES)


def test_the_package_has_the_rows_that_are_exported(name, rows):
    if name in dg.datasets.NAMES:
        pd.testing.assert_frame_equal(dg.datasets.load(name), rows)
    else:
        with pytest.raises(dg.errors.FileError, match=f"no data set '{name}'; the package has anes96, event_log"):
            dg.datasets.load(name)


def test_no_variable_stands_alone_and_none_has_many_parents(network):
    assert max(len(parents) for parents in network.parents.values()) <= MAX_PARENTS
    assert all(degree > 0 for _, degree in network.to_networkx().degree)


def test_the_columns_are_the_declared_ones_without_nulls(name, network, rows):
    assert tuple(rows.columns) == network.domain.names
    assert len(rows) == ROWS[name]
    assert not rows.isna().any(axis=None)


def test_the_readme_states_the_sizes(name, network, rows):
    line = f"| `{name}` | {len(rows)} | {len(rows.columns)} | {network.cell_count} |"
    assert line in (export.HERE / "README.md").read_text(encoding="utf-8")


def test_the_rows_encode_and_are_all_counted(network, rows):
    counts = dg.count(rows, network)
    for family in network.families:
        assert counts.sensitive_margin(family).sum() == len(rows)


def test_no_category_is_a_catch_all_and_bins_reach_both_ends(network, rows):
    """Text levels cover the rows exactly, without `other`; the edges of bins reach past nearly all values."""
    for variable in network.domain.names:
        declared, column = network.domain[variable], rows[variable]
        if isinstance(declared, dg.Categories):
            assert declared.other is None
            assert set(column.unique()) <= set(declared.levels)
        else:
            assert pd.api.types.is_numeric_dtype(column)
            assert column.between(declared.edges[0], declared.edges[-1]).mean() > 0.98


def test_a_part_of_the_rows_encodes_as_it_does_in_the_whole(network, rows):
    whole = dg.statistics.encode(rows, network.domain)
    part = dg.statistics.encode(rows.iloc[10:20], network.domain)
    for variable in network.domain.names:
        np.testing.assert_array_equal(part.columns[variable], whole.columns[variable][10:20])


def test_writing_twice_gives_the_same_values_and_counts(name, network, rows, tmp_path):
    first, second = export.write(name, tmp_path / "a"), export.write(name, tmp_path / "b")
    assert first.name == f"{name}.parquet"
    pd.testing.assert_frame_equal(pd.read_parquet(first), pd.read_parquet(second), check_exact=True)
    pd.testing.assert_frame_equal(pd.read_parquet(first), rows, check_exact=True)
    from_file, from_memory = dg.count(first, network), dg.count(rows, network)
    for table, exact in from_memory.sensitive_tables.items():
        np.testing.assert_array_equal(from_file.sensitive_tables[table], exact)


@pytest.mark.parametrize("suffix", [".bif", ".json"])
def test_names_survive_a_file(network, rows, tmp_path, suffix):
    budget = dg.Budget(1, unit=dg.PrivacyUnit("add-remove"))
    noisy = dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=budget, noise=dg.testing.SeededNoise(1))
    learned = dg.posterior(noisy, method="plug-in").mean()
    path = tmp_path / f"model{suffix}"
    dg.save(learned, path)
    loaded = dg.load(path)
    assert set(loaded.network.domain.names) == set(network.domain.names)
    for variable in network.domain.names:
        assert loaded.network.domain.levels(variable) == tuple(
            level if suffix == ".json" else str(level) for level in network.domain.levels(variable)
        )
        assert loaded.network.parents[variable] == network.parents[variable]
        np.testing.assert_allclose(loaded.table(variable), learned.table(variable), rtol=1e-9)


def test_a_csv_of_the_rows_counts_the_same(network, rows, tmp_path):
    rows.to_csv(tmp_path / "rows.csv", index=False)
    from_csv, from_memory = dg.count(tmp_path / "rows.csv", network), dg.count(rows, network)
    for table, exact in from_memory.sensitive_tables.items():
        np.testing.assert_array_equal(from_csv.sensitive_tables[table], exact)


def test_known_rows_keep_their_meaning():
    affairs, plans = export.rows("affairs"), export.rows("randhie")
    cancer, votes = export.rows("breast_cancer"), export.rows("anes96")
    assert (affairs["affairs"] == "yes").sum() == 2053
    assert affairs["children"].isin(["0", "1", "2", "3", "4", "5+"]).all()
    assert cancer["diagnosis"].value_counts().to_dict() == {"benign": 357, "malignant": 212}
    assert set(plans["coinsurance"]) == {0, 25, 50, 95, 100}
    assert (plans["max_expenditure"] == 4000).any()
    assert votes.groupby("vote")["PID"].agg(lambda party: party.mode()[0]).to_dict() == {
        "Clinton": "strong_Democrat",
        "Dole": "strong_Republican",
    }


def test_a_code_outside_the_code_book_is_refused():
    with pytest.raises(ValueError, match="'educ' holds a code that is not in the code book"):
        export._coded(pd.Series([1, 8], name="educ"), {1: "grades_1-8"})


def test_an_unknown_set_is_refused():
    with pytest.raises(ValueError, match="no data set 'titanic'; there are affairs"):
        export.rows("titanic")


def test_the_command_writes_what_it_is_asked_for(tmp_path):
    done = CliRunner().invoke(export.main, ["affairs", "anes96", "--out", str(tmp_path / "rows")])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "rows").iterdir()) == ["affairs.parquet", "anes96.parquet"]
    assert CliRunner().invoke(export.main, ["titanic", "--out", str(tmp_path)]).exit_code == 2
