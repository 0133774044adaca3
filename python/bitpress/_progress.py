"""Progress of long work: the caller's function, or a bar where standard error is a terminal."""

import sys
import time
from typing import Callable, Optional, Union

Callback = Callable[[str, int, int], None]
Progress = Union[Callback, bool, None]

_WIDTH = 30
_INTERVAL_S = 0.05
_LEAST_ELAPSED_S = 2  # before there is an estimate


class _Bar:
    """One line on standard error that is rewritten, and wiped at the end."""

    def __init__(self) -> None:
        self._last = 0.0
        self._work, self._begin, self._first, self._done = "", 0.0, 0, 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last < _INTERVAL_S and done != total:
            return
        self._last = now
        filled = min(_WIDTH, _WIDTH * done // total) if total else 0
        count = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}" if total else str(done)
        sys.stderr.write(f"\r{stage} {count}{self._left(stage, done, total, now)}\x1b[K")
        sys.stderr.flush()

    def _left(self, stage: str, done: int, total: int, now: float) -> str:
        """The time that the stage will take at the pace so far."""
        work = stage.partition(":")[0]  # what stands behind a colon changes from step to step
        if work != self._work or done < self._done:
            self._work, self._begin, self._first = work, now, done
        self._done = done
        elapsed = now - self._begin
        if not total or elapsed <= _LEAST_ELAPSED_S or done <= self._first:
            return ""
        return f" {elapsed * max(total - done, 0) / (done - self._first):.0f} s left"

    def wipe(self) -> None:
        if self._last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Reporting:
    """with Reporting(progress) as callback: the function to call, or None."""

    def __init__(self, progress: Progress) -> None:
        self._bar: Optional[_Bar] = None
        self._callback: Optional[Callback] = None
        if callable(progress):
            self._callback = progress
        elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
            self._callback = self._bar = _Bar()

    def __enter__(self) -> Optional[Callback]:
        return self._callback

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.wipe()
