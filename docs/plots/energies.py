"""Energies by the program, for the scripts here."""
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def energy(atoms, *options, program=ROOT / "build/tessera"):
    """What `tessera energy --json` says; None where an iteration does not converge. atoms: lines of an xyz file, between |."""
    lines = atoms.split("|")
    with tempfile.NamedTemporaryFile("w", suffix=".xyz") as file:
        file.write(f"{len(lines)}\n\n" + "\n".join(lines) + "\n")
        file.flush()
        done = subprocess.run([program, "energy", file.name, "--json", "--quiet", *map(str, options)], capture_output=True, text=True)
    if done.returncode not in (0, 4):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout) if done.returncode == 0 else None
