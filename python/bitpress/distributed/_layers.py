"""Sensitivities and searches: layers become shards, and the journals of all jobs are what one process would have measured so far."""

import contextlib
import inspect
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import bitpress
from bitpress import _native
from bitpress._api import as_config
from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress._files import Model, PathLike, existing, model_file
from bitpress._progress import Progress
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data
from bitpress._search import Candidates, SearchResult
from bitpress.distributed._jobs import FunctionJob, Where
from bitpress.distributed._processes import Processes
from bitpress.distributed._shards import SHARDS_OF_A_WORKER, Folder, Shard, finish, key_of, path_of, shards_in, shared


def sensitivity(model: Model, data: Data, candidates: Candidates = (), *, output: Optional[PathLike] = None, where: Optional[Where] = None,
                shards: int = 0, folder: Optional[PathLike] = None, threads: int = 1, progress: Progress = None,
                **arguments: Any) -> Dict[str, Any]:
    """bitpress.sensitivity over several workers, each with some of the layers: the same report to the last bit.

    Arguments that are not listed are those of bitpress.sensitivity(), but `measure_time`, and of calibrate() here.

    Args:
        data: a folder, tokens or texts.
        shards: parts of the layers.
        folder: as in calibrate(). Without it and without `output`, an interrupted call begins anew.
    """
    with _measured(model, data, candidates, output, "sensitivity.json", where, shards, folder, threads, progress, arguments) as call:
        return bitpress.sensitivity(progress=progress, **call)


def search(model: Model, data: Data, candidates: Candidates = (), *, output: Optional[PathLike] = None, where: Optional[Where] = None,
           shards: int = 0, folder: Optional[PathLike] = None, threads: int = 1, progress: Progress = None, **arguments: Any) -> SearchResult:
    """bitpress.search whose layers are measured by several workers: the same plan. Whole models are tried in this process afterwards.

    Arguments that are not listed are those of bitpress.search() and of sensitivity() here.
    """
    own = set(inspect.signature(bitpress.search).parameters) - set(inspect.signature(bitpress.sensitivity).parameters)
    of_search = {name: arguments.pop(name) for name in own & set(arguments)}
    with _measured(model, data, candidates, output, "plan.json", where, shards, folder, threads, progress, arguments) as call:
        return bitpress.search(progress=progress, **of_search, **call)


@contextlib.contextmanager
def _measured(model: Model, data: Data, candidates: Candidates, output: Optional[PathLike], name: str, where: Optional[Where], shards: int,
              folder: Optional[PathLike], threads: int, progress: Progress, arguments: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """Lets the workers measure all layers. Gives the arguments for a call that goes on from their journal."""
    if arguments.get("measure_time"):
        raise InvalidArgumentError("measure_time: times are those of one machine, and measured by bitpress.sensitivity()")
    use_onnxruntime()
    workers: Where = where or Processes()
    with contextlib.ExitStack() as stack:
        if output is None:
            output = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bitpress-"))) / name
        target = Path(output)
        path = path_of(folder, target, shards)
        file = stack.enter_context(model_file(model)).absolute()
        data = shared(data, stack)
        if arguments.get("config") is not None:
            arguments["config"] = as_config(arguments["config"], (), {})  # a file of one is read here
        labels = arguments.get("labels")
        if labels is not None:
            arguments["labels"] = str(existing(labels, "file of labels").absolute())
        num_shards = shards or shards_in(path) or SHARDS_OF_A_WORKER * workers.num_workers
        call = {"candidates": candidates, **arguments}
        key = {"bitpress": bitpress.__version__, "verb": "sensitivity", "call": call, "model": _native.fingerprint(file), "shards": num_shards,
               "data": key_of(data, Path(arguments["labels"]) if labels is not None else None)}
        call = {"model": str(file), "data": data, "threads": threads, **call}
        parts = (Shard(FunctionJob(f"shard {i + 1} of {num_shards} of the layers", f"{i + 1}_of_{num_shards}", "sensitivity",
                                   {**call, "shard": f"{i + 1}/{num_shards}"}), 1) for i in range(num_shards))
        files = finish(parts, Folder(path, ".journal", key), workers, num_shards, f"sensitivity on {workers.num_workers} workers", progress)
        bitpress.merge(files, target.with_name(target.name + ".journal"))
        yield {**call, "output": target, "threads": threads}
        shutil.rmtree(path)
