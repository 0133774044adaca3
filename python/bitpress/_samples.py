"""Samples from Python: what `data=` takes besides a folder, made into a stream that the library can read again and again."""

from __future__ import annotations

import contextlib
import numbers
import os
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Mapping, Optional, Protocol, Sequence, Tuple, TypeAlias, Union

from bitpress import _native
from bitpress._errors import ArgumentTypeError, InvalidArgumentError, warn
from bitpress._files import PathLike, existing
from bitpress._text import Tokens

if TYPE_CHECKING:  # the functions import it, because it takes longer than all the rest
    import numpy as np
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Sample = Union[Mapping[str, Any], Array]


class Reader(Protocol):
    """ONNX Runtime's CalibrationDataReader; with `rewind()` it is not copied to a temporary file."""

    def get_next(self) -> Optional[Mapping[str, Any]]: ...


Data = Union[PathLike, Tokens, Sample, Iterable[Sample], Reader, "WholeItems"]

_KINDS = "fiub"


class WholeItems:
    """Samples each of which is one item of `data`, whatever its first dimension says: its rows belong together.

    Without it, that is found by running the first row of an item.

    >>> bitpress.quantize("model.onnx", "int8.onnx", "INT8", WholeItems(list_of_arrays))
    """

    def __init__(self, data: Data) -> None:
        if isinstance(data, (Tokens, WholeItems)):
            raise ArgumentTypeError("WholeItems takes a folder, arrays, dicts of arrays, an iterable of these, or a reader")
        self.data = data


def _to_array(value: Any, name: str, wanted: str = "") -> Array:
    """The array of an input. Lists of numbers get the type that the model wants; arrays have one."""
    import numpy as np

    if isinstance(value, (list, tuple)) and any(getattr(part, "shape", ()) for part in value):
        raise ArgumentTypeError(f"a sample of input '{name}' is a {type(value).__name__} of {len(value)} arrays. Of batches such as (x, y) give "
                                "the inputs only, `[x for x, y in batches]`; of several inputs give a dict of name -> array; rows are joined "
                                "by numpy.stack")
    is_plain = bool(wanted) and not hasattr(value, "dtype")
    try:
        array = np.asarray(value, dtype=wanted if is_plain else None)
    except (ValueError, TypeError) as error:
        raise ArgumentTypeError(f"a sample of input '{name}' is no array of numbers: {error}") from error
    if array.dtype.kind in "US":
        raise ArgumentTypeError(f"the samples of input '{name}' are texts, and samples are numbers: give none to a model that takes texts, with a "
                                "configuration that needs none (INT8_DYNAMIC, INT8_WEIGHTS, MX6, ...)")
    if array.dtype.kind not in _KINDS or array.dtype.itemsize > 8:
        raise ArgumentTypeError(f"the samples of input '{name}' have element type {array.dtype}; floats, integers and bool are taken")
    # Not ascontiguousarray, which makes vectors of scalars.
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _pick(sample: Sample, names: Sequence[str], types: Sequence[str]) -> List[Array]:
    """The arrays of one item in the order of the model's inputs."""
    if not isinstance(sample, Mapping):
        if len(names) != 1:
            raise InvalidArgumentError(f"a sample is one array, but the model has {len(names)} inputs ({', '.join(names)}); "
                                       "give dicts of name -> array")
        return [_to_array(sample, names[0], types[0])]
    missing = [name for name in names if name not in sample]
    if missing:
        raise InvalidArgumentError(f"a sample lacks the input '{missing[0]}'; it has {', '.join(map(repr, sample)) or 'nothing'}")
    return [_to_array(sample[name], name, wanted) for name, wanted in zip(names, types)]


def rows_of(arrays: Iterable[Any]) -> int:
    """How many samples an item is: its first dimension, if all inputs agree in it."""
    def first_dimension(array: Any) -> Tuple[int, ...]:
        if isinstance(array, (list, tuple)):  # perhaps of uneven lists, which have no shape
            return (len(array),)
        return tuple(getattr(array, "shape", ()))[:1]

    rows = {first_dimension(array) for array in arrays}
    (first,) = rows if len(rows) == 1 else ((),)
    return first[0] if first else 1


