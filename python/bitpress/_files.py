"""Models and plans as files: what the library reads."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any, Iterator, Protocol, Union, runtime_checkable

from bitpress._errors import ArgumentTypeError, InvalidArgumentError, MissingFileError


@runtime_checkable
class Serializable(Protocol):
    """onnx.ModelProto and whatever else gives its bytes."""

    def SerializeToString(self) -> bytes: ...


PathLike = Union[str, "os.PathLike[str]"]
Model = Union[PathLike, bytes, bytearray, memoryview, Serializable]


def existing(path: PathLike, what: str) -> Path:
    """The path, which must be there. Raises MissingFileError."""
    result = Path(path)
    if not result.exists():
        raise MissingFileError(f"there is no {what} '{result}'")
    return result


def bytes_of(model: Any) -> bytes:
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, Serializable):
        try:
            return model.SerializeToString()
        except ValueError as error:  # protobuf: over 2 GB
            raise InvalidArgumentError(f"the model cannot be serialized: {error}; save it with external data and give the path") from error
    raise ArgumentTypeError(f"a model is a path, bytes or an object with SerializeToString(), not {type(model).__name__}")


@contextlib.contextmanager
def model_file(model: Model) -> Iterator[Path]:
    """The model as a file, for as long as the block lasts."""
    if isinstance(model, (str, os.PathLike)):
        yield existing(model, "model")
        return
    content = bytes_of(model)
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(content)
        yield path
