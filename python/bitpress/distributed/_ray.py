"""Workers as actors of Ray."""

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from bitpress import _native
from bitpress._errors import ExecutionError, InvalidArgumentError, UnsupportedError
from bitpress._runtime import use_operator_library
from bitpress.distributed._jobs import MOST_DEATHS, REPORT_INTERVAL_S, Job, death_of, error_of, search_path


def _num_cpus(ray: Any) -> int:
    return int(ray.cluster_resources().get("CPU", 1))


class _Worker:
    """An actor. A job's error is an answer, so that Ray's own errors are those of workers."""

    def __init__(self, operator_libraries: List[str]) -> None:
        self._done = 0
        for library in operator_libraries:
            use_operator_library(library)

    def done(self) -> int:
        """How many samples of its job are done. It is asked for while `run` runs, on another thread."""
        return self._done

    def run(self, job: Job) -> Tuple[str, Any]:
        self._done = 0
        try:
            return "done", job.run(self._set_done)
        except Exception as error:
            return "error", (type(error).__name__, str(error))

    def _set_done(self, done: int) -> None:
        self._done = done


class Ray:
    """Workers on a Ray cluster, or on a cluster of this machine alone that is started if there is none.

    Models, folders of samples and the folder of the shards lie on a path that all machines share, and Bitpress is installed on each.
    Actors that die, for example with their node, are replaced, and others work on their shards again.

    Args:
        workers: actors (default: as many as the cluster's CPUs allow).
        threads: CPUs of an actor. Give the function as many `threads`.
        address: of the cluster, as ray.init takes it (default: what RAY_ADDRESS says, else this machine).

    Raises:
        UnsupportedError: the package ray is not installed.
    """

    def __init__(self, workers: int = 0, threads: int = 1, address: Optional[str] = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise UnsupportedError("this needs the package ray: pip install \"bitpress[ray]\"") from error
        if workers < 0 or threads < 1:
            raise InvalidArgumentError(f"workers={workers}, threads={threads}: expected 0 or more, and 1 or more")
        if not ray.is_initialized():
            # The actors of a cluster that starts here have the package of this process, wherever it lies.
            ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None,
                     runtime_env={"env_vars": {"PYTHONPATH": search_path()}} if address is None else None)
        self._ray = ray
        self._threads = threads
        self._num_workers = workers or max(1, _num_cpus(ray) // threads)

    @property
    def num_workers(self) -> int:
        return self._num_workers

    @property
    def takes_references(self) -> bool:
        return True

    def run(self, jobs: Iterable[Job], report: Callable[[Job, int], None]) -> Iterator[Tuple[Job, bytes]]:
        crew = _Crew(self._ray, self._num_workers, self._threads)
        try:
            yield from crew.results(iter(jobs), report)
        finally:
            crew.stop()


class _Crew:
    """The actors of one call. A job goes only to an actor that has answered, so that none waits for a machine that is gone."""

    def __init__(self, ray: Any, num_workers: int, threads: int) -> None:
        self._ray = ray
        self._start_actor = ray.remote(_Worker).options(num_cpus=threads, max_concurrency=2).remote
        self._actors: List[Any] = []
        self._starting: Dict[Any, Any] = {}  # actors by the answer that tells that they are there
        self._running: Dict[Any, Tuple[Job, Any]] = {}  # jobs and their actors by the answer
        self._deaths: Dict[str, int] = {}  # by the key of a job; "": of actors without one
        for _ in range(num_workers):
            self._start()

    def results(self, jobs: Iterator[Job], report: Callable[[Job, int], None]) -> Iterator[Tuple[Job, bytes]]:
        idle: List[Any] = []
        again: List[Job] = []  # jobs whose actors died
        while True:
            while idle and (job := again.pop() if again else next(jobs, None)) is not None:
                actor = idle.pop()
                self._running[actor.run.remote(job)] = job, actor
            if idle and not self._running:  # there are no jobs left
                return
            done, _ = self._ray.wait([*self._running, *self._starting], num_returns=1, timeout=2 * REPORT_INTERVAL_S)
            if not done:
                self._ask_all(report)
                continue
            found, actor = self._running.pop(done[0], (None, None))
            actor = actor or self._starting.pop(done[0])
            try:
                answer = self._ray.get(done[0])
            except self._ray.exceptions.RayActorError as error:
                self._bury(found, actor, error)
                again += [found] if found else []
                continue
            idle.append(actor)
            if found:
                kind, content = answer
                if kind == "error":
                    raise error_of(found, *content)
                yield found, content

    def stop(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)

    def _start(self) -> None:
        actor = self._start_actor([str(path) for path in _native.used_operator_libraries()])
        self._actors.append(actor)
        self._starting[actor.done.remote()] = actor

    def _bury(self, job: Optional[Job], actor: Any, error: Exception) -> None:
        """Puts another actor in the place of one that died, on whatever machine is there."""
        key = job.key if job else ""
        self._deaths[key] = self._deaths.get(key, 0) + 1
        if self._deaths[key] >= MOST_DEATHS * (1 if job else len(self._actors)):
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            how = lines[-1] if lines else type(error).__name__
            raise death_of(job, how) if job else ExecutionError(f"workers die before they have work ({how})")
        self._actors.remove(actor)
        self._ray.kill(actor)  # it may only be out of reach
        self._start()

    def _ask_all(self, report: Callable[[Job, int], None]) -> None:
        """Reports how far the actors are that answer at once."""
        asked = {actor.done.remote(): job for job, actor in self._running.values()}
        if not asked:
            return
        answered, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=REPORT_INTERVAL_S)
        for answer in answered:
            try:
                report(asked[answer], self._ray.get(answer))
            except self._ray.exceptions.RayActorError:  # it died, which its job tells
                continue
