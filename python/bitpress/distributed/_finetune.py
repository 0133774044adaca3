"""Quantization with fine-tuning: moments by shards of the samples, layers by shares of them, and the model in this process."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

import bitpress
from bitpress import _native
from bitpress._api import ConfigLike, Plan, as_config
from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress._files import Model, PathLike, existing, model_file
from bitpress._progress import Progress
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data
from bitpress._text import Tokens
from bitpress.distributed._jobs import FunctionJob, Where
from bitpress.distributed._processes import Processes
from bitpress.distributed._shards import SHARDS_OF_A_WORKER, Folder, Shard, count_samples, finish, key_of, path_of, shards_in, shared

# The last step alone needs these: how the model is written.
_OF_WRITING = {"storage", "target", "form", "accuracy_level", "portable", "external_data", "check", "kv_scales", "save_kv_scales"}


def quantize(model: Model, output: PathLike, config: Optional[ConfigLike] = None, data: Optional[Data] = None, *,
             plan: Union[PathLike, Plan, None] = None, calibration: Optional[PathLike] = None, image: str = "", labels: Optional[PathLike] = None,
             samples: int = 0, where: Optional[Where] = None, shards: int = 0, folder: Optional[PathLike] = None, as_is: bool = False,
             threads: int = 1, progress: Progress = None, **arguments: Any) -> _native.QuantizeReport:
    """bitpress.quantize with fine-tuning over several workers: the same model to the last byte.

    The samples are cut into shards for what is gathered of them, and then the layers for what is learned. The calling process judges
    the network and writes it. Arguments that are not listed are those of bitpress.quantize().

    Args:
        data: a folder, tokens or texts, which every worker reads.
        shards: parts of the samples, and of the layers. Default: eight for each worker.
        folder: as in calibrate(). Without it, `output` with `.shards` behind it.
        threads: of each worker. Also of the last step, in this process.

    Raises:
        Error: a worker's, with its shard in front.
        UnsupportedError: the recipe needs a pass over a network that is quantized in part.
    """
    if not isinstance(data, (str, os.PathLike, Tokens)):
        raise ArgumentTypeError("samples are a folder, tokens or texts, because every worker reads them")
    target = Path(output)
    path = path_of(folder, target, shards)
    writing = {name: arguments.pop(name) for name in _OF_WRITING & set(arguments)}
    rules = arguments.pop("rules", ())
    use_onnxruntime()
    workers: Where = where or Processes()
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(model_file(model)).absolute()
        read = {"data": shared(data, stack), "image": image, "labels": labels and str(existing(labels, "file of labels").absolute()),
                "samples": samples}
        learned: Dict[str, Any] = {"model": str(file), "as_is": as_is, "calibration": calibration and str(existing(calibration, "calibration").absolute())}
        if plan is None:
            if config is None:
                raise InvalidArgumentError("neither config nor plan is given: config is a preset, a format, a .json file or a Config")
            learned["config"] = as_config(config, rules, arguments)
        else:
            learned |= {"plan": plan if isinstance(plan, Plan) else str(existing(plan, "plan").absolute()), **arguments}
        labels_file = None if labels is None else Path(str(read["labels"]))
        counted = count_samples(file, read["data"], labels_file, image, samples)
        num_shards = shards or shards_in(path) or min(counted, SHARDS_OF_A_WORKER * workers.num_workers)
        key = {"bitpress": bitpress.__version__, "verb": "quantize", **learned, "model": _native.fingerprint(file), "shards": num_shards,
               "image": image, "samples": samples, "data": key_of(read["data"], labels_file)}
        finished = Folder(path, "", key)
        stage = f"on {workers.num_workers} workers"

        def parts(verb: str, suffix: str, of: str, word: str, call: Dict[str, Any]) -> List[Shard]:
            return [Shard(FunctionJob(f"shard {i + 1} of {num_shards} of the {of}", f"{i + 1}_of_{num_shards}{suffix}", verb,
                                      {**call, "threads": threads, word: f"{i + 1}/{num_shards}"}), 1) for i in range(num_shards)]

        moments = path / "all.bpm"
        if not moments.exists():
            files = finish(parts("moments", ".bpm", "samples", "shard", {**learned, **read}), finished, workers, num_shards,
                           f"moments {stage}", progress)
            bitpress.merge(files, moments)
        journals = finish(parts("tune", ".journal", "layers", "layers", {**learned, **read, "moments": str(moments)}), finished, workers,
                          num_shards, f"tune {stage}", progress)
        bitpress.merge(journals, target.with_name(target.name + ".journal"))
        report = bitpress.quantize(output=target, threads=threads, progress=progress, **learned, **read, **writing)
    shutil.rmtree(path)
    return report
