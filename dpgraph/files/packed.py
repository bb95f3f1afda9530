"""Documents whose large arrays are binary: a ``.npz`` archive of NumPy, which ``numpy.load`` opens too.

The member ``document.json`` names type, shape and digest of a member in place of each large array. A reader that needs
few reads few; nothing is unpickled, and no array is made larger than its member is.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from dpgraph.files.digest import sealed, unsealed
from dpgraph.files.networks import parse_json
from dpgraph.privacy.errors import DPGraphError, FileError
from dpgraph.waiting import counted

T = TypeVar("T")
#: The member that holds everything but arrays.
DOCUMENT = "document.json"
#: The key that stands for an array in it.
ARRAY = "array"
#: Numbers that are written, and bytes that are read, without hearing of an interruption; hundredths of a second.
AT_ONCE = 1 << 18
#: The largest document, and the most bytes of all arrays together.
MOST_TEXT, MOST_BYTES = 1 << 28, 1 << 31
_TYPES = ("<f8", "<f4", "<i8", "<i4", "<i2", "|i1")
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, KeyError, NotImplementedError, RuntimeError)
_REFERENCE = {ARRAY, "dtype", "shape", "sha256"}
#: What an archive's modification times are: the same content is the same file.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def _mapped(plain: Any, change: Callable[[Any], Any]) -> Any:
    """A document with some of its values changed; the parts of an unchanged value are looked at in turn."""
    if (changed := change(plain)) is not plain:
        return changed
    if isinstance(plain, dict):
        return {key: _mapped(part, change) for key, part in plain.items()}
    return [_mapped(part, change) for part in plain] if isinstance(plain, list) else plain


def nested(plain: Any) -> Any:
    """A document with its arrays as nested lists, as JSON has them."""
    return _mapped(plain, lambda part: part.tolist() if isinstance(part, np.ndarray) else part)


def write_packed(file: IO[bytes], plain: dict[str, Any]) -> None:
    """Writes a document with arrays to an open file, one array at a time, compressed."""
    if (size := sum(array.nbytes for array in _all(plain, np.ndarray))) > MOST_BYTES:
        raise FileError(f"the arrays take {size} bytes, and a file at most {MOST_BYTES}; keep fewer draws")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        arrays = enumerate(counted(list(_all(plain, np.ndarray))))
        stored = [_stored(archive, f"{ARRAY}{number}", array) for number, array in arrays]
        text = json.dumps(sealed(_replaced(plain, np.ndarray, iter(stored))), indent=1, allow_nan=False)
        archive.writestr(zipfile.ZipInfo(DOCUMENT, _NO_TIME), text, zipfile.ZIP_DEFLATED)


def _all(plain: Any, kind: type[T]) -> Iterator[T]:
    if isinstance(plain, kind):
        yield plain
    else:
        for part in plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ():
            yield from _all(part, kind)


def _replaced(plain: Any, kind: type, others: Iterator[Any]) -> Any:
    """A document with another value in place of each of a kind, in order."""
    return _mapped(plain, lambda part: next(others) if isinstance(part, kind) else part)


def _stored(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> dict[str, Any]:
    content = np.ascontiguousarray(array)
    content = content.astype(content.dtype.newbyteorder("<"), copy=False).reshape(array.shape)
    if content.dtype.str not in _TYPES:
        raise FileError(f"an array of {content.dtype} is not saved")
    member = zipfile.ZipInfo(f"{name}.npy", _NO_TIME)
    member.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(member, "w", force_zip64=True) as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(content))
        made = hashlib.sha256()
        for start in counted(range(0, content.size, AT_ONCE)):
            part = content.reshape(-1)[start : start + AT_ONCE].tobytes()
            stream.write(part)
            made.update(part)
    return {ARRAY: name, "dtype": content.dtype.str, "shape": list(content.shape), "sha256": made.hexdigest()}


@dataclass(frozen=True)
class Packed:
    """One array of an archive that has not been read; the archive is open, as opening it reads all its names."""

    archive: zipfile.ZipFile
    reference: Mapping[str, Any]

    def read(self) -> np.ndarray:
        """The array, checked against its digest."""
        try:
            return _array_of(self.archive, self.reference)
        except FileError as error:
            raise FileError(f"{self.archive.filename}: {error}") from None
        except _BROKEN as error:
            raise FileError(f"{self.archive.filename}: an array cannot be read ({type(error).__name__})") from None


def read_packed(path: Path) -> Any:
    """A document of an archive, its digest checked, with a ``Packed`` in place of each array."""
    try:
        archive = zipfile.ZipFile(path)
        members = archive.infolist()
        sizes = {member.filename: member.file_size for member in members}
        if len(sizes) < len(members) or sizes.get(DOCUMENT, MOST_TEXT + 1) > MOST_TEXT:
            raise FileError(f"it has no {DOCUMENT} of at most {MOST_TEXT} bytes, or a member twice")
        if sum(sizes.values()) > MOST_BYTES:
            raise FileError(f"it holds more than {MOST_BYTES} bytes")
        if sum(member.compress_size for member in members) > path.stat().st_size:
            raise FileError("its members overlap")
        text = archive.read(DOCUMENT).decode()
        document = _mapped(
            unsealed(parse_json(text)),
            lambda part: Packed(archive, part) if isinstance(part, dict) and set(part) == _REFERENCE else part,
        )
        names = [str(packed.reference[ARRAY]) for packed in _all(document, Packed)]
        if len(set(names)) < len(names):  # the members' sizes bound what is read
            raise FileError("two places of the document name the same array")
        return document
    except DPGraphError as error:
        raise FileError(f"{path}: {error}") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read ({type(error).__name__})") from None
    except _BROKEN as error:
        raise FileError(f"{path} is not a whole dpgraph archive ({type(error).__name__})") from None


def unpacked(plain: Any) -> Any:
    """A document with every array read."""
    arrays = [packed.read() for packed in counted(list(_all(plain, Packed)))]
    return _replaced(plain, Packed, iter(arrays))


def _array_of(archive: zipfile.ZipFile, reference: Mapping[str, Any]) -> np.ndarray:
    """Reads one array, whose size the archive, its own header and the document must agree on before it is made."""
    name, shape, dtype = reference[ARRAY], reference["shape"], reference["dtype"]
    sizes = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    if not isinstance(name, str) or dtype not in _TYPES or not sizes:
        raise FileError("an array is not described as one")
    bytes_ = math.prod(shape) * np.dtype(dtype).itemsize
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise FileError("an array is of another version")
        found = np.lib.format.read_array_header_1_0(stream)
        if found != (tuple(shape), False, np.dtype(dtype)) or bytes_ != member.file_size - stream.tell():
            raise FileError("an array has another size than it is said to have")
        content, made = bytearray(), hashlib.sha256()
        for _ in counted(range(0, bytes_, AT_ONCE)):
            part = stream.read(min(AT_ONCE, bytes_ - len(content)))
            content += part
            made.update(part)
    if len(content) != bytes_ or made.hexdigest() != reference["sha256"]:
        raise FileError("an array does not have the digest it was saved with: the file was changed or is damaged")
    array = np.frombuffer(content, dtype).reshape(shape)
    array.setflags(write=False)
    return array