class _Spool:
    """Keeps what can be read only once in a temporary file, and reads it from there from the second time on.

    `fetch` is not called again after its first None: strict readers raise then, and others begin anew without end.
    """

    def __init__(self, fetch: Callable[[], Optional[Sample]]) -> None:
        self._fetch = fetch
        self._file = tempfile.TemporaryFile(prefix="bitpress-")
        self._items: List[Optional[Tuple[str, ...]]] = []  # names; None: an array without one
        self._is_complete = False
        self._position = 0
        self._offset = 0

    def rewind(self) -> None:
        self._position = self._offset = 0

    def next(self) -> Optional[Sample]:
        import numpy as np

        if self._position == len(self._items):
            return None if self._is_complete else self._append()
        names = self._items[self._position]
        self._file.seek(self._offset)
        arrays = [np.lib.format.read_array(self._file, allow_pickle=False) for _ in names or ("",)]
        self._offset = self._file.tell()
        self._position += 1
        return arrays[0] if names is None else dict(zip(names, arrays))

    def _append(self) -> Optional[Sample]:
        import numpy as np

        sample = self._fetch()
        if sample is None:
            self._is_complete = True
            return None
        names = tuple(sample) if isinstance(sample, Mapping) else None
        values = list(sample.values()) if isinstance(sample, Mapping) else [sample]
        self._file.seek(0, os.SEEK_END)
        for name, value in zip(names or ("",), values):
            np.lib.format.write_array(self._file, _to_array(value, name), allow_pickle=False)
        self._offset = self._file.tell()
        self._items.append(names)
        self._position += 1
        return sample

    def close(self) -> None:
        self._file.close()


class _Restarted:
    """Something whose `iter()` begins anew each time."""

    def __init__(self, data: Iterable[Sample]) -> None:
        self._data = data
        self._iterator: Iterator[Sample] = iter(())

    def rewind(self) -> None:
        self._iterator = iter(self._data)

    def next(self) -> Optional[Sample]:
        return next(self._iterator, None)


class _Rewound:
    """A reader with rewind(). Whoever only looks at the first item does not make it read again."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._first: Optional[Sample] = None  # kept until the second one is read
        self._num_read = 0
        self._is_replayed = False

    def rewind(self) -> None:
        self._is_replayed = self._num_read == 1 and self._first is not None
        if not self._is_replayed:
            self._reader.rewind()
            self._num_read = 0

    def next(self) -> Optional[Sample]:
        if self._is_replayed:
            self._is_replayed = False
            return self._first
        sample: Optional[Sample] = self._reader.get_next()
        self._num_read += 1
        self._first = sample if self._num_read == 1 else None
        return sample


def _open(data: Any) -> Union[_Spool, _Restarted, _Rewound]:
    import numpy as np

    if isinstance(data, (np.ndarray, Mapping)):
        return _Restarted([data])
    if hasattr(data, "get_next"):
        return _Rewound(data) if hasattr(data, "rewind") else _Spool(data.get_next)
    if not hasattr(data, "__iter__"):
        raise ArgumentTypeError("data is a folder, Text, Tokens, an array, a dict of arrays, an iterable of these, or a reader with get_next(), "
                                f"not {type(data).__name__}")
    iterator = iter(data)
    return _Spool(lambda: next(iterator, None)) if iterator is data else _Restarted(data)


def _count(data: Any) -> int:
    """Samples in all where that can be seen without reading them; 0: not known."""
    import numpy as np

    if isinstance(data, (np.ndarray, Mapping)):
        data = [data]
    if not isinstance(data, (list, tuple)):
        return 0
    return sum(rows_of(item.values() if isinstance(item, Mapping) else [item]) for item in data)


class SharedSamples:
    """A reader with rewind() of any samples, for several who read them in turn. What can be read only once is copied."""

    def __init__(self, data: Any) -> None:
        self._source = _open(data)
        self.rewind = self._source.rewind
        self.get_next = self._source.next

    def close(self) -> None:
        if isinstance(self._source, _Spool):
            self._source.close()


class Samples:
    """The samples that `bitpress._native` reads."""

    def __init__(self, data: Any, labels: Optional[Sequence[int]] = None, first_item: int = 0) -> None:
        self._source = _open(data)
        self.first_item = first_item
        self._labels = labels
        self._num_given = 0
        self.num_samples = _count(data)
        self.has_labels = labels is not None

    def rewind(self) -> None:
        self._source.rewind()
        self._num_given = 0

    def next(self, names: Sequence[str], types: Sequence[str]) -> Optional[Tuple[List[Array], List[int], str]]:
        """The arrays and labels of the next item, or why it is none that the model takes. A type is NumPy's name, or "" if it has none."""
        sample = self._source.next()
        if sample is None:
            return None
        try:
            arrays = _pick(sample, names, types)
        except InvalidArgumentError as error:
            if self._labels is not None:
                self._num_given += rows_of(sample.values() if isinstance(sample, Mapping) else [sample])
            return [], [], str(error)
        if self._labels is None:
            return arrays, [], ""
        begin = self._num_given
        self._num_given += rows_of(arrays)
        if self._num_given > len(self._labels):
            raise InvalidArgumentError(f"there are only {len(self._labels)} labels, but more samples")
        return arrays, [int(label) for label in self._labels[begin : self._num_given]], ""

    def close(self) -> None:
        if isinstance(self._source, _Spool):
            self._source.close()


