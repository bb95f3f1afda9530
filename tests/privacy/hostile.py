"""Rows that tell on whoever repeats them: a word no library knows in every position, and an unusual number of rows."""

from __future__ import annotations

import datetime
import decimal
import logging
import os
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dpgraph as dg

CANARY = "canary7Q1x"
N = 2347

#: What no message may hold: the word, values that only rows hold, and the number of rows in any writing.
SIGNS = (CANARY, "73517351", "7351.7351", "1987", f"{N}", f"{N:,}", f"{N:_}")

GOOD = {
    "sex": ["F", "M"],
    "age": [20.0, 60.0],
    "pay": [1.0, 3.0],
    "region": ["N", "S"],
    "month": [1, 2],
    "who": ["p", "q"],
}


class CanaryError(Exception):
    """An exception of the rows' own."""


#: An exception whose very name is out of a row.
Named = type(f"{CANARY}Error", (Exception,), {})

RAISED = (RuntimeError, ValueError, TypeError, KeyError, OverflowError, MemoryError, ImportError, CanaryError, Named)
METHODS = ("float", "int", "index", "complex", "str", "repr", "hash", "eq", "len", "iter", "array", "bool", "getitem")
METHODS += ("lt", "contains", "arrow_array")


def objects():
    """Objects that raise the word from each method by itself and from all of them, as exceptions of many classes."""

    def raising(error):
        def method(self, *arguments, **settings):
            raise error(CANARY)

        return method

    for at, name in enumerate(METHODS):
        error = RAISED[at % len(RAISED)]
        methods = {f"__{name}__": raising(error)} | ({"__hash__": object.__hash__} if name == "eq" else {})
        yield f"an object whose {name} raises {error.__name__}", type("Cell", (), methods)()
    for error in (*RAISED, dg.errors.DomainError):
        yield (
            f"an object that raises {error.__name__}",
            type("Cell", (), {f"__{m}__": raising(error) for m in METHODS})(),
        )
    for base in (str, int, float):
        methods = {f"__{m}__": raising(RuntimeError) for m in ("float", "str", "repr", "eq", "lt", "bool")}
        yield f"a {base.__name__} that raises", type("Cell", (base,), methods | {"__hash__": base.__hash__})("7")


def warning_object():
    """An object that warns of itself."""

    def warned(self):
        warnings.warn(CANARY, FutureWarning, stacklevel=2)
        return 1.0

    return type("Cell", (), {"__float__": warned, "__index__": lambda self: int(warned(self))})()


CELLS = {
    "text": CANARY,
    "text that is no Unicode": CANARY + "\ud800",
    "a dictionary": {CANARY: 1},
    "a nested list": [[CANARY], 1],
    "a tuple": (CANARY,),
    "a set": {CANARY},
    "bytes": CANARY.encode(),
    "a date": datetime.date(1987, 6, 5),
    "a time stamp": pd.Timestamp("1987-06-05"),
    "a decimal": decimal.Decimal("7351.7351"),
    "a number": 73517351,
    "a huge number": 10**400 + 73517351,
    "a complex number": complex(73517351, 1),
    "a null": None,
    "an object that warns": warning_object(),
} | dict(objects())


def good(n=N):
    """Rows that fit."""
    return pd.DataFrame({name: pd.Series(np.resize(np.array(values, object), n)) for name, values in GOOD.items()})


def typed(n=N):
    """Rows that fit, in columns with types."""
    return pa.table({name: pa.array(np.resize(np.array(values), n)) for name, values in GOOD.items()})


