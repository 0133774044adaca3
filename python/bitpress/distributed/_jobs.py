"""A shard's work, which any worker can do: it needs nothing of the process that asks for it."""

import os
import pickle
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Protocol, Tuple, Union

import bitpress
from bitpress import _errors, _native
from bitpress._runtime import use_onnxruntime
from bitpress._samples import sample_arguments
from bitpress.distributed._items import Block, StoredBlock

Report = Callable[[int], None]  # takes how many of a job's samples are done
REPORT_INTERVAL_S = 0.5

_Engine = Union[_native.CalibrationEngine, _native.EvaluationEngine]


class Job(Protocol):
    """What a worker does, pickled. `run` gives the bytes of the file of the shard."""

    @property
    def name(self) -> str: ...  # for messages: "shard 3 of 50"

    @property
    def key(self) -> str: ...  # the name of its file, without a suffix

    def run(self, report: Report) -> bytes: ...


@dataclass(frozen=True)
class FunctionJob:
    """One call of a function of the package."""

    name: str
    key: str
    verb: str  # "sensitivity"
    arguments: Dict[str, Any]  # of bitpress.VERB, but `output`

    def run(self, report: Report) -> bytes:
        with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
            output = Path(folder) / "state"
            getattr(bitpress, self.verb)(output=output, progress=False, **self.arguments)
            return output.read_bytes()


@dataclass(frozen=True)
class EngineJob:
    """Samples for a model that stays loaded in the worker, between all jobs with the same `engine`."""

    name: str
    key: str
    verb: str  # "calibrate" or "evaluate"
    engine: Dict[str, Any]  # the arguments of the function that opens it
    samples: Dict[str, Any]  # those of sample_arguments

    def run(self, report: Report) -> bytes:
        last = 0.0

        def progress(_stage: str, done: int, _total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= REPORT_INTERVAL_S:
                last = now
                report(done)

        engine = _engine_of(self.verb, self.engine)
        arguments = dict(self.samples)
        if isinstance(arguments["data"], (Block, StoredBlock)):
            arguments["data"], arguments["labels"] = arguments["data"].load()
        with sample_arguments(**arguments) as samples:
            return engine.count(samples, progress)


@dataclass(frozen=True)
class MergeJob:
    """The sum of files that every worker can read."""

    name: str
    key: str
    files: Tuple[Path, ...]

    def run(self, report: Report) -> bytes:
        with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
            output = Path(folder) / "sum"
            bitpress.merge(self.files, output)
            return output.read_bytes()


_OPEN: Dict[str, Callable[..., _Engine]] = {"calibrate": _native.open_calibration, "evaluate": _native.open_evaluation}
_open: Optional[Tuple[bytes, _Engine]] = None  # one only, so that a worker has the memory of one model


def _engine_of(verb: str, arguments: Dict[str, Any]) -> _Engine:
    """The engine that is open, if it is of the same files and options; else a new one."""
    global _open
    key = pickle.dumps((verb, arguments))
    if _open is None or _open[0] != key or not _open[1].is_current():
        _open = None
        use_onnxruntime()
        native = {name: value._native if isinstance(value, bitpress.Config) else value for name, value in arguments.items()}
        _open = key, _OPEN[verb](**native)
    return _open[1]


class Where(Protocol):
    """Workers. `run` takes jobs as workers become free, and gives their results in the order in which they end.

    It tells `report` now and then how many samples of a job are done, from any thread.
    """

    @property
    def num_workers(self) -> int: ...

    @property
    def takes_references(self) -> bool: ...  # whether workers reach what lies in Ray's store

    def run(self, jobs: Iterable[Job], report: Callable[[Job, int], None]) -> Iterator[Tuple[Job, bytes]]: ...


# A worker that dies may have been killed by chance, or by the sample that it worked on.
MOST_DEATHS = 3


def error_of(job: Job, kind: str, message: str) -> Exception:
    """The error of a worker as one of this process. Any but ours is an ExecutionError."""
    found = getattr(_errors, kind, None)
    text = message if found else f"{kind}: {message}"
    return (found or _errors.ExecutionError)(f"{job.name}: {text}")


def search_path() -> str:
    """PYTHONPATH for a process that shall find the package of this one."""
    return os.pathsep.join(filter(None, [str(Path(bitpress.__file__).parents[1]), os.environ.get("PYTHONPATH")]))


def death_of(job: Job, how: str) -> Exception:
    return _errors.ExecutionError(f"{job.name}: its worker died {MOST_DEATHS} times ({how}); is Bitpress installed there, and memory enough?")
