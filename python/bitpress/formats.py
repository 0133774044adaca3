"""Number formats, and what they do to arrays.

>>> bitpress.formats.quantize_dequantize(array, "mx6", axis=1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress._native import Format
from bitpress._native import find_format as find
from bitpress._native import list_formats as _list_formats
from bitpress._native import quantize_dequantize as _quantize_dequantize

if TYPE_CHECKING:  # the functions import it, because it takes longer than all the rest
    import numpy as np
    import numpy.typing as npt

__all__ = ["Format", "find", "list", "quantize_dequantize"]


def list() -> List[str]:  # noqa: A001 - the name users look for
    """The names of all formats; `bfp(bits=13, block=32)` and its like are formats too."""
    return _list_formats()


def _check_output(out: npt.NDArray[Any], x: npt.NDArray[Any]) -> None:
    import numpy as np

    import numpy as np

    if not isinstance(out, np.ndarray):
        raise ArgumentTypeError(f"out is {type(out).__name__}, expected a numpy array")
    if out.dtype != x.dtype or out.shape != x.shape:
        raise InvalidArgumentError(f"out is {out.dtype}{_shape_text(out)}, expected {x.dtype}{_shape_text(x)} as the array")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise InvalidArgumentError("out must be row-major without gaps, and writeable")
    if np.may_share_memory(out, x) and not (out.ctypes.data == x.ctypes.data and x.flags.c_contiguous):
        raise InvalidArgumentError("out overlaps the array without being the same memory")


def _shape_text(array: npt.NDArray[Any]) -> str:
    return f"[{', '.join(map(str, array.shape))}]"


def quantize_dequantize(array: npt.ArrayLike, format: str, axis: Optional[int] = None, *, scale: Optional[str] = None,
                        rounding: Optional[str] = None, symmetric: Optional[bool] = None, reduce_range: bool = False,
                        out: Optional[npt.NDArray[Any]] = None, threads: int = 0) -> npt.NDArray[Any]:
    """The array after it went through a format: what the format makes of each value.

    Args:
        array: float32 or float16, any shape. Row-major arrays are not copied; others are, once.
        format: a name of `list()`, or `bfp(bits=13, block=32)`.
        axis: blocks run along it (default: the last). Integers have one scale for each index of it (default: one in
            all), from the smallest and largest finite value. Formats of single floats (bf16) do not look at it.
        scale: of blocks: how the shared exponent is chosen, `floor` (default), `ceil`, `even` or `mse`.
        rounding: `half_to_even` (default), `half_away_from_zero` or `half_up`.
        symmetric: of integers: zero in the middle of the codes (default: for signed types).
        reduce_range: of integers: one bit less.
        out: filled and returned instead of a new array; may be the array itself.
        threads: 0: one per core; small arrays take one.

    Returns:
        An array of the same shape and type.

    Raises:
        ArgumentTypeError: another element type; convert with `array.astype(numpy.float32)`.
        InvalidArgumentError: no such format, axis or word, or an `out` that does not fit.
    """
    import numpy as np

    given = np.asarray(array)
    dtype = given.dtype.newbyteorder("=")
    if dtype not in (np.float32, np.float16):
        raise ArgumentTypeError(f"the array has element type {given.dtype}; expected float32 or float16 (array.astype(numpy.float32))")
    if threads < 0:
        raise InvalidArgumentError(f"threads={threads}: expected 0 (all cores) or more")
    if axis is not None and not -max(given.ndim, 1) <= axis < max(given.ndim, 1):
        raise InvalidArgumentError(f"there is no axis {axis} in an array of {given.ndim} dimensions")
    x = np.asarray(given, dtype=dtype, order="C")
    if out is None:
        out = np.empty_like(x, subok=False)
    else:
        _check_output(out, given)
    _quantize_dequantize(x, out, format, axis, scale, rounding, symmetric, reduce_range, threads)
    return out
