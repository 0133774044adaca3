"""A shard's work, which any worker can do: it needs nothing of the process that asks for it."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, Protocol, Tuple

import bitpress
from bitpress import _errors


@dataclass(frozen=True)
class Job:
    name: str  # for messages: "shard 3 of 50"
    key: str  # the name of its file, without a suffix
    verb: str  # "calibrate", "evaluate" or "sensitivity"
    arguments: Dict[str, Any]  # of bitpress.VERB, but `output`

    def run(self) -> bytes:
        """The bytes of the file that the shard gives."""
        with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
            output = Path(folder) / "state"
            getattr(bitpress, self.verb)(output=output, progress=False, **self.arguments)
            return output.read_bytes()


class Where(Protocol):
    """Workers. `run` takes jobs as workers become free, and gives their results in the order in which they end."""

    @property
    def num_workers(self) -> int: ...

    def run(self, jobs: Iterable[Job]) -> Iterator[Tuple[Job, bytes]]: ...


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
