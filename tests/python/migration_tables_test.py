"""The tables of the migration pages equal the tables of the package."""

import subprocess
import sys

from locations import PACKAGE, ROOT


def test_the_pages_are_up_to_date():
    command = [sys.executable, "-B", str(ROOT / "tools" / "make_migration_tables.py"), "--check", "--package", str(PACKAGE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
