"""A digest of a file's content, which detects corruption and accidental edits.

The SHA-256 of the content as compact JSON, keys in the order of the file. It proves nothing against a forger: claims
are checked against themselves (``mechanisms.reproduction``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from dpgraph.privacy.errors import FileError

#: Numbers that are written without hearing of an interruption, in some hundredths of a second.
AT_ONCE = 1 << 16
#: The version of files that is written, and the only one that is read.
VERSION = 3


def digest(plain: dict[str, Any]) -> str:
    """The digest of a document, leaving out any digest it contains already."""
    made = hashlib.sha256()
    for text in _compact({key: value for key, value in plain.items() if key != "digest"}):
        made.update(text.encode())
    return f"sha256:{made.hexdigest()}"


def _compact(value: Any) -> Iterator[str]:
    """Compact JSON in parts, between which an interruption is heard: a list of many numbers is written in several."""
    if isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
        for at, (key, part) in enumerate(value.items()):
            yield f"{',' if at else '{'}{json.dumps(key)}:"
            yield from _compact(part)
        yield "}"
    elif isinstance(value, list) and _length(value) > AT_ONCE:
        step = max(1, AT_ONCE * len(value) // _length(value))
        for start in range(0, len(value), step):
            part = value[start : start + step]
            yield "," if start else "["
            yield from _compact(part[0]) if len(part) == 1 else (_text(part)[1:-1],)
        yield "]"
    else:
        yield _text(value)


def _length(value: list[Any]) -> int:
    """About how many values a list holds, by the first of each list in it."""
    first: Any = value[0] if value else None
    return len(value) * (_length(first) if isinstance(first, list) and first else 1)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def sealed(plain: dict[str, Any]) -> dict[str, Any]:
    """A document with its digest at the end."""
    content = {key: value for key, value in plain.items() if key != "digest"}
    return content | {"digest": digest(content)}


def check_version(plain: dict[str, Any]) -> None:
    """Refuses a document of another version."""
    version = plain.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise FileError(
            f"files of version {version!r:.60} are not read, only of version {VERSION}: write the file again"
        )


def unsealed(plain: Any) -> Any:
    """A document without its digest, after checking it; anything that is not a document is returned as it is."""
    if not isinstance(plain, dict) or "format" not in plain:
        return plain
    check_version(plain)
    if plain.get("digest") != digest(plain):
        raise FileError("the content does not have the digest it was saved with: the file was changed or is damaged")
    return {key: value for key, value in plain.items() if key != "digest"}
