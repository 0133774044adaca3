"""What the classes of readers of the peers have in common."""

import abc
from typing import Any, Iterator, Mapping, Optional


class Reader(abc.ABC):
    """Samples: dicts of name -> array, and None at the end. Any class with get_next() counts as one of a class made directly of this."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> Any:
        return Reader in cls.__bases__ and callable(getattr(subclass, "get_next", None)) or NotImplemented

    @abc.abstractmethod
    def get_next(self) -> Optional[Mapping[str, Any]]: ...

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.get_next, None)
