#!/usr/bin/env python3
"""Compares the #includes under src/ and the edges of its CMake targets with the tables in docs/design.md, and finds source
files that no target builds, and paths that become text in another way than base/paths.h has.

    python tests/include_check.py [--root DIR] [--build-dir BUILD]     (with BUILD: also what compile_commands.json lacks)
"""

import argparse
import json
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SOURCES = (".h", ".cc", ".inc")
PATH_TEXT = re.compile(r"\.(?:generic_)?string\(\)")
ERROR_TEXT = re.compile(r"\b(?:error|code|ignored)\.message\(\)")


class DesignError(Exception):
    """docs/design.md has no such table, or a row that cannot be read."""


def table_rows(text, *header):
    """Cells of the rows of the Markdown table whose header row has these cells."""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
             for line in text.splitlines()]
    try:
        start = lines.index(list(header)) + 2
    except ValueError:
        raise DesignError(f"docs/design.md has no table '{' | '.join(header)}'") from None
    rows = []
    for line in lines[start:]:
        if line is None:
            break
        if len(line) != len(header):
            raise DesignError(f"docs/design.md: a row has {len(line)} cells, expected {len(header)}: {' | '.join(line)}")
        rows.append(line)
    if not rows:
        raise DesignError(f"docs/design.md: the table '{' | '.join(header)}' is empty")
    return rows


def read_design(text):
    """{room: rooms it may include} and [(header prefix, rooms that may use it)]."""
    rows = [(room.strip("`/"), allowed) for room, _, allowed in table_rows(text, "room", "what lives there", "may include")]
    names = {room for room, _ in rows}
    rooms = {}
    for room, allowed in rows:
        words = {"nothing": set(), "all": set(names)}.get(allowed, set(allowed.split()))
        if words - names:
            raise DesignError(f"docs/design.md: room '{room}' may include unknown rooms: {', '.join(sorted(words - names))}")
        rooms[room] = words - {room}
    homes = []
    for headers, homes_cell in table_rows(text, "headers", "only in"):
        if set(homes_cell.split()) - names:
            raise DesignError(f"docs/design.md: '{headers}' is at home in an unknown room: {homes_cell}")
        homes += [(prefix.strip().strip("`"), set(homes_cell.split())) for prefix in headers.split(",")]
    return rooms, homes


def room_of(path, source_root):
    parts = path.relative_to(source_root).parts
    return parts[0] if len(parts) > 1 else ""


def list_words(words):
    return " ".join(sorted(words)) or "nothing"


def check_includes(source_root, rooms, homes):
    """Errors, and {room: rooms it includes}."""
    errors, used = [], {room: set() for room in rooms}
    for path in sorted(p for p in source_root.rglob("*") if p.suffix in SOURCES):
        room = room_of(path, source_root)
        shown = path.relative_to(source_root.parent)
        if room not in rooms:
            errors.append(f"{shown}: '{room}' is no room of docs/design.md" if room else f"{shown}: it lies in no room")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, header = match.groups()
            for prefix, where in homes:
                if header.startswith(prefix) and room not in where:
                    errors.append(f"{shown}:{number}: <{header}> may be included only in {list_words(where)}")
            target = header.split("/")[0] if "/" in header else ""
            if target in rooms and target != room:
                used[room].add(target)
                if target not in rooms[room]:
                    errors.append(f"{shown}:{number}: room '{room}' may not include '{header}' (allowed: {list_words(rooms[room])})")
            elif target == "bitpress":  # the public headers, which hold types that all rooms share
                if not (source_root.parent / "include" / header).is_file():
                    errors.append(f'{shown}:{number}: "{header}" is no public header')
            elif quote == '"' and target not in rooms and not any(header.startswith(prefix) for prefix, _ in homes):
                errors.append(f'{shown}:{number}: "{header}" is no path from src/')
    return errors, used


def check_system_headers(root, homes):
    """Errors: headers of the system outside src/. (Programs of tests/ that stand for drivers and processors are for Linux only.)"""
    system = [prefix for prefix, where in homes if where == {"base"}]
    errors = []
    for folder in ("apps", "bench", "fuzz", "include", "python"):
        for path in sorted(p for p in (root / folder).rglob("*") if p.suffix in SOURCES):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if match and any(match.group(2).startswith(prefix) for prefix in system):
                    errors.append(f"{path.relative_to(root)}:{number}: <{match.group(2)}> may be included only in base")
    return errors


