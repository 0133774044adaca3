"""GCC optimizes all functions of a file as the precompiled header that it includes was: `-O3` beside a header of O2 says nothing. Kernels
were 1.6 times slower for that once, and every result was right."""

import json
import re

import pytest
from locations import BUILD

LEVEL = re.compile(r"\s-(O\w*)\b")
HEADER = re.compile(r"-include\s+(\S*cmake_pch\.hxx)\b")


@pytest.mark.quick
def test_files_have_the_level_of_their_precompiled_header():
    commands = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    level_of = {entry["file"].removesuffix(".cxx"): LEVEL.findall(entry["command"])[-1:]
                for entry in commands if entry["file"].endswith("cmake_pch.hxx.cxx")}
    if not level_of:
        pytest.skip("this build has no precompiled headers")
    compared = 0
    for entry in commands:
        header = HEADER.search(entry["command"])
        if header and not entry["file"].endswith("cmake_pch.hxx.cxx"):
            assert LEVEL.findall(entry["command"])[-1:] == level_of[header[1]], entry["file"]
            compared += 1
    assert compared > len(level_of)
