"""Samples that are handed to workers: the items of an iterable in blocks, and the blocks of a Ray dataset where they lie."""

import hashlib
import itertools
import pickle
from dataclasses import dataclass
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress._samples import rows_of

_ITEMS_OF_A_BLOCK = 32

# The classes of samples: a number for each, or the name of what holds them in each item.
Labels = Union[Sequence[int], str, None]


@dataclass(frozen=True)
class Block:
    """Some of the items. `load` gives them in a worker, with their classes."""

    items: List[Any]
    labels: Optional[List[int]] = None
    label_name: str = ""

    def load(self) -> Tuple[List[Any], Optional[List[int]]]:
        return _without_labels(self.items, self.label_name) if self.label_name else (self.items, self.labels)

    def digest(self) -> str:
        return hashlib.sha256(pickle.dumps((self.items, self.labels, self.label_name))).hexdigest()[:32]


@dataclass(frozen=True)
class StoredBlock:
    """A block of a Ray dataset in the cluster's store, from where the worker takes it: arrays by column, whose rows are samples."""

    reference: Any
    label_name: str

    def load(self) -> Tuple[List[Any], Optional[List[int]]]:
        import ray

        return _without_labels([ray.get(self.reference)], self.label_name)


def _look_at(columns: Any) -> Tuple[int, str]:
    """The rows of a block, and its digest."""
    if not isinstance(columns, dict):
        raise ArgumentTypeError("the rows of a dataset are dicts of name -> array")
    num_rows = len(next(iter(columns.values()), []))
    return num_rows, hashlib.sha256(pickle.dumps(sorted(columns.items()))).hexdigest()[:32]


def _without_labels(items: List[Any], name: str) -> Tuple[List[Any], Optional[List[int]]]:
    """Items and the classes that they hold under a name."""
    import numpy as np

    if not name:
        return items, None
    labels: List[int] = []
    inputs = []
    for item in items:
        if not isinstance(item, Mapping) or name not in item:
            raise InvalidArgumentError(f"an item lacks '{name}', which is to hold the classes of its samples")
        labels += [int(label) for label in np.ravel(item[name])]
        inputs.append({key: value for key, value in item.items() if key != name})
    return inputs, labels


def _iterated(data: Any) -> Iterator[Any]:
    import numpy as np

    if isinstance(data, (np.ndarray, Mapping)):
        return iter([data])  # whole: the first dimension may be time
    if hasattr(data, "get_next"):
        return iter(data.get_next, None)
    if not hasattr(data, "__iter__"):
        raise ArgumentTypeError("data is a folder, Text, Tokens, an array, an iterable of samples, a Ray dataset, or a reader with get_next(), "
                                f"not {type(data).__name__}")
    return iter(data)


def is_dataset(data: Any) -> bool:
    """Whether it is a ray.data.Dataset."""
    return hasattr(data, "to_numpy_refs")


def count_rows(data: Any, samples: int) -> int:
    """The samples of a dataset; 0 of an iterable, which does not tell."""
    if not is_dataset(data):
        return 0
    count = int(data.count())
    return min(count, samples) if samples else count


# Words for messages, the first item, samples (0: not known), the block, and its digest. Files are named by digests, so that a call goes
# on only with what it would give again.
_Part = Tuple[str, int, int, Any, str]


def blocks_of(data: Any, labels: Labels, samples: int, takes_references: bool) -> Iterator[_Part]:
    """The blocks of an iterable or a dataset. Those of a dataset are made before the workers take all CPUs of a cluster."""
    if is_dataset(data):
        if labels is not None and not isinstance(labels, str):
            raise ArgumentTypeError("labels of a dataset are the name of its column")
        data = data.limit(samples) if samples else data
        if takes_references:
            return iter(_stored(data, labels or ""))
        data, samples = data.iter_batches(batch_size=_ITEMS_OF_A_BLOCK, batch_format="numpy"), 0
    return _read(_iterated(data), labels, samples)


def _read(items: Iterator[Any], labels: Labels, samples: int) -> Iterator[_Part]:
    if samples:
        items = itertools.islice(items, samples)
    classes = None if labels is None or isinstance(labels, str) else labels
    num_labels = 0
    for i in itertools.count():
        found = list(itertools.islice(items, _ITEMS_OF_A_BLOCK))
        if not found:
            break
        own: Optional[List[int]] = None
        if classes is not None:
            begin = num_labels
            num_labels += sum(rows_of(item.values() if isinstance(item, Mapping) else [item]) for item in found)
            if num_labels > len(classes):
                raise InvalidArgumentError(f"there are only {len(classes)} labels, but more samples")
            own = [int(label) for label in classes[begin:num_labels]]
        block = Block(found, own, labels if isinstance(labels, str) else "")
        first = i * _ITEMS_OF_A_BLOCK
        yield f"items {first} to {first + len(found) - 1}", first, 0, block, block.digest()
    if classes is not None and num_labels < len(classes) and not samples:
        raise InvalidArgumentError(f"there are {len(classes)} labels, but only {num_labels} samples")


def _stored(dataset: Any, label_name: str) -> List[_Part]:
    import ray

    references = dataset.to_numpy_refs()
    looks = ray.get([ray.remote(_look_at).remote(reference) for reference in references])
    return [(f"block {i} of the dataset", i, num_rows, StoredBlock(reference, label_name), digest)
            for i, (reference, (num_rows, digest)) in enumerate(zip(references, looks)) if num_rows]
