#!/usr/bin/env python3
"""Writes golden files of new versions of Bitpress's formats into tests/data/versions, with what they mean into expected.json.

    python tools/testdata/make_versions.py PROGRAM OPERATOR_LIBRARY

A file is written for each version and kind that has none yet. Files that are there are golden: none is ever written again.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "golden"))
import version_files  # noqa: E402


def main():
    program, library = (Path(path).resolve() for path in sys.argv[1:])

    def run(*arguments):
        return subprocess.run([str(program), *map(str, arguments)], check=True, capture_output=True, text=True).stdout

    data = version_files.DATA
    if not (data / "float.onnx").exists():
        version_files.make_float_models(data)
    expected_path = data / "expected.json"
    expected = json.loads(expected_path.read_text()) if expected_path.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        written = version_files.write_new(run, Path(folder))
        for (kind, what), (path, source) in written.items():
            golden = data / f"{kind}_{version_files.version_of(path)}_{what}{path.suffix}"
            if not golden.exists():
                shutil.copyfile(path, golden)
                expected[golden.name] = {"model": source}
        reader = version_files.Reader(run, library, Path(folder))
        for name, means in expected.items():
            if len(means) == 1:  # only the model: a new file
                means.update(reader.read(data / name, means["model"]))
    lines = [f" {json.dumps(name)}: {json.dumps(means)}" for name, means in sorted(expected.items())]
    expected_path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
