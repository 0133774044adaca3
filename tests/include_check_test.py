"""Does the include check find what it should? A small tree with one fault each."""

import json
from pathlib import Path

import include_check
import pytest

DESIGN = """
| room | what lives there | may include |
|---|---|---|
| `base/` | small things | nothing |
| `graph/` | models | base |
| `runtime/` | sessions | base graph |
| `tasks/` | the verbs | all |

| headers | only in |
|---|---|
| `onnx/`, `google/protobuf/` | graph |
| `onnxruntime` | runtime |
| `unistd.h`, `sys/` | base |
"""
FILES = {
    "docs/design.md": DESIGN,
    "src/base/error.h": "#pragma once\n#include <string>\n",
    "src/base/CMakeLists.txt": "bitpress_room(base SOURCES error.cc LIBRARIES fmt::fmt)\n",
    "src/graph/model.cc": '#include "onnx/onnx_pb.h"\n#include "base/error.h"\n#include "graph/model.h"\n',
    "src/graph/CMakeLists.txt": "bitpress_room(graph\n  SOURCES model.cc  # comment\n  ROOMS base\n  LIBRARIES onnx_library)\n",
    "src/runtime/session.cc": '#include <onnxruntime_cxx_api.h>\n#include "graph/model.h"\n#include "base/error.h"\n',
    "src/runtime/CMakeLists.txt": "bitpress_room(runtime SOURCES session.cc ROOMS graph)\n",
    "src/tasks/run.cc": '#include "runtime/session.h"\n#include "base/error.h"\n',
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def add_line(root, name, line):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + line + "\n")


def test_the_clean_tree_passes(tree):
    assert include_check.check(tree) == []


@pytest.mark.parametrize("name, line, message", [
    ("src/base/error.h", '#include "graph/model.h"', "src/base/error.h:3: room 'base' may not include 'graph/model.h'"),
    ("src/graph/model.cc", '  #  include "runtime/session.h"', "room 'graph' may not include 'runtime/session.h'"),
    ("src/graph/model_test.cc", '#include "runtime/session.h"', "room 'graph' may not include 'runtime/session.h'"),
    ("src/runtime/session.cc", '#include "tasks/run.h"', "room 'runtime' may not include 'tasks/run.h'"),
    ("src/runtime/session.cc", '#include "onnx/onnx_pb.h"', "may be included only in graph"),
    ("src/base/error.h", "#include <google/protobuf/message.h>", "may be included only in graph"),
    ("src/graph/model.cc", "#include <onnxruntime_c_api.h>", "may be included only in runtime"),
    ("src/tasks/run.cc", "#include <onnxruntime_c_api.h>", "may be included only in runtime"),
    ("src/runtime/session.cc", "#include <unistd.h>", "may be included only in base"),
    ("apps/main.cc", "#include <sys/stat.h>", "apps/main.cc:1: <sys/stat.h> may be included only in base"),
    ("src/base/error.h", '#include "text.h"', '"text.h" is no path from src/'),
    ("src/attic/old.cc", "", "'attic' is no room"),
    ("src/pipeline.cc", "", "src/pipeline.cc: it lies in no room"),
])
def test_a_bad_include_is_found(tree, name, line, message):
    add_line(tree, name, line)
    errors = include_check.check(tree)
    assert len(errors) == 1
    assert message in errors[0]


@pytest.mark.parametrize("line, wanted", [("return path.string();", "PathText"), ("return path.generic_string();", "PathText"),
                                          ("return error.message();", "ErrorText")])
def test_text_of_a_path_comes_from_base(tree, line, wanted):
    for name in ("src/base/text.cc", "src/graph/path_test.cc"):
        (tree / name).write_text(line + "\n")
    assert include_check.check(tree) == []
    (tree / "src/graph/path.cc").write_text(line + "\n")
    errors = include_check.check(tree)
    assert len(errors) == 1 and errors[0].startswith("src/graph/path.cc:1: ") and errors[0].endswith(f"use {wanted}")


def test_a_bad_cmake_edge_is_found(tree):
    path = tree / "src/graph/CMakeLists.txt"
    path.write_text(path.read_text().replace("ROOMS base", "ROOMS base runtime"))
    assert ["links runtime" in error for error in include_check.check(tree)] == [True]


def test_an_include_without_a_link_is_found(tree):
    path = tree / "src/graph/CMakeLists.txt"
    path.write_text(path.read_text().replace("ROOMS base", ""))
    errors = include_check.check(tree)
    assert any("room 'graph' includes base without linking it" in error for error in errors)


def test_a_file_that_is_not_built_is_found(tree, tmp_path):
    build = tmp_path / "build"
    build.mkdir()
    built = [name for name in FILES if name.endswith(".cc")]
    write = lambda names: (build / "compile_commands.json").write_text(
        json.dumps([{"directory": str(tree), "file": name} for name in names]))
    write(built)
    assert include_check.check(tree, build) == []
    add_line(tree, "src/graph/model_test.cc", "")
    assert include_check.check(tree, build) == [
        "src/graph/model_test.cc: no target builds this file (add it to a CMakeLists.txt)"]


def test_files_of_other_systems_are_those_in_a_list(tree, tmp_path):
    (tmp_path / "compile_commands.json").write_text(
        json.dumps([{"directory": str(tree), "file": name} for name in FILES if name.endswith(".cc")]))
    add_line(tree, "src/base/CMakeLists.txt", "set(linux pages)\nset(macos ${linux})\nset(windows console)")
    for name in ("macos/pages.cc", "windows/console.cc", "windows/pages.cc"):
        add_line(tree, f"src/base/{name}", "#include <unistd.h>")
    assert include_check.check(tree, tmp_path) == [
        "src/base/windows/pages.cc: no target builds this file (add it to a CMakeLists.txt)"]


def test_a_unity_build_builds_what_its_files_include(tree, tmp_path):
    made = tmp_path / "build" / "unity_0_cxx.cxx"
    made.parent.mkdir()
    sources = [tree / name for name in FILES if name.endswith(".cc")]
    made.write_text("".join(f'#include "{source}"\n' for source in sources[1:]))
    (made.parent / "compile_commands.json").write_text(json.dumps([{"directory": str(made.parent), "file": made.name}]))
    assert include_check.check(tree, made.parent) == [
        f"{sources[0].relative_to(tree)}: no target builds this file (add it to a CMakeLists.txt)"]


@pytest.mark.parametrize("old, new, message", [
    ("may include", "includes", "has no table"),
    ("| base graph |", "| base grahp |", "unknown rooms: grahp"),
    ("| sessions | base graph |", "| base graph |", "a row has 2 cells"),
    ("| runtime |", "| runtim |", "unknown room"),
])
def test_a_broken_table_is_an_error(tree, old, new, message):
    (tree / "docs/design.md").write_text(DESIGN.replace(old, new))
    with pytest.raises(include_check.DesignError, match=message):
        include_check.check(tree)


def test_the_real_table_knows_the_rooms():
    root = Path(include_check.__file__).resolve().parents[1]
    rooms, homes = include_check.read_design((root / "docs/design.md").read_text())
    folders = {path.name for path in (root / "src").iterdir() if path.is_dir() and any(path.glob("*.cc"))}
    assert folders <= set(rooms)
    assert rooms["base"] == set() and rooms["formats"] == {"base"}
    assert ("onnx/", {"graph"}) in homes
