"""ONNX Runtime's base class of readers."""

import abc
from typing import Any, Iterator, Mapping, Optional

from bitpress._errors import UnsupportedError


class CalibrationDataReader(abc.ABC):
    """Samples: dicts of name -> array, and None at the end. Any class with get_next() counts as one."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> Any:
        return cls is CalibrationDataReader and callable(getattr(subclass, "get_next", None)) or NotImplemented

    @abc.abstractmethod
    def get_next(self) -> Optional[Mapping[str, Any]]: ...

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return self

    def __next__(self) -> Mapping[str, Any]:
        sample = self.get_next()
        if sample is None:
            raise StopIteration
        return sample

    def set_range(self, start_index: int, end_index: int) -> None:
        raise UnsupportedError(f"{type(self).__name__} has no set_range(); nothing calls it here: samples are read one after another")
