"""Runs commands under limits of time and memory, and says how each of them ended."""

import dataclasses
import os
import resource
import signal
import subprocess
import tempfile
import threading

WAITING = 4  # of the wall clock's seconds for each second of work: a busy machine is no fault, a command that sleeps for ever is one
MEBIBYTE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Ended:
    """`status` is "" for exit status 0, otherwise "exit status 2", "crash: signal 6" or "time-out after 60 s"; `seconds` are those of
    the processor, `peak_mib` is the most memory that was resident."""

    status: str
    out: str
    err: str
    seconds: float
    peak_mib: int

    def message(self):
        """The last line that was said, which is the reason of most failures."""
        lines = [line.strip() for line in (self.out + self.err).splitlines() if line.strip()]
        return lines[-1][:300] if lines else "no message"


def call(command, seconds, mebibytes, environment=None):
    """Seconds of the processor and mebibytes of address space are what the command may use. It must not start others."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes * MEBIBYTE, mebibytes * MEBIBYTE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err, stdin=subprocess.DEVNULL, preexec_fn=limit,
                                   env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})})
        is_late = threading.Event()

        def kill():
            is_late.set()
            os.kill(process.pid, signal.SIGKILL)

        timer = threading.Timer(WAITING * seconds, kill)
        timer.start()
        _, wait_status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = code = os.waitstatus_to_exitcode(wait_status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if is_late.is_set() or code == -signal.SIGXCPU:
        status = f"time-out after {seconds:g} s"
    elif code < 0:
        status = f"crash: signal {-code}"
    else:
        status = f"exit status {code}" if code else ""
    return Ended(status, *texts, round(usage.ru_utime + usage.ru_stime, 2), usage.ru_maxrss // 1024)
