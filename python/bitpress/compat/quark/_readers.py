"""Quark's readers of samples."""

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from bitpress._errors import ArgumentTypeError, InvalidArgumentError, MissingFileError
from bitpress._files import Model, PathLike
from bitpress.compat._values import PATH
from bitpress.compat.quark._quantizer import RandomDataReader, input_shapes
from bitpress.compat.quark._types import CalibrationDataReader


class CachedDataReader(CalibrationDataReader):
    """Keeps the samples of another reader in memory, so that they can be read again after reset_iter().

    Args:
        dr: the other reader.
        data_size: so many samples at most.
        convert_nchw_to_nhwc: samples with four axes get their channels last.
        quantize_fp16: FLOAT samples become FLOAT16.
    """

    def __init__(self, dr: Any, data_size: Optional[int] = None, convert_nchw_to_nhwc: bool = False, quantize_fp16: bool = False) -> None:
        if not hasattr(dr, "get_next"):
            raise ArgumentTypeError(f"CachedDataReader: dr is {type(dr).__name__}; expected a reader with get_next()")
        self._samples: List[Dict[str, Any]] = []
        while (data_size is None or len(self._samples) < data_size) and (sample := dr.get_next()):
            arrays = {name: np.asarray(array) for name, array in sample.items()}
            if quantize_fp16:
                arrays = {name: array.astype(np.float16) if array.dtype == np.float32 else array for name, array in arrays.items()}
            if convert_nchw_to_nhwc:
                arrays = {name: array.transpose(0, 2, 3, 1) if array.ndim == 4 else array for name, array in arrays.items()}
            self._samples.append(arrays)
        if not self._samples:
            raise InvalidArgumentError("CachedDataReader: the reader dr gives no samples")
        self.reset_iter()

    def __len__(self) -> int:
        return len(self._samples)

    def reset_iter(self) -> None:
        self._next = iter(self._samples)

    def rewind(self) -> None:
        self.reset_iter()

    def get_next(self) -> Optional[Mapping[str, Any]]:
        return next(self._next, None)


class PathDataReader(CalibrationDataReader):
    """Samples from a folder of `.npy` files, or with several inputs from a folder for each, named as the input.

    Args:
        model_input: its inputs are looked up.
        data_path: the folder.
        input_shape: of each input, a dict, a list in the order of the inputs, or of a single input its sizes; nothing: the model's.
    """

    def __init__(self, model_input: Model, data_path: PathLike, input_shape: Union[Mapping[str, Sequence[int]], Sequence[Any]] = ()) -> None:
        PATH.needed().check(data_path, "PathDataReader: data_path")
        self._shapes = input_shapes(model_input, input_shape)
        names = list(self._shapes)
        self._folders = {name: self._folder(os.fspath(data_path), name) for name in names}
        self._files = sorted(file for file in os.listdir(self._folders[names[0]]) if file.endswith(".npy"))
        self.rewind()

    def _folder(self, path: str, name: str) -> str:
        for folder in (path, os.path.join(path, name)):
            if os.path.isdir(folder) and any(file.endswith(".npy") for file in os.listdir(folder)):
                return folder
        raise MissingFileError(f"PathDataReader: data_path={path!r} has no .npy files, and no folder '{name}' with some")

    def rewind(self) -> None:
        self._next = iter(self._files)

    def get_next(self) -> Optional[Mapping[str, Any]]:
        file = next(self._next, None)
        return None if file is None else {name: self._load(name, file) for name in self._shapes}

    def _load(self, name: str, file: str) -> Any:
        path, wanted = os.path.join(self._folders[name], file), self._shapes[name]
        if not os.path.exists(path):
            raise MissingFileError(f"PathDataReader: input '{name}' has no {file}, as other inputs have")
        array = np.load(path)
        if array.ndim == 1 and all(size > 0 for size in wanted) and array.size == np.prod(wanted):
            array = array.reshape(wanted)
        return array[None] if array.ndim + 1 == len(wanted) else array


def get_data_reader(model_input: Model, calibration_data_reader: Any = None, calibration_data_path: Optional[PathLike] = None,
                    extra_options: Optional[Mapping[str, Any]] = None) -> Any:
    """The reader that ModelQuantizer reads: the given one, one of the folder, or with UseRandomData one of random samples."""
    options = extra_options or {}
    if calibration_data_reader is not None:
        return calibration_data_reader
    if calibration_data_path is not None:
        return PathDataReader(model_input, calibration_data_path)
    if not options.get("UseRandomData"):
        raise InvalidArgumentError("get_data_reader: there are no samples: give calibration_data_reader or calibration_data_path, or "
                                   "UseRandomData in extra_options")
    return RandomDataReader(model_input, options.get("RandomDataReaderInputShape") or (), options.get("RandomDataReaderInputDataRange"))
