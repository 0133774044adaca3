"""Programs for Windows need nothing but the kernel's library and the universal C runtime, and the operator library shows two names."""

import re
import subprocess
import sys

import pytest
import rig
from locations import ROOT


@pytest.mark.parametrize("name", ["bitpress_ops.dll", "bitpress.exe"])
def test_libraries(name):
    script = ROOT / "packaging" / "wheel" / "windows_imports.py"
    done = subprocess.run([sys.executable, script, rig.BUILD / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "KERNEL32.dll" in done.stdout


def test_exported_names():
    text = subprocess.run(["objdump", "-p", rig.BUILD / "bitpress_ops.dll"], capture_output=True, text=True, check=True).stdout
    table = text.split("[Ordinal/Name Pointer] Table")[1].split("\n\n")[0]
    assert sorted(re.findall(r"\[ *\d+\] (?:\+base\[ *\d+\] +[0-9a-f]+ )?(\S+)", table)) == ["RegisterCustomOps", "RegisterCustomOpsAltName"]
