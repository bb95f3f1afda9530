"""A digest of a file's content, which detects corruption and accidental edits.

The SHA-256 of the content as compact JSON, keys in the order of the file. It proves nothing against a forger: claims
are checked against themselves (``mechanisms.reproduction``).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dpgraph.privacy.errors import FileError

#: The version of files that is written, and the only one that is read.
VERSION = 3


def digest(plain: dict[str, Any]) -> str:
    """The digest of a document, leaving out any digest it contains already."""
    content = {key: value for key, value in plain.items() if key != "digest"}
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


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
