"""Workers as actors of Ray."""

from typing import Any, Dict, Iterable, Iterator, Optional, Tuple

from bitpress._errors import InvalidArgumentError, UnsupportedError
from bitpress.distributed._jobs import MOST_DEATHS, Job, death_of, error_of, search_path


def _num_cpus(ray: Any) -> int:
    return int(ray.cluster_resources().get("CPU", 1))


class _Worker:
    """An actor. A job's error is an answer, so that Ray's own errors are those of workers."""

    def run(self, job: Job) -> Tuple[str, Any]:
        try:
            return "done", job.run()
        except Exception as error:
            return "error", (type(error).__name__, str(error))


class Ray:
    """Workers on a Ray cluster, or on a cluster of this machine alone that is started if there is none.

    Models, folders of samples and the folder of the shards lie on a path that all machines share, and Bitpress is installed on each.
    Actors that die, for example with their node, are started anew, and their shards are worked on again.

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

    def run(self, jobs: Iterable[Job]) -> Iterator[Tuple[Job, bytes]]:
        ray = self._ray
        start = ray.remote(_Worker).options(num_cpus=self._threads, max_restarts=-1, max_task_retries=MOST_DEATHS - 1).remote
        left = iter(jobs)
        idle = [start() for _ in range(self._num_workers)]
        actors = list(idle)
        running: Dict[Any, Tuple[Job, Any]] = {}
        try:
            while True:
                while idle and (job := next(left, None)) is not None:
                    actor = idle.pop()
                    running[actor.run.remote(job)] = job, actor
                if not running:
                    return
                done, _ = ray.wait(list(running), num_returns=1)
                job, actor = running.pop(done[0])
                try:
                    kind, content = ray.get(done[0])
                except ray.exceptions.RayActorError as error:
                    lines = [line for line in str(error).splitlines() if line.strip()]
                    raise death_of(job, lines[-1].strip() if lines else type(error).__name__) from error
                if kind == "error":
                    raise error_of(job, *content)
                idle.append(actor)
                yield job, content
        finally:
            for actor in actors:
                ray.kill(actor)
