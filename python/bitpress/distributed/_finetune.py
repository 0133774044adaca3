"""Fine-tuning: moments by shards of the samples, layers by shares of them, and a model that goes on from both in this process."""

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Union

import bitpress
from bitpress import _native
from bitpress._api import ConfigLike, Plan, as_config
from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress._files import Model, PathLike, existing, model_file
from bitpress._progress import Progress
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data
from bitpress.distributed._jobs import FunctionJob, Where
from bitpress.distributed._processes import Processes
from bitpress.distributed._shards import SHARDS_OF_A_WORKER, Folder, Shard, count_samples, finish, key_of, path_of, shards_in, shared


def moments(model: Model, data: Data, output: PathLike, config: Optional[ConfigLike] = None, *, where: Optional[Where] = None,
            shards: int = 0, folder: Optional[PathLike] = None, threads: int = 1, progress: Progress = None,
            **arguments: Any) -> _native.MomentsReport:
    """bitpress.moments over several workers: the same file to the last byte.

    Arguments that are not listed are those of bitpress.moments(), but `shard`, `first` and `total`.

    Args:
        data: a folder, tokens or texts, which every worker reads.
        shards: parts of the samples. Default: eight for each worker.
        folder: as in calibrate(). Without it, `output` with `.shards` behind it.
        threads: of each worker.

    Raises:
        Error: a worker's, with its shard in front.
        UnsupportedError: the recipe needs a pass over a network that is quantized in part.
    """
    if data is None:
        raise ArgumentTypeError("moments are gathered from samples: give data")
    with _call("moments", model, data, Path(output), config, where, shards, folder, threads, arguments) as call:
        result = bitpress.merge(call.gather(progress), output)
    assert isinstance(result, _native.MomentsReport)
    return result


def tune(model: Model, moments: PathLike, output: PathLike, config: Optional[ConfigLike] = None, data: Optional[Data] = None, *,
         where: Optional[Where] = None, shards: int = 0, folder: Optional[PathLike] = None, threads: int = 1, progress: Progress = None,
         **arguments: Any) -> int:
    """bitpress.tune over several workers, each with some of the layers.

    Arguments that are not listed are those of bitpress.tune(), but `layers`, and of moments() here.

    Args:
        moments: a file of moments(), which every worker reads.
        output: the journal to write. bitpress.quantize() to MODEL goes on from MODEL.journal.
        shards: parts of the layers.

    Returns:
        The number of layers in the journal.
    """
    sums = existing(moments, "moments").absolute()
    with _call("tune", model, data, Path(output), config, where, shards, folder, threads, arguments, sums) as call:
        result = bitpress.merge(call.learn(sums, progress), output)
    assert isinstance(result, int)
    return result


def quantize(model: Model, output: PathLike, config: Optional[ConfigLike] = None, data: Optional[Data] = None, *,
             where: Optional[Where] = None, shards: int = 0, folder: Optional[PathLike] = None, threads: int = 1, progress: Progress = None,
             **arguments: Any) -> _native.QuantizeReport:
    """bitpress.quantize with fine-tuning over several workers: the same model to the last byte.

    The samples are cut into shards for what is gathered of them, and then the layers for what is learned. The calling process validates
    the network and writes it. Arguments that are not listed are those of bitpress.quantize(), and of moments() here.

    Args:
        shards: parts of the samples, and of the layers. Default: eight for each worker.
        threads: of each worker. Also of the last step, in this process.
    """
    target = Path(output)
    # The last step alone needs these: how the model is written.
    writing = {option.key: arguments.pop(option.key) for option in _native.list_options() if option.is_of_writing and option.key in arguments}
    if data is None:
        raise ArgumentTypeError("fine-tuning learns from samples: give data")
    with _call("quantize", model, data, target, config, where, shards, folder, threads, arguments) as call:
        sums = call.path / "all.bpm"
        if not sums.exists():
            bitpress.merge(call.gather(progress), sums)
        bitpress.merge(call.learn(sums, progress), target.with_name(target.name + ".journal"))
        report = bitpress.quantize(output=target, threads=threads, progress=progress, **call.learned, **call.read, **writing)
    return report


