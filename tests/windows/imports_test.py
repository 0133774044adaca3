"""The operator library for Windows needs nothing but the kernel's library and the universal C runtime, and shows two names."""

import re
import subprocess
import sys

import rig
from locations import ROOT


def test_libraries():
    script = ROOT / "packaging" / "wheel" / "windows_imports.py"
    done = subprocess.run([sys.executable, script, rig.BUILD / "bitpress_ops.dll"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "KERNEL32.dll" in done.stdout


def test_exported_names():
    text = subprocess.run(["objdump", "-p", rig.BUILD / "bitpress_ops.dll"], capture_output=True, text=True, check=True).stdout
    table = text.split("[Ordinal/Name Pointer] Table")[1].split("\n\n")[0]
    assert sorted(re.findall(r"\[ *\d+\] (?:\+base\[ *\d+\] +[0-9a-f]+ )?(\S+)", table)) == ["RegisterCustomOps", "RegisterCustomOpsAltName"]
