"""Names for the kinds of numpy arrays, by their elements; shapes are in the docstrings that use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: Unsigned integers of any width, as codes are.
Unsigned = npt.NDArray[np.unsignedinteger[Any]]
#: 64 bits each, as bitmaps are.
Words = npt.NDArray[np.uint64]