@dataclass(frozen=True)
class _Call:
    """A call whose shards lie in a folder."""

    learned: Dict[str, Any]  # arguments that say what is learned
    read: Dict[str, Any]  # arguments that say from which samples
    path: Path
    folder: Folder
    workers: Where
    num_shards: int
    threads: int

    def gather(self, progress: Progress) -> List[Path]:
        """The files of moments of all samples."""
        return self._finish("moments", ".bpm", "samples", "shard", {}, progress)

    def learn(self, moments: Path, progress: Progress) -> List[Path]:
        """The journals of all layers."""
        return self._finish("tune", ".journal", "layers", "layers", {"moments": str(moments)}, progress)

    def _finish(self, verb: str, suffix: str, of: str, word: str, more: Dict[str, Any], progress: Progress) -> List[Path]:
        shared_by_all = {**self.learned, **self.read, **more, "threads": self.threads}
        parts = (Shard(FunctionJob(f"shard {i + 1} of {self.num_shards} of the {of}", f"{i + 1}_of_{self.num_shards}{suffix}", verb,
                                   {**shared_by_all, word: f"{i + 1}/{self.num_shards}"}), 1) for i in range(self.num_shards))
        return finish(parts, self.folder, self.workers, self.num_shards, f"{verb} on {self.workers.num_workers} workers", progress)


def _absolute(value: Any, option: _native.Option) -> Any:
    """The value of an option for workers in other folders."""
    return str(existing(value, option.key).absolute()) if option.is_read and value is not None else value


@contextlib.contextmanager
def _call(verb: str, model: Model, data: Optional[Data], output: Path, config: Optional[ConfigLike], where: Optional[Where], shards: int,
          folder: Optional[PathLike], threads: int, arguments: Dict[str, Any], moments: Optional[Path] = None) -> Iterator[_Call]:
    """Checks the arguments and opens the folder, which is removed if the call ends well."""
    path = path_of(folder, output, shards)
    plan: Union[PathLike, Plan, None] = arguments.pop("plan", None)
    labels, rules = arguments.pop("labels", None), arguments.pop("rules", ())
    image, samples = arguments.pop("image", ""), arguments.pop("samples", 0)
    options = {option.key: _absolute(arguments.pop(option.key), option) for option in _native.list_options() if option.key in arguments}
    use_onnxruntime()
    workers: Where = where or Processes()
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(model_file(model)).absolute()
        labels_file = None if labels is None else existing(labels, "file of labels").absolute()
        read = {"data": None if data is None else shared(data, stack), "image": image, "labels": labels_file and str(labels_file),
                "samples": samples}
        learned: Dict[str, Any] = {"model": str(file), **options}
        if plan is None:
            if config is None:
                raise InvalidArgumentError("neither config nor plan is given: config is a preset, a format, a .json file or a Config")
            learned["config"] = as_config(config, rules, arguments)
        else:
            learned |= {"plan": plan if isinstance(plan, Plan) else str(existing(plan, "plan").absolute()), **arguments}
        most = SHARDS_OF_A_WORKER * workers.num_workers
        if data is not None:
            most = min(most, count_samples(file, read["data"], labels_file, image, samples))
        num_shards = shards or shards_in(path) or most
        key = {"bitpress": bitpress.__version__, "verb": verb, **learned, "model": _native.fingerprint(file), "shards": num_shards,
               "image": image, "samples": samples, "data": None if data is None else key_of(read["data"], labels_file)}
        if moments is not None:
            key["moments"] = f"{moments.stat().st_size} {moments.stat().st_mtime_ns}"
        yield _Call(learned, read, path, Folder(path, "", key), workers, num_shards, threads)
    shutil.rmtree(path)
