"""A worker process: reads jobs from standard input, and writes how far it is and what became of each (_processes.py).

It ends with the input. The arguments are operator libraries.
"""

import os
import pickle
import sys
from typing import Any

from bitpress._runtime import use_operator_library


def main() -> None:
    # A job may print something, and that must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for library in sys.argv[1:]:
        use_operator_library(library)

    def tell(kind: str, content: Any) -> None:
        try:
            pickle.dump((kind, content), answers)
            answers.flush()
        except BrokenPipeError:  # the asking process died, and nobody misses the answer
            os._exit(1)

    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = ("done", job.run(lambda done: tell("progress", done)))
        except Exception as error:  # the asking process raises it
            answer = ("error", (type(error).__name__, str(error)))
        tell(*answer)


if __name__ == "__main__":
    main()