def check_path_texts(root):
    """Errors: paths and failures of the system as text without base/paths.h and base/system_error.h, which know what is UTF-8. (Tests may.)"""
    errors = []
    for folder in ("src", "apps", "python"):
        for path in sorted(p for p in (root / folder).rglob("*") if p.suffix in SOURCES):
            shown = path.relative_to(root)
            if shown.parts[:2] == ("src", "base") or "test_" in path.name or path.stem.endswith("_test"):
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for found, wanted in (PATH_TEXT.search(line), "PathText"), (ERROR_TEXT.search(line), "ErrorText"):
                    if found:
                        errors.append(f"{shown}:{number}: '{found[0]}' is no UTF-8 on Windows: use {wanted}")
    return errors


def check_cmake(source_root, rooms, used):
    """The ROOMS of each bitpress_room(...): within the table, and enough for what the room includes."""
    errors, linked = [], {}
    for path in sorted(source_root.rglob("CMakeLists.txt")):
        for name, body in re.findall(r"bitpress_room\(\s*(\w+)([^)]*)\)", re.sub(r"#.*", "", path.read_text(encoding="utf-8"))):
            match = re.search(r"\bROOMS\b(.*?)(?=\b(?:SOURCES|TESTS|LIBRARIES)\b|$)", body, re.S)
            linked[name] = set(match.group(1).split()) if match else set()
            extra = linked[name] - rooms.get(name, set())
            if extra:
                errors.append(f"{path.relative_to(source_root.parent)}: room '{name}' links {list_words(extra)}, "
                              f"docs/design.md allows {list_words(rooms.get(name, set()))}")

    def closure(name):
        found, todo = set(), [name]
        while todo:
            for room in linked.get(todo.pop(), set()) - found:
                found.add(room)
                todo.append(room)
        return found

    for name in linked:
        missing = (used.get(name, set()) & rooms.get(name, set())) - closure(name)
        if missing:
            errors.append(f"src/{name}/CMakeLists.txt: room '{name}' includes {list_words(missing)} without linking it (ROOMS)")
    return errors


def files_of_other_systems(root):
    """What the lists of src/base/CMakeLists.txt name for systems that this build is not for."""
    base = root / "src" / "base"
    text = (base / "CMakeLists.txt").read_text(encoding="utf-8") if base.is_dir() else ""
    lists = re.findall(r"set\((linux|macos|posix|windows)(?:_tests)? ([^)]*)\)", text)
    of_linux = next((names for system, names in lists if system == "linux"), "")
    return {(base / system / f"{name}.cc").resolve() for system, names in lists
            for name in names.replace("${linux}", of_linux).split()}


def check_built(root, build_dir):
    """Every .cc under src, apps, bench and tests is compiled by some target, but for those of other systems."""
    commands = json.loads((build_dir / "compile_commands.json").read_text(encoding="utf-8"))
    built = {(Path(entry["directory"]) / entry["file"]).resolve() for entry in commands}
    # A unity build compiles files that include several of ours.
    for made in [path for path in built if path.name.startswith("unity_")]:
        built |= {Path(name) for name in re.findall(r'^#include "(.*)"$', made.read_text(encoding="utf-8"), re.MULTILINE)}
    built |= files_of_other_systems(root)
    folders = [root / name for name in ("src", "apps", "bench", "tests")]
    return [f"{path.relative_to(root)}: no target builds this file (add it to a CMakeLists.txt)"
            for folder in folders for path in sorted(folder.rglob("*.cc"))
            if path.resolve() not in built]


def check(root, build_dir=None):
    """All errors, one line each."""
    rooms, homes = read_design((root / "docs" / "design.md").read_text(encoding="utf-8"))
    errors, used = check_includes(root / "src", rooms, homes)
    errors += check_cmake(root / "src", rooms, used) + check_system_headers(root, homes) + check_path_texts(root)
    return errors + (check_built(root, build_dir) if build_dir else [])


def main():
    parser = argparse.ArgumentParser(description="Compare #includes with docs/design.md.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--build-dir", type=Path)
    arguments = parser.parse_args()
    try:
        errors = check(arguments.root.resolve(), arguments.build_dir)
    except (DesignError, OSError, ValueError) as error:
        errors = [str(error)]
    print(*errors, sep="\n", file=sys.stderr, end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