def with_cell(values, cell):
    """A column of objects in which one cell is another."""
    column = np.empty(len(values), object)
    column[:] = values
    column[len(values) // 2] = cell
    return column


def pandas_tables(column):
    frame = good()
    for label, cell in CELLS.items():
        hostile = pd.Series(with_cell(frame[column].to_numpy(object), cell), dtype=object)
        yield f"pandas, {label} in {column}", frame.assign(**{column: hostile})
    everywhere = frame.assign(**{column: CANARY}, aside=[{CANARY: 1}] * N)
    yield f"pandas, {column} in every row", everywhere
    yield f"pandas, {column} of a categorical", everywhere.assign(**{column: everywhere[column].astype("category")})
    yield f"pandas, {column} with labels", everywhere.set_index(pd.Index([CANARY] * N, name=CANARY))
    yield f"pandas, {column} of dates", frame.assign(**{column: pd.Timestamp("1987-06-05")})


def arrow_columns(n=N):
    """Columns of every kind of type, with the word in them."""
    words = pa.array([CANARY] * n)
    yield "structs", pa.array([{CANARY: "x"}] * n)
    yield "lists", pa.array([[CANARY]] * n)
    yield "maps", pa.array([[(CANARY, 1)]] * n, pa.map_(pa.string(), pa.int64()))
    yield "text", words
    yield "views", words.cast(pa.string_view())
    yield "bytes", words.cast(pa.binary())
    yield "dictionaries", words.dictionary_encode()
    yield "dates", pa.array([datetime.date(1987, 6, 5)] * n)
    yield "decimals", pa.array([decimal.Decimal("7351.7351")] * n)
    yield "numbers", pa.array([73517351] * n)
    yield "nulls", pa.nulls(n)
    raw = [b"\xff" + CANARY.encode()] * n
    yield "text that is no UTF-8", pa.array(raw).view(pa.string())
    damaged = pa.array(np.full(n, 7, np.int32))
    yield "a damaged dictionary", pa.DictionaryArray.from_arrays(damaged, pa.array([CANARY]), safe=False)


def arrow_tables(column):
    table = typed()
    for label, hostile in arrow_columns():
        at = table.schema.get_field_index(column)
        yield f"Arrow, {column} of {label}", table.set_column(at, column, hostile)


class Stream:
    """A stream that fails with the word."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise CanaryError(CANARY)


def failing(*tables, error=CanaryError):
    """An iterator that fails after some tables."""
    yield from tables
    raise error(CANARY)


def reader_that_fails():
    """A reader whose second batch fails."""
    table = typed()

    def batches():
        yield from table.to_batches()
        raise CanaryError(CANARY)

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def other_tables():
    yield "a stream that raises", Stream
    yield "a reader that raises", reader_that_fails
    for error in (CanaryError, Named, dg.errors.DomainError, MemoryError):
        yield f"an iterator that raises {error.__name__}", lambda error=error: failing(good(), error=error)
    yield "an iterator of what is no table", lambda: iter([good(), CANARY])
    yield "polars structs", lambda: pl.from_arrow(typed()).with_columns(age=pl.struct(pl.lit(CANARY).alias(CANARY)))
    yield "polars text", lambda: pl.from_arrow(typed()).with_columns(age=pl.lit(CANARY), month=pl.lit(CANARY))
    yield "polars objects", lambda: pl.DataFrame(
        {**{name: np.resize(np.array(values), N) for name, values in GOOD.items() if name != "age"},
         "age": pl.Series([CELLS["a dictionary"]] * N, dtype=pl.Object)}
    )  # fmt: skip


def files(folder):
    """Files on disk; each with a path."""
    table = typed()
    for column in ("age", "region", "who"):
        for label, hostile in arrow_columns():
            if label in ("structs", "text", "bytes", "dates", "nulls", "text that is no UTF-8"):
                path = folder / f"{column} {label}.parquet"
                pq.write_table(table.set_column(table.schema.get_field_index(column), column, hostile), path)
                yield f"Parquet, {column} of {label}", path
    whole = (folder / "age text.parquet").read_bytes()
    (folder / "short.parquet").write_bytes(whole[: len(whole) // 2] + CANARY.encode())
    yield "a Parquet file cut short", folder / "short.parquet"
    frame, header = good(), ",".join(GOOD)
    lines = frame.to_csv(index=False, header=False).encode()
    for label, line in {
        "text for numbers": f"F,{CANARY},{CANARY},N,1,p".encode(),
        "a level not declared": f"{CANARY},20,1,{CANARY},{CANARY},p".encode(),
        "too few fields": CANARY.encode(),
        "too many fields": b"F,20,1,N,1,p," + CANARY.encode() * 3,
        "no UTF-8": b"F,\xff,1,N\xff,1,\xff" + CANARY.encode(),
        "a quote that is not closed": b'F,20,1,"' + CANARY.encode(),
        "a null byte": b"F,20\0,1,N,1,p" + CANARY.encode(),
    }.items():
        path = folder / f"{label}.csv"
        path.write_bytes(header.encode() + b"\n" + lines + line + b"\n")
        yield f"CSV, {label}", path


def arrays(n=N):
    """Lists and arrays of one axis; ``[0.5] * n`` would do."""
    for label, cell in CELLS.items():
        yield f"a list with {label}", [*[0.5] * (n - 1), cell]
        yield f"an array with {label}", with_cell(np.full(n, 0.5), cell)
    yield "ragged lists", [[CANARY], *[[0.5, 1.0]] * (n - 1)]
    yield "ragged numbers", [*[0.5] * (n - 1), [0.5]]
    yield "text", np.array([CANARY] * n)
    yield "bytes", np.array([CANARY.encode()] * n)
    yield "dates", np.array(["1987-06-05"] * n, "datetime64[D]")
    yield "another length", [0.5] * (n + 1)
    yield "two axes", np.full((n, 2), 0.5)
    yield "a frame", pd.DataFrame({CANARY: [CANARY] * n})
    yield "a failing iterator", failing(error=CanaryError)


def matrices(n=N):
    """Lists and arrays of two axes; ``[[0.5]] * n`` would do."""
    for label, cell in CELLS.items():
        yield f"a list with {label}", [*[[0.5]] * (n - 1), [cell]]
        yield f"an array with {label}", with_cell(np.full(n, 0.5), cell).reshape(-1, 1)
    yield "ragged rows", [*[[0.5]] * (n - 1), [0.5, CANARY]]
    yield "ragged numbers", [*[[0.5]] * (n - 1), [0.5, 0.5]]
    yield "a list of text", [CANARY] * n
    yield "one axis", np.full(n, 0.5)
    yield "three axes", np.full((n, 1, 1), 0.5)
    yield "complex numbers", np.full((n, 1), complex(73517351, 1))


def said(error):
    """Everything that an exception and those it holds on to say; not the lines of source, which are public."""
    seen, waiting, words = set(), [error], []
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        words += [type(one).__name__, str(one), repr(one), repr(one.args), *getattr(one, "__notes__", ())]
        words += traceback.format_exception_only(one)
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return "\n".join(words)


class Heard(logging.Handler):
    """Hears all that a call says: its refusal, warnings, logs, standard streams and new files."""

    def __init__(self, capfd, folder):
        super().__init__(logging.NOTSET)
        self.capfd, self.folder, self.words = capfd, folder, []

    def emit(self, record):
        self.words += [record.getMessage(), repr(record.args), *(said(record.exc_info[1]) if record.exc_info else "")]

    def call(self, function):
        """The refusal, or None, and everything that was said."""
        self.words = []
        self.capfd.readouterr()
        before = set(os.listdir(self.folder))
        logging.root.addHandler(self)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            refusal = None
            try:
                self.words.append(repr(function()))
            except Exception as error:
                refusal = error
                self.words.append(said(error))
            finally:
                logging.root.removeHandler(self)
        # A warning of a library that hostile rows never reach is no matter; its text is searched all the same.
        self.words += [f"{type(w.message).__name__} {w.message} {w.message.args}" for w in warned]
        self.words += [*self.capfd.readouterr(), *(set(os.listdir(self.folder)) - before)]
        return refusal, "\n".join(self.words)


def repeated(words):
    """The signs of rows that are among words."""
    return [sign for sign in SIGNS if sign in words]
