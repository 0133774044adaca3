"""The functions: samples become shards, shards become jobs, and the files of all jobs are added up."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import bitpress
from bitpress import _native
from bitpress._api import Rule, as_config, warn_of_left_out
from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress._files import Model, PathLike, existing, model_file
from bitpress._progress import Progress, Reporting
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data, sample_arguments
from bitpress._text import Tokens
from bitpress.distributed._items import Labels, blocks_of, count_rows
from bitpress.distributed._jobs import EngineJob, Job, MergeJob, Where
from bitpress.distributed._processes import Processes

SHARDS_OF_A_WORKER = 8  # so many by default: the last one of a slow worker keeps the others waiting
_JOB_FILE = "job.json"
# A process reads so many files about as fast as others start that could help it.
_MOST_FILES_OF_A_MERGE = 256
_FILES_OF_A_GROUP = 64


@dataclass(frozen=True)
class Shard:
    job: Job
    num_samples: int  # 0: not known


def _key_part(value: Any) -> Any:
    return value.to_json() if isinstance(value, bitpress.Config) else str(value)


class Folder:
    """The folder with the finished shards of one call. It belongs to that call alone, which its file job.json tells."""

    def __init__(self, path: Path, suffix: str, key: Mapping[str, Any]) -> None:
        self._path, self._suffix = path, suffix
        path.mkdir(parents=True, exist_ok=True)
        text = json.dumps(key, indent=1, sort_keys=True, default=_key_part) + "\n"
        found = path / _JOB_FILE
        if found.exists() and found.read_text() != text:
            raise InvalidArgumentError(f"'{path}' has shards of another call, or its model or samples changed since; remove it, or give "
                                       "another folder")
        if not found.exists():
            if any(path.iterdir()):
                raise InvalidArgumentError(f"'{path}' has files that are no shards; give another folder")
            _write(found, text.encode())

    def file_of(self, job: Job) -> Path:
        return self._path / f"{job.key}{self._suffix}"

    def add(self, job: Job, content: bytes) -> None:
        _write(self.file_of(job), content)


def path_of(folder: Optional[PathLike], output: Path, shards: int) -> Path:
    """The path of a call's folder. Raises what is wrong with the arguments before any work."""
    if shards < 0:
        raise InvalidArgumentError(f"shards={shards}: expected 1 or more, or 0")
    if not output.absolute().parent.is_dir():
        raise bitpress.MissingFileError(f"there is no folder '{output.parent}' for '{output.name}'")
    return Path(folder) if folder is not None else output.with_name(output.name + ".shards")


def shards_in(path: Path) -> int:
    """The number of shards of the call that the folder belongs to, perhaps one with other workers; 0 if there is none."""
    try:
        return int(json.loads((path / _JOB_FILE).read_text())["shards"])
    except (OSError, ValueError, KeyError):
        return 0


