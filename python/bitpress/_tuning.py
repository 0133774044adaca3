"""Fine-tuning in parts: moments of some of the samples, and layers that learn from the sum."""

import os
from pathlib import Path
from typing import Any, Optional, Sequence, Union

from bitpress import _native
from bitpress._api import ConfigLike, Plan, Rule, _count
from bitpress._errors import InvalidArgumentError
from bitpress._files import Model, PathLike, existing, model_file
from bitpress._progress import Progress, Reporting
from bitpress._quantize import _plan_file, _quantize_arguments
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data, sample_arguments
from bitpress._text import Tokens


def moments(model: Model, data: Data, output: PathLike, config: Optional[ConfigLike] = None, *, plan: Union[PathLike, Plan, None] = None,
            calibration: Optional[PathLike] = None, image: str = "", labels: Optional[PathLike] = None, samples: int = 0,
            shard: str = "", first: int = 0, total: int = 0, rules: Sequence[Rule] = (), as_is: bool = False, threads: int = 0,
            progress: Progress = None, **settings: Any) -> _native.MomentsReport:
    """Gathers what fine-tuning learns from, from some of the samples, and writes it.

    tune() learns from the sum of all parts. Arguments that are not listed are those of quantize(), with a recipe of fine-tuning.

    Args:
        output: the file to write (.bpm); merge() adds up those of all parts.
        shard: only one part of the samples: "2/8" is the second of eight.
        first: of samples in memory: how many come before them. With `first` or `total` all given samples count.
        total: how many there are in all; 0: nobody knows before the end.
    """
    use_onnxruntime()
    is_part = _count("first", first) > 0 or _count("total", total) > 0
    if is_part and (shard or isinstance(data, (str, os.PathLike, Tokens))):
        raise InvalidArgumentError("first and total are for samples in memory; of files, shard takes a part")
    part_of = (first, total) if is_part else None
    arguments = _quantize_arguments(config, plan, calibration, rules, as_is, threads, settings)
    with _plan_file(plan, arguments), model_file(model) as path, Reporting(progress) as callback:
        with sample_arguments(data, labels, image, samples, shard, part_of) as source:
            return _native.moments(path, Path(output), source, arguments, callback)


def tune(model: Model, moments: PathLike, output: PathLike, config: Optional[ConfigLike] = None, data: Optional[Data] = None, *,
         plan: Union[PathLike, Plan, None] = None, calibration: Optional[PathLike] = None, layers: str = "", image: str = "",
         labels: Optional[PathLike] = None, samples: int = 0, rules: Sequence[Rule] = (), as_is: bool = False, threads: int = 0,
         progress: Progress = None, **settings: Any) -> _native.TuneReport:
    """Learns some of the layers from the moments of all samples, and writes them to a journal.

    With the journals of all parts merged to OUTPUT.journal, quantize() to OUTPUT goes on from there, and gives the same bytes as
    alone. Arguments that are not listed are those of quantize().

    Args:
        moments: a file of moments() or merge().
        output: the journal to write. A call that was stopped goes on from it.
        data: only where scales follow from samples: integers without `calibration`, and the guard.
        layers: only one part of the layers: "3/16" is the third of sixteen.
    """
    use_onnxruntime()
    arguments = _quantize_arguments(config, plan, calibration, rules, as_is, threads, settings)
    with _plan_file(plan, arguments), model_file(model) as path, sample_arguments(data, labels, image, samples) as source:
        with Reporting(progress) as callback:
            return _native.tune(path, existing(moments, "moments"), Path(output), layers, source, arguments, callback)
