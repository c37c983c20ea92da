"""Reads a checkpoint as docs/FILE_FORMAT.md says, with h5py alone, and damages it in ways that Tessera must notice.

usage: checkpoint_with_h5py.py TESSERA MOLECULES
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from read_with_h5py import h5py, hash_bytes, np, write


def main():
    program, molecules = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name) / "water.h5"

        def run(*more, molecule="h2o", basis="sto-3g", code=0):
            done = subprocess.run(
                [program, "energy", molecules / f"{molecule}.xyz", "--basis", basis, "--method", "ccsd", "--json",
                 "--quiet", "--checkpoint", file, *map(str, more)], capture_output=True, text=True)
            assert done.returncode == code, (done.returncode, done.stderr)
            return json.loads(done.stdout) if code == 0 else done.stderr

        out = run("--converge", "1e-5")
        with h5py.File(file, "r") as f:
            about = {k: v.decode() if isinstance(v, bytes) else v for k, v in f["tessera"].attrs.items()}
            arrays = {}
            f.visititems(lambda n, x: arrays.update({n: x}) if isinstance(x, h5py.Dataset) else None)
            for name, x in arrays.items():
                found = x.attrs["checksum"]
                assert "%016x" % hash_bytes(0, x[()].tobytes()) == (found.decode() if isinstance(found, bytes) else found), name
            places = {n: x.id.get_offset() for n, x in arrays.items()}
            arrays = {n: x[()] for n, x in arrays.items()}
        wanted = {"format": "tessera-checkpoint", "version": 1, "method": "ccsd", "iteration": out["iterations"],
                  "converge": 1e-5, "formula": "OH2", "charge": 0, "basis": "sto-3g", "functions": 7, "occupied": 5,
                  "virtual": 2, "frozen": 0, "correlation_energy": out["ccsd"]}
        for key, value in wanted.items():
            assert about[key] == value, (key, about[key], value)
        assert 0 < about["residual"] < 1e-4, about
        assert sorted(arrays) == ["molecule/coordinates", "molecule/elements", "orbitals/coefficients",
                                  "orbitals/energies", "t1", "t2"], sorted(arrays)
        assert list(arrays["molecule/elements"]) == [8, 1, 1]
        angstrom = arrays["molecule/coordinates"] * 0.52917721067
        lines = (molecules / "h2o.xyz").read_text().split("\n")[2:5]
        np.testing.assert_allclose(angstrom, [[float(x) for x in line.split()[1:4]] for line in lines], atol=1e-9)
        t1, t2, e = arrays["t1"], arrays["t2"], arrays["orbitals/energies"]
        assert t1.shape == (5, 2) and t2.shape == (5, 5, 2, 2) and arrays["orbitals/coefficients"].shape == (7, 7)
        np.testing.assert_allclose(t2, t2.transpose(1, 0, 3, 2), atol=1e-14)
        assert np.all(e[:5] < 0) and np.all(e[5:] > 0) and np.abs(t2).max() > 1e-3, e
        diagnostic = np.linalg.norm(t1) / np.sqrt(10)
        np.testing.assert_allclose(diagnostic, out["t1_diagnostic"], rtol=1e-12)

        good = file.read_bytes()

        def refused(contents, word, **how):
            file.write_bytes(contents)
            message = run(**how, code=2)
            assert str(file) in message and word in message and message.count("\n") == 1, message
            assert file.read_bytes() == contents

        for name in ("t1", "t2", "orbitals/coefficients"):
            at = places[name] + 9
            refused(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:], name)
        for length in (len(good) - 1, len(good) // 2, 100):
            refused(good[:length], "")
        refused(b"", "empty")
        refused(b"amplitudes, in words", "not an HDF5 file")
        refused(good, "of OH2, 7 functions", molecule="ch4")
        run("--converge", "1e-3", basis="def2-svp", code=2)
        file.unlink()
        run("--converge", "1e-3", basis="def2-svp")  # as many functions as cc-pvdz
        refused(file.read_bytes(), "its basis is def2-svp", basis="cc-pvdz")

        def changed(change, word):
            file.write_bytes(good)
            with h5py.File(file, "r+") as f:
                change(f)
            refused(file.read_bytes(), word)

        def set_attribute(key, value):
            return lambda f: f["tessera"].attrs.__setitem__(key, value)

        changed(lambda f: f.__delitem__("t1"), "t1 is missing")
        changed(lambda f: f["tessera"].attrs.__delitem__("iteration"), "iteration is missing")
        changed(lambda f: f["t2"].attrs.__delitem__("checksum"), "checksum is missing")
        changed(set_attribute("version", 2), "format 2")
        changed(set_attribute("format", "other"), "'other'")
        changed(set_attribute("functions", "seven"), "not an integer")
        changed(set_attribute("iteration", np.int64(2**40)), "its iteration is 1099511627776")
        changed(set_attribute("iteration", np.int64(-5)), "its iteration is -5")
        changed(lambda f: f["molecule/elements"].__setitem__(0, 16), "another molecule")

        def flat(f):
            values = f["t2"][:].reshape(10, 10)
            del f["t2"]
            f["t2"] = values

        changed(flat, "2 dimensions, must have 4")
        write(file, np.ones(12), [[8, 4]], True)
        refused(file.read_bytes(), "Tessera 0.1")

        file.write_bytes(good)
        again = run()
        assert again["iterations_before"] == out["iterations"], again
    print(f"read a checkpoint with h5py {h5py.__version__}, damaged it in 22 ways")


if __name__ == "__main__":
    main()