def _write(path: Path, content: bytes) -> None:
    """Writes a file that is there whole, or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise bitpress.FileError(f"cannot write '{path}': {error.strerror}; the finished shards stay, and the same call goes on from them") from error


def calibrate(model: Model, data: Data, output: PathLike, *, where: Optional[Where] = None, shards: int = 0,
              folder: Optional[PathLike] = None, config: Any = None, image: str = "", labels: Optional[PathLike] = None, samples: int = 0,
              per_channel: bool = False, rules: Sequence[Rule] = (), as_is: bool = False, most_failures: int = 0, threads: int = 1,
              progress: Progress = None, **settings: Any) -> _native.Calibration:
    """bitpress.calibrate over several workers; `output` has the bytes that it would write.

    Arguments that are not listed are those of bitpress.calibrate().

    Args:
        data: as of quantize(), or a Ray dataset. A folder, tokens and texts are read by the workers, and so are the blocks of a dataset
            by the workers of `Ray`: each is a shard, and each row a sample. An iterable is read here as workers become free, and need
            not fit the memory.
        samples: most samples to use; of an iterable, most items.
        where: the workers: `Processes()` (default) or `Ray()`.
        shards: parts of the samples. Default: eight for each worker; of an iterable a shard has 32 items, and this is not used.
        folder: where finished shards are kept (default: `output` with `.shards` behind it). It is removed in the end. An
            interrupted call that is made again goes on with what is there.
        most_failures: samples that may fail in all shards together; they are left out, and named in a warning.
        threads: of each worker.

    Raises:
        Error: a worker's, with its shard in front; what was finished before stays in the folder.
    """
    if config is not None:
        config = as_config(config, rules, settings)
    elif rules or settings:
        raise InvalidArgumentError(f"{next(iter(settings), 'rules')} changes a configuration: give config")
    arguments = {"config": config, "per_channel": per_channel, "as_is": as_is, "most_failures": most_failures, "num_threads": threads}
    result = _run("calibrate", model, data, None, Path(output), ".bpc", arguments, where, shards, folder, image, labels, samples, progress)
    assert isinstance(result, _native.Calibration)
    return result


def evaluate(model: Model, data: Data, reference: Optional[Model] = None, *, output: Optional[PathLike] = None,
             where: Optional[Where] = None, shards: int = 0, folder: Optional[PathLike] = None, image: str = "",
             labels: Union[PathLike, Labels] = None, samples: int = 0, processor: str = "here", task: str = "auto",
             most_failures: int = 0, threads: int = 1, progress: Progress = None) -> _native.EvaluationReport:
    """bitpress.evaluate(output=...) over several workers: the same figures to the last bit. Times are not measured.

    Arguments that are not listed are those of calibrate() here, and of bitpress.evaluate().

    Args:
        labels: of a folder: a CSV with the columns file,class; of an iterable: the class of each sample, or the name of what holds the
            classes in its items; of a Ray dataset: the name of a column.
        output: the evaluation file to write. Without it, and without `folder`, an interrupted call begins anew.
        processor: workers of different kinds may compute an integer model otherwise. Then their shards are not added up, which the
            error says, and "vnni" lets all compute alike.
        task: as of bitpress.evaluate(), but measured only if it is named: shards may find different tasks.
    """
    arguments = {"reference": None, "processor": processor, "task": task, "most_failures": most_failures, "num_threads": threads}
    with contextlib.ExitStack() as stack:
        if output is None:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bitpress-")))
            output = scratch / "all.bpe"
        result = _run("evaluate", model, data, reference, Path(output), ".bpe", arguments, where, shards, folder, image, labels, samples, progress)
    assert isinstance(result, _native.EvaluationReport)
    return result


def _run(verb: str, model: Model, data: Data, reference: Optional[Model], output: Path, suffix: str, arguments: Dict[str, Any],
         where: Optional[Where], shards: int, folder: Optional[PathLike], image: str, labels: Union[PathLike, Labels], samples: int,
         progress: Progress) -> Any:
    path = path_of(folder, output, shards)
    if arguments["most_failures"] < 0:
        raise InvalidArgumentError(f"most_failures={arguments['most_failures']}: expected 0 or more")
    use_onnxruntime()
    workers: Where = where or Processes()
    with contextlib.ExitStack() as stack:
        files = {"model": stack.enter_context(model_file(model)).absolute()}
        if reference is not None:
            files["reference"] = stack.enter_context(model_file(reference)).absolute()
        key = {"bitpress": bitpress.__version__, "verb": verb, **arguments, "image": image, "samples": samples,
               **{name: _native.fingerprint(file) for name, file in files.items()}}
        del key["num_threads"]  # results do not depend on them
        engine = {**arguments, **files}
        if isinstance(data, (str, os.PathLike, Tokens)):
            data = shared(data, stack)
            if labels is not None and not isinstance(labels, (str, os.PathLike)):
                raise ArgumentTypeError("labels of a folder are a CSV file with the columns file,class")
            labels = None if labels is None else existing(labels, "file of labels").absolute()
            counted = count_samples(files["model"], data, labels, image, samples)
            num_shards = shards or shards_in(path) or min(counted, SHARDS_OF_A_WORKER * workers.num_workers)
            key |= {"shards": num_shards, "data": key_of(data, labels)}
            read = {"data": data, "labels": labels, "image": image, "samples": samples}
            parts = _of_files(verb, engine, read, counted, num_shards)
        else:
            if image or isinstance(labels, os.PathLike):
                raise ArgumentTypeError("image and files of labels are for folders")
            counted = count_rows(data, samples)
            parts = _of_items(verb, engine, blocks_of(data, labels, samples, workers.takes_references))
        finished = Folder(path, suffix, key)
        results = finish(parts, finished, workers, counted, f"{verb} on {workers.num_workers} workers", progress)
        if not results:
            raise InvalidArgumentError("there are no samples")
        results = add_up(results, finished, workers, progress)
        result = bitpress.merge(results, output, arguments["most_failures"])
        assert isinstance(result, (_native.Calibration, _native.EvaluationReport))
        if result.num_samples == 0:
            output.unlink()
            raise InvalidArgumentError("all samples failed")
    shutil.rmtree(path)
    warn_of_left_out(result.left_out)
    return result


def finish(parts: Iterable[Shard], folder: Folder, workers: Where, num_samples: int, stage: str, progress: Progress) -> List[Path]:
    """Lets the workers do the shards that no file is there of. Returns the files of all."""
    files: List[Path] = []
    sizes: Dict[str, int] = {}
    done = 0
    begin = time.monotonic()
    num_new = 0  # samples that were done in this call
    lock = threading.Lock()  # workers may ask for their next job on threads of their own

    partly: Dict[str, int] = {}  # samples that are done of shards that are not

    with Reporting(progress) as callback:

        def tell() -> None:
            if callback is None:
                return
            in_work = sum(partly.values())
            left = (num_samples - done - in_work) * (time.monotonic() - begin) / (num_new + in_work) if num_new + in_work and num_samples else 0
            callback(f"{stage}, about {left:.0f} s left" if left else stage, done + in_work, num_samples)

        def report(job: Job, more: int, is_new: bool) -> None:
            nonlocal done, num_new
            with lock:
                partly.pop(job.key, None)
                done += more
                num_new += more if is_new else 0
                tell()

        def report_part(job: Job, samples: int) -> None:
            with lock:
                # A worker that died begins anew, and the samples of an iterable's shard are not known before.
                if samples > partly.get(job.key, 0) and job.key in sizes:
                    partly[job.key] = min(samples, sizes[job.key]) if num_samples else 0
                    tell()

        def missing() -> Iterator[Job]:
            for part in parts:
                files.append(folder.file_of(part.job))
                if files[-1].exists():
                    report(part.job, part.num_samples or 1, False)
                else:
                    sizes[part.job.key] = part.num_samples or 1
                    yield part.job

        for job, content in workers.run(missing(), report_part):
            folder.add(job, content)
            report(job, sizes.pop(job.key), True)
    return files


def add_up(files: List[Path], folder: Folder, workers: Where, progress: Progress) -> List[Path]:
    """Files with the same sum, few enough for one process to add up: workers add up groups of them, then groups of these."""
    while len(files) > _MOST_FILES_OF_A_MERGE:
        groups = [tuple(files[i:i + _FILES_OF_A_GROUP]) for i in range(0, len(files), _FILES_OF_A_GROUP)]
        parts = [Shard(MergeJob(f"sum {i + 1} of {len(groups)}", "sum_" + hashlib.sha256(repr([file.name for file in group]).encode()).hexdigest()[:32],
                                tuple(file.absolute() for file in group)), len(group)) for i, group in enumerate(groups)]
        files = finish(parts, folder, workers, len(files), f"merge on {workers.num_workers} workers", progress)
    return files


def _of_files(verb: str, engine: Dict[str, Any], read: Dict[str, Any], num_samples: int, num_shards: int) -> Iterator[Shard]:
    if num_samples < num_shards:
        raise InvalidArgumentError(f"there are {num_samples} samples, too few for {num_shards} shards")
    for i in range(num_shards):
        begin, end = num_samples * i // num_shards, num_samples * (i + 1) // num_shards
        name = f"shard {i + 1} of {num_shards} (samples {begin} to {end - 1})"
        yield Shard(EngineJob(name, f"{i + 1}_of_{num_shards}", verb, engine, {**read, "shard": f"{i + 1}/{num_shards}"}), end - begin)


def _of_items(verb: str, engine: Dict[str, Any], blocks: Iterable[Tuple[str, int, int, Any, str]]) -> Iterator[Shard]:
    for i, (words, first_item, num_samples, block, digest) in enumerate(blocks):
        job = EngineJob(f"shard {i + 1} ({words})", f"{i + 1}_{digest}", verb, engine, {"data": block, "first_item": first_item})
        yield Shard(job, num_samples)


def count_samples(model: Path, data: Any, labels: Optional[Path], image: str, samples: int) -> int:
    with sample_arguments(data, labels, image, samples) as source:
        return _native.count_samples(model, source)


def shared(data: Any, stack: contextlib.ExitStack) -> Any:
    """Data that each worker can open: a path, or tokens in a file.

    Raises:
        ArgumentTypeError: it is neither.
    """
    if not isinstance(data, (str, os.PathLike, Tokens)):
        raise ArgumentTypeError("samples are a folder, tokens or texts, because every worker reads them")
    if isinstance(data, Tokens):
        return Tokens(stack.enter_context(data.file()).absolute(), data.sequence, data.prefix, data.suffix)
    return str(existing(data, "folder of samples").absolute())


def key_of(data: Any, labels: Optional[Path]) -> str:
    """A text that changes with the samples: the content of tokens and labels, names, sizes and times of other files."""
    digest = hashlib.sha256()
    if isinstance(data, Tokens):
        with data.file() as path:
            digest.update(_hash_of(path).encode())
        digest.update(repr((data.sequence, data.prefix, data.suffix)).encode())
    else:
        for root, folders, names in os.walk(data):
            folders.sort()
            for name in sorted(names):
                path = Path(root) / name
                status = path.stat()
                digest.update(f"{path.relative_to(data)} {status.st_size} {status.st_mtime_ns}\n".encode())
    if labels is not None:
        digest.update(_hash_of(labels).encode())
    return digest.hexdigest()


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
