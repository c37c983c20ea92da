"""docs/python/API.md is what the docstrings say."""
import pathlib
import subprocess
import sys

import pytest

import tessera as ts


def test_it_is_current():
    if not hasattr(ts._core, "energy"):
        pytest.skip("this build has no energies")
    script = pathlib.Path(__file__).parents[2] / "scripts" / "api_reference.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
