"""A digest of a file's content, which detects corruption and accidental edits.

It is the SHA-256 of the content as compact JSON, keys in the order of the file, since the order of variables and levels
has a meaning. A digest proves nothing against a forger, who can compute it again: the claims of a record are checked
against themselves (``mechanisms.reproduction``), and who wrote it must be known by other means.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dpgraph.privacy.records import FileError

#: Files of this version and before have no digest.
WITHOUT = 1


def digest(plain: dict[str, Any]) -> str:
    """The digest of a document, leaving out any digest it contains already.

    >>> digest({"a": 1}) == digest({"a": 1, "digest": "sha256:0"}) != digest({"a": 2})
    True
    """
    content = {key: value for key, value in plain.items() if key != "digest"}
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def sealed(plain: dict[str, Any]) -> dict[str, Any]:
    """A document with its digest at the end."""
    content = {key: value for key, value in plain.items() if key != "digest"}
    return content | {"digest": digest(content)}


def unsealed(plain: Any) -> Any:
    """A document without its digest, after checking it; anything that is not a document is returned as it is.

    Raises:
        FileError: If the digest is missing or another one.
    """
    if not isinstance(plain, dict) or "format" not in plain or plain.get("version") == WITHOUT:
        return plain
    if plain.get("digest") != digest(plain):
        raise FileError("the content does not have the digest it was saved with: the file was changed or is damaged")
    return {key: value for key, value in plain.items() if key != "digest"}
