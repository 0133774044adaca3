"""Workers as processes of this machine."""

import os
import pickle
import queue
import subprocess
import sys
import threading
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

from bitpress import _native
from bitpress._errors import InvalidArgumentError
from bitpress.distributed._jobs import MOST_DEATHS, Job, death_of, error_of, search_path


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """Workers on this machine.

    Args:
        workers: processes (default: one for each core).

    A process that dies, for whatever reason, is replaced, and its shard is worked on again.
    """

    def __init__(self, workers: int = 0) -> None:
        if workers < 0:
            raise InvalidArgumentError(f"workers={workers}: expected 1 or more, or 0 for one for each core")
        self._num_workers = workers or _usable_cores()

    @property
    def num_workers(self) -> int:
        return self._num_workers

    @property
    def takes_references(self) -> bool:
        return False

    def run(self, jobs: Iterable[Job], report: Callable[[Job, int], None]) -> Iterator[Tuple[Job, bytes]]:
        team = _Team(jobs, self._num_workers, report)
        try:
            yield from team.results()
        finally:
            team.stop()


class _Team:
    """The processes of one call, each with a thread that gives it jobs."""

    def __init__(self, jobs: Iterable[Job], num_workers: int, report: Callable[[Job, int], None]) -> None:
        self._jobs = iter(jobs)
        self._report = report
        self._lock = threading.Lock()
        self._is_stopped = False
        self._results: "queue.Queue[Any]" = queue.Queue()
        self._processes: List[subprocess.Popen[bytes]] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(num_workers)]
        for thread in self._threads:
            thread.start()

    def results(self) -> Iterator[Tuple[Job, bytes]]:
        num_working = len(self._threads)
        while num_working:
            result = self._results.get()
            if result is None:
                num_working -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        process: Optional[subprocess.Popen[bytes]] = None
        try:
            while (job := self._next()) is not None:
                for death in range(1, MOST_DEATHS + 1):
                    process = process or self._start()
                    answer = None if process is None else self._ask(process, job)
                    if answer is not None or self._is_stopped:
                        break
                    assert process is not None
                    how = _how_it_ended(process)
                    process = None
                    if death == MOST_DEATHS:
                        raise death_of(job, how)
                if answer is None:
                    return
                kind, content = answer
                if kind == "error":
                    raise error_of(job, *content)
                self._results.put((job, content))
        except BaseException as error:
            self._results.put(error)
        finally:
            if process is not None:
                self._end(process)
            self._results.put(None)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()

    def _next(self) -> Optional[Job]:
        with self._lock:
            return None if self._is_stopped else next(self._jobs, None)

    def _start(self) -> "Optional[subprocess.Popen[bytes]]":
        with self._lock:
            if self._is_stopped:
                return None
            process = subprocess.Popen([sys.executable, "-m", "bitpress.distributed._worker", *map(str, _native.used_operator_libraries())],
                                       stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": search_path()})
            self._processes.append(process)
            return process

    def _ask(self, process: "subprocess.Popen[bytes]", job: Job) -> Optional[Tuple[str, Any]]:
        """The worker's answer, or None if it died."""
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(job, process.stdin)
            process.stdin.flush()
            while True:
                kind, content = pickle.load(process.stdout)
                if kind != "progress":
                    return kind, content
                self._report(job, content)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            return None


def _how_it_ended(process: "subprocess.Popen[bytes]") -> str:
    process.kill()
    code = process.wait()
    return f"signal {-code}" if code < 0 else f"exit code {code}"
