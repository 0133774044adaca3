#!/usr/bin/env python3
"""Makes the documentation as a site: a folder for this version of Bitpress, a page that lists all versions whose folders are there,
and one that leads to the newest.

    PYTHON tools/make_site.py [--output build/site]       (PYTHON: that of an environment with tools/setup/requirements_docs.txt)

Any warning is an error; then the folder of this version stays as it was.
"""

import argparse
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = ROOT / "docs" / "site"
# Whatever a page or a style loads by itself; what a reader may follow is no matter.
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\s(?:src|href)=["']?(?:https?:)?//|(?:url\(|@import)\s*["']?(?:https?:)?//""")
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
{head}
</head>
<body>
{body}
</body>
</html>
"""
STYLE = "<style>:root {color-scheme: light dark; font: 1.1rem/1.6 system-ui, sans-serif} body {max-width: 40rem; margin: 3rem auto; padding: 0 1rem}</style>"


def make(folder: Path) -> None:
    """Runs Sphinx, which also writes what it keeps for a next run, and the theme's maps for those who change its styles."""
    with tempfile.TemporaryDirectory() as kept:
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fresh-env", "--fail-on-warning", "--builder", "html",
                   "--conf-dir", str(CONFIGURATION), "--doctree-dir", kept, str(ROOT / "docs"), str(folder)]
        subprocess.run(command, check=True)
    for path in [folder / ".buildinfo", *folder.rglob("*.map")]:
        path.unlink()
    (folder / "_sources").rmdir()  # left empty


def pages_that_load_from_elsewhere(folder: Path) -> List[Path]:
    """The site is for reading without a network, too."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".html", ".css")]
    return [path for path in files if LOADED.search(path.read_text(encoding="utf-8"))]


def versions(site: Path) -> List[str]:
    """The versions that are there, the newest first."""
    names = [path.parent.name for path in site.glob("*/index.html") if re.fullmatch(r"\d+\.\d+", path.parent.name)]
    return sorted(names, key=lambda name: [int(number) for number in name.split(".")], reverse=True)


def write_entrance(site: Path) -> None:
    found = versions(site)
    newest = f"{found[0]}/index.html"
    items = "\n".join(f'<li><a href="{name}/index.html">Bitpress {name}</a></li>' for name in found)
    pages = {
        "versions.html": ("Versions of Bitpress", STYLE, f"<h1>Versions of Bitpress</h1>\n<p>The newest comes first.</p>\n<ul>\n{items}\n</ul>"),
        "index.html": ("Bitpress", f'<meta http-equiv="refresh" content="0; url={newest}">', f'<a href="{newest}">Bitpress {found[0]}</a>'),
    }
    for name, (title, head, body) in pages.items():
        (site / name).write_text(PAGE.format(title=title, head=head, body=body), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site", help="the folder of all versions")
    site = parser.parse_args().output
    site.mkdir(parents=True, exist_ok=True)
    folder = site / runpy.run_path(str(CONFIGURATION / "conf.py"))["version"]
    with tempfile.TemporaryDirectory(dir=site, prefix=".making-") as made:
        fresh = Path(made) / "site"
        try:
            make(fresh)
        except subprocess.CalledProcessError:
            return 1
        bad = pages_that_load_from_elsewhere(fresh)
        for path in bad:
            print(f"make_site.py: {path.relative_to(fresh)} loads something from another host", file=sys.stderr)
        if bad:
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    write_entrance(site)
    return 0


if __name__ == "__main__":
    sys.exit(main())
