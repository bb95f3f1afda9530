"""Writes the rows of the data sets to Parquet, offline, from packages that are installed.

Each raw code or value is mapped to a declared level or number by itself: no row's values depend on another row, and
nothing is read off the data. The levels and bins are declared in a TOML file, beside this one or in the package.

    python datasets/export.py                      all of them, to datasets/rows
    python datasets/export.py anes96 randhie event_log --out dpgraph/files/datasets    those that the package ships
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

HERE = Path(__file__).parent

_NO_YES = {False: "no", True: "yes"}
_OCCUPATION = {
    1: "student",
    2: "farming_or_unskilled",
    3: "white_collar",
    4: "teacher_nurse_or_skilled",
    5: "managerial",
    6: "professional",
}
_VIEWS = {
    1: "extremely_liberal",
    2: "liberal",
    3: "slightly_liberal",
    4: "moderate",
    5: "slightly_conservative",
    6: "conservative",
    7: "extremely_conservative",
}
_PARTY = {
    0: "strong_Democrat",
    1: "weak_Democrat",
    2: "independent_Democrat",
    3: "independent",
    4: "independent_Republican",
    5: "weak_Republican",
    6: "strong_Republican",
}
_SCHOOLING = {
    1: "grades_1-8",
    2: "some_high_school",
    3: "high_school",
    4: "some_college",
    5: "college",
    6: "masters",
    7: "PhD",
}
_INCOME = {
    **dict.fromkeys(range(1, 6), "under_10000"),
    **dict.fromkeys(range(6, 11), "10000-14999"),
    **dict.fromkeys(range(11, 15), "15000-24999"),
    **dict.fromkeys(range(15, 17), "25000-34999"),
    **dict.fromkeys(range(17, 20), "35000-49999"),
    **dict.fromkeys(range(20, 22), "50000-74999"),
    **dict.fromkeys(range(22, 24), "75000-104999"),
    24: "105000_and_over",
}


def _affairs() -> pd.DataFrame:
    raw = _statsmodels("fair")
    return pd.DataFrame(
        {
            "affairs": _coded(raw["affairs"] > 0, _NO_YES),
            "rate_marriage": _coded(
                raw["rate_marriage"], {1: "very_poor", 2: "poor", 3: "fair", 4: "good", 5: "very_good"}
            ),
            "age": raw["age"],
            "yrs_married": raw["yrs_married"],
            "children": _coded(raw["children"], {0: "0", 1: "1", 2: "2", 3: "3", 4: "4", 5.5: "5+"}),
            "religious": _coded(raw["religious"], {1: "not", 2: "mildly", 3: "fairly", 4: "strongly"}),
            "educ": _coded(
                raw["educ"],
                {
                    9: "grade_school",
                    12: "high_school",
                    14: "some_college",
                    16: "college",
                    17: "some_graduate_school",
                    20: "advanced_degree",
                },
            ),
            "occupation": _coded(raw["occupation"], _OCCUPATION),
            "occupation_husb": _coded(raw["occupation_husb"], _OCCUPATION),
        }
    )


def _breast_cancer() -> pd.DataFrame:
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer(as_frame=True)
    diagnosis = _coded(raw.target, {0: "malignant", 1: "benign"})
    return pd.DataFrame({"diagnosis": diagnosis, **raw.data.rename(columns=lambda name: name.replace(" ", "_"))})


def _randhie() -> pd.DataFrame:
    raw = _statsmodels("randhie")
    rating = raw["hlthg"] + 2 * raw["hlthf"] + 3 * raw["hlthp"]
    return pd.DataFrame(
        {
            "visits": raw["mdvis"],
            "coinsurance": np.rint(np.expm1(raw["lncoins"])).astype(int),
            "individual_deductible": _coded(raw["idp"] == 1, _NO_YES),
            "incentive": np.rint(np.exp(raw["lpi"])).astype(int),
            "max_expenditure": np.rint(np.exp(raw["fmde"])).astype(int),
            # Between 0 and 1 the file holds an imputed chance of a limitation.
            "physical_limitation": _coded(raw["physlm"] >= 0.5, _NO_YES),
            "chronic_diseases": raw["disea"],
            "health": _coded(rating, {0: "excellent", 1: "good", 2: "fair", 3: "poor"}),
        }
    )


def _anes96() -> pd.DataFrame:
    raw = _statsmodels("anes96")
    return pd.DataFrame(
        {
            "vote": _coded(raw["vote"], {0: "Clinton", 1: "Dole"}),
            "PID": _coded(raw["PID"], _PARTY),
            "selfLR": _coded(raw["selfLR"], _VIEWS),
            "ClinLR": _coded(raw["ClinLR"], _VIEWS),
            "DoleLR": _coded(raw["DoleLR"], _VIEWS),
            "TVnews": raw["TVnews"],
            "popul": raw["popul"],
            "age": raw["age"],
            "educ": _coded(raw["educ"], _SCHOOLING),
            "income": _coded(raw["income"], _INCOME),
        }
    )


def _event_log() -> pd.DataFrame:
    import event_log

    return event_log.simulate().rows.drop(columns="reporter")


_SETS = {
    "affairs": _affairs,
    "breast_cancer": _breast_cancer,
    "randhie": _randhie,
    "anes96": _anes96,
    "event_log": _event_log,
}

#: The data sets, each with a TOML file of this name beside this script.
NAMES = tuple(_SETS)


def rows(name: str) -> pd.DataFrame:
    """The rows of one data set, with the columns that its TOML file declares; sensitive, as the README says.

    Args:
        name: One of ``NAMES``.

    Raises:
        ValueError: If the name is unknown, or the installed file holds a code that the code book does not.
    """
    if name not in _SETS:
        raise ValueError(f"no data set {name!r}; there are {', '.join(NAMES)}")
    return _SETS[name]()


def declaration(name: str) -> str:
    """What ``read_network`` reads: the package declares the sets whose rows it ships, this folder the others."""
    own = HERE / f"{name}.toml"
    return str(own) if own.exists() else f"example:{name}"


def write(name: str, folder: str | Path) -> Path:
    """Writes the rows of one data set to ``folder/NAME.parquet``, and returns that path."""
    path = Path(folder) / f"{name}.parquet"
    table = rows(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(path, index=False)
    return path


def _statsmodels(name: str) -> pd.DataFrame:
    """The raw rows that statsmodels ships."""
    import importlib

    return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data


def _coded(column: pd.Series, levels: Mapping[Any, str]) -> pd.Series:
    """Names each code by the code book."""
    named = column.map(levels)
    if named.isna().any():
        raise ValueError(
            f"column {column.name!r} holds a code that is not in the code book: {', '.join(map(str, levels))}"
        )
    return named


@click.command(help="Write the rows of data sets to Parquet files, offline; all of them unless NAMES are given.")
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[NAMES]...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=HERE / "rows", help="The folder.")
def main(names: tuple[str, ...], out: Path) -> None:
    """Writes each data set and prints its path."""
    for name in names or NAMES:
        click.echo(write(name, out))


if __name__ == "__main__":
    main()