@contextlib.contextmanager
def sample_arguments(data: Optional[Data], labels: Union[PathLike, Sequence[int], None] = None, image: str = "",
                     samples: int = 0, shard: str = "", part_of: Optional[Tuple[int, int]] = None,
                     first_item: int = 0) -> Iterator[_native.SampleArguments]:
    """`data`, `labels`, `image`, `samples` and `shard` of the interface as the library takes them. Items are numbered from `first_item` on.

    `part_of` says of samples in memory how many come before them, and how many there are in all (0: not known).
    """
    if not isinstance(samples, numbers.Integral):
        raise ArgumentTypeError(f"samples={samples!r}: expected int")
    if samples < 0:
        raise InvalidArgumentError(f"samples={samples}: expected 0 (all) or more")
    whole_items = isinstance(data, WholeItems)
    if isinstance(data, WholeItems):
        data = data.data
    if data is None:
        yield _native.SampleArguments(num_samples=samples)
    elif isinstance(data, Tokens):
        if labels is not None or image:
            raise ArgumentTypeError("tokens and texts have no labels, and image is for photos")
        with data.file() as path:
            yield _native.SampleArguments(tokens=path, num_tokens=data.sequence, prefix=data.prefix, suffix=data.suffix,
                                          num_samples=samples, shard=shard)
    elif isinstance(data, (str, os.PathLike)):
        if labels is not None and not isinstance(labels, (str, os.PathLike)):
            raise ArgumentTypeError("labels of a folder are a CSV file with the columns file,class")
        left_out = _native.files_left_out(existing(data, "folder of samples")) if labels is None else ""
        if left_out:
            warn(UserWarning(left_out))
        yield _native.SampleArguments(folder=existing(data, "folder of samples"),
                                      labels_csv=None if labels is None else existing(labels, "file of labels"),
                                      image=image, num_samples=samples, shard=shard, whole_items=whole_items)
    else:
        if isinstance(labels, (str, os.PathLike)) or image:
            raise ArgumentTypeError("labels in a file, and image, are for folders; give labels of arrays as a sequence of numbers")
        if shard:
            raise ArgumentTypeError("shard is for files: folders, tokens and texts")
        stream = Samples(data, labels, first_item)
        try:
            yield _native.SampleArguments(stream=stream, num_samples=samples, part_of=part_of, whole_items=whole_items)
        finally:
            stream.close()
