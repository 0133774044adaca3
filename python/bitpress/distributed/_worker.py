"""A worker process: reads jobs from standard input and writes what became of each, until the input ends (_processes.py)."""

import os
import pickle
import sys


def main() -> None:
    # A job may print something, and that must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = ("done", job.run())
        except Exception as error:  # the asking process raises it
            answer = ("error", (type(error).__name__, str(error)))
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:  # the asking process died, and nobody misses the answer
            os._exit(1)


if __name__ == "__main__":
    main()
