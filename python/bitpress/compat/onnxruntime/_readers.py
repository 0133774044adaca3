"""ONNX Runtime's base class of readers."""

from typing import Any, Iterator, Mapping

from bitpress._errors import UnsupportedError
from bitpress.compat._readers import Reader


class CalibrationDataReader(Reader):
    """Samples: dicts of name -> array, and None at the end. Any class with get_next() counts as one."""

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return self

    def __next__(self) -> Mapping[str, Any]:
        sample = self.get_next()
        if sample is None:
            raise StopIteration
        return sample

    def set_range(self, start_index: int, end_index: int) -> None:
        raise UnsupportedError(f"{type(self).__name__} has no set_range(); nothing calls it here: samples are read one after another")
