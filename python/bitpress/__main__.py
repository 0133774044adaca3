"""`bitpress` and `python -m bitpress`: the command-line program, with the installed onnxruntime."""

import os
import subprocess
import sys

from bitpress._runtime import IS_WINDOWS, find_onnxruntime, get_program_path


def main() -> None:
    library = find_onnxruntime()
    if library is not None:
        os.environ.setdefault("BITPRESS_ONNXRUNTIME", str(library))
    os.environ.setdefault("BITPRESS_PYTHON", sys.executable)  # for --text
    program = get_program_path()
    if IS_WINDOWS:  # there a process cannot become another one: whoever started it would not wait
        sys.exit(subprocess.call([program, *sys.argv[1:]]))
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
