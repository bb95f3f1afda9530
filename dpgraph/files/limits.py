"""How much of a file is read, and how much of it a message repeats.

A limit is checked before memory is taken: a file's size before it is read, what a header claims before its table is
made. A message shows a few words of a file at most: names in it may be as long as the file.
"""

from __future__ import annotations

from pathlib import Path

from dpgraph.privacy.errors import FileError

#: The largest TOML file, in bytes: a domain of tens of thousands of levels.
MAX_TOML_BYTES = 2**20
#: The largest BIF file, in bytes; the largest of the networks that pgmpy bundles has 5.5 million.
MAX_NETWORK_BYTES = 6 * 2**20
#: The largest JSON document, in bytes, unless ``load`` is told another.
MAX_DOCUMENT_BYTES = 2**29
#: Bytes that are read at once.
AT_ONCE = 2**18
#: The longest words of a file in a message, and the longest message about a file, in characters.
MAX_EXCERPT = 40
MAX_MESSAGE = 600
#: How other files begin, and what reads them.
OTHERS = {
    b"SQLite format 3\x00": "is an SQLite database; of a ledger in it say --dataset, or dg.Budget.open",
    b"ARROW1": "holds rows, no public value: dg.count takes its table, pyarrow.ipc.open_file(path).read_all()",
    b"PAR1": "holds rows, no public value: dg.count, fit and evaluate read Parquet by its path",
}


def read_text(path: Path, most: int = MAX_DOCUMENT_BYTES) -> str:
    """A file's UTF-8 text, without the mark of its byte order; no more than ``most`` bytes are read, whatever it is."""
    try:
        data = bytearray()
        with path.open("rb") as file:
            while len(data) <= most and (part := file.read(AT_ONCE)):  # asked for all at once it takes all at once
                data += part
        if len(data) > most:
            raise FileError(f"{path} is larger than {most:,} bytes, the most that is read of such a file")
        for start, words in OTHERS.items():
            if data.startswith(start):
                raise FileError(f"{path} {words}")
        return data.decode("utf-8-sig")
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{path} cannot be read: there is no such file") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read ({type(error).__name__})") from None


def excerpt(text: str) -> str:
    """A few words of a file, as a message shows them."""
    return repr(text) if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]!r} ..."


def shortened(message: str) -> str:
    """A message about a file, without its middle where it is long."""
    if len(message) <= MAX_MESSAGE:
        return message
    half = (MAX_MESSAGE - 5) // 2
    return f"{message[: MAX_MESSAGE - 5 - half]} ... {message[-half:]}"
