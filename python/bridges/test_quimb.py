"""quimb's networks of symmray's blocks, contracted through Tessera."""
import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("symmray")
pytest.importorskip("quimb")

DMRG = pathlib.Path(__file__).parents[2] / "examples" / "python" / "dmrg.py"


def test_dmrg_of_a_chain():
    done = subprocess.run([sys.executable, DMRG, "--sites", "10", "--bond", "24", "--sweeps", "4", "--threads", "2", "--json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    for way in ("numpy", "tessera"):
        assert abs(out[way]["energy"] - -4.258035207282883) < 1e-7  # by exact diagonalisation
        assert out[way]["bond"] == 24


def test_what_dmrg_refuses():
    done = subprocess.run([sys.executable, DMRG, "--sites", "7"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 2 and "--sites 7" in done.stderr
