"""Reads tensor files as docs/FILE_FORMAT.md says, with h5py and NumPy alone, and writes ones that Tessera reads.

usage: read_with_h5py.py IO_PROBE
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIPPED: {missing} (Debian: python3-h5py, python3-numpy)")
    sys.exit(77)

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix64(z):
    z = (z + GAMMA) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def combine(state, value):
    return mix64((state + value * GAMMA) & MASK)


def hash_bytes(state, data):
    """Section "Checksum" of the file format, word by word."""
    lanes = [mix64((state + lane) & MASK) for lane in range(4)]
    for i in range(0, len(data), 8):
        word = int.from_bytes(data[i:i + 8].ljust(8, b"\0"), "little")
        lane = i // 8 % 4
        lanes[lane] = ((lanes[lane] ^ word) * 0x9FB21C651E98DF25) & MASK
        lanes[lane] ^= lanes[lane] >> 32
    h = mix64(len(data))
    for lane in lanes:
        h = combine(h, lane)
    return h


def checksum(scalar, tilings, ordinals, tiles):
    kind = ["float32", "float64", "complex64", "complex128"].index(scalar)
    h = combine(kind, len(tilings))
    for sizes in tilings:
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype("<i8")
        h = hash_bytes(h, offsets.tobytes())
    parts = [hash_bytes(int(o), t.tobytes()) for o, t in zip(ordinals, tiles)]
    return "%016x" % hash_bytes(h, np.array(parts, dtype="<u8").tobytes())


def read(path):
    """The dense array of a tensor file."""
    with h5py.File(path, "r") as f:
        about = f["tessera"].attrs
        text = {k: v.decode() if isinstance(v, bytes) else v for k, v in about.items()}
        assert text["format"] == "tessera-tensor" and text["version"] == 1, text
        tilings = [f[f"tilings/{d}"][:] for d in range(text["rank"])]
        starts = [np.concatenate([[0], np.cumsum(sizes)]).astype(int) for sizes in tilings]
        ordinals, norms = f["shape/ordinals"][:], f["shape/norms"][:]
        offsets, data = f["tiles/offsets"][:], f["tiles/data"][:]
    assert data.dtype == np.dtype(text["scalar"]), (data.dtype, text["scalar"])
    dense = np.zeros([start[-1] for start in starts], data.dtype)
    counts = [len(sizes) for sizes in tilings]
    tiles = []
    for slot, ordinal in enumerate(ordinals):
        at = np.unravel_index(ordinal, counts) if counts else ()
        where = tuple(slice(s[i], s[i + 1]) for s, i in zip(starts, at))
        tile = data[offsets[slot]:offsets[slot + 1]]
        np.testing.assert_allclose(np.linalg.norm(tile.astype("complex128")), norms[slot], rtol=1e-12)
        dense[where] = tile.reshape(dense[where].shape)
        tiles.append(tile)
    assert checksum(text["scalar"], tilings, ordinals, tiles) == text["checksum"], path
    return dense


def write(path, dense, tilings, with_checksum):
    """A tensor file made without Tessera; tiles of zeros are left out."""
    counts = [len(sizes) for sizes in tilings]
    starts = [np.concatenate([[0], np.cumsum(sizes)]).astype(int) for sizes in tilings]
    ordinals, tiles = [], []
    for ordinal in range(int(np.prod(counts))):
        at = np.unravel_index(ordinal, counts)
        tile = dense[tuple(slice(s[i], s[i + 1]) for s, i in zip(starts, at))]
        if np.any(tile):
            ordinals.append(ordinal)
            tiles.append(tile.ravel())
    with h5py.File(path, "w") as f:
        about = f.create_group("tessera").attrs
        about["format"], about["version"] = "tessera-tensor", 1
        about["scalar"], about["rank"] = dense.dtype.name, dense.ndim
        if with_checksum:
            about["checksum"] = checksum(dense.dtype.name, tilings, ordinals, tiles)
        f.create_group("tilings")
        for d, sizes in enumerate(tilings):
            f[f"tilings/{d}"] = np.array(sizes, dtype="i8")
        f["shape/ordinals"] = np.array(ordinals, dtype="i8")
        f["shape/norms"] = np.array([np.linalg.norm(t) for t in tiles], dtype="f8")
        f["tiles/offsets"] = np.concatenate([[0], np.cumsum([t.size for t in tiles])]).astype("i8")
        f["tiles/data"] = np.concatenate(tiles) if tiles else np.zeros(0, dense.dtype)


def main():
    probe = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([probe, "samples", folder], check=True)
        files = sorted(folder.glob("*.h5"))
        assert len(files) == 20, files
        for file in files:
            expected = np.load(file.with_suffix(".npy"))
            dense = read(file)
            assert dense.dtype == expected.dtype and dense.shape == expected.shape, file
            assert np.array_equal(dense, expected), file

        rng = np.random.default_rng(1)
        tilings = [[2, 3], [4, 1, 2], [5]]
        for dtype in ("float32", "float64", "complex64", "complex128"):
            for with_checksum in (False, True):
                dense = (rng.standard_normal((5, 7, 5)) + 1j * rng.standard_normal((5, 7, 5))).astype(dtype)
                dense[:2, :4] = 0
                made, back = folder / "made.h5", folder / "back.npy"
                write(made, dense, tilings, with_checksum)
                subprocess.run([probe, "to-npy", made, back], check=True, stdout=subprocess.DEVNULL)
                assert np.array_equal(np.load(back), dense), dtype

        # .npy as NumPy itself writes it: both orders, every version, and types that are refused.
        array = rng.standard_normal((3, 4, 5))
        for version in ((1, 0), (2, 0), (3, 0)):
            for order in (array, np.asfortranarray(array), array[:, 1:2], array.T, np.float64(3.5)):
                with open(folder / "in.npy", "wb") as f:
                    np.lib.format.write_array(f, np.asanyarray(order), version=version)
                subprocess.run([probe, "copy-npy", folder / "in.npy", folder / "out.npy"], check=True)
                assert np.array_equal(np.load(folder / "out.npy"), order), version
        for refused in (array.astype(">f8"), array.astype("i4"), array > 0, np.array(["text"]), array.astype("f2"),
                        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), array.astype("longdouble")):
            np.save(folder / "in.npy", refused)
            done = subprocess.run([probe, "copy-npy", folder / "in.npy", folder / "out.npy"], capture_output=True)
            assert done.returncode == 2 and b"its elements are" in done.stderr, (refused.dtype, done)
            assert done.stderr.count(b"\n") == 1, done.stderr
    print(f"read {len(files)} tensor files with h5py {h5py.__version__}, wrote 8 for Tessera; .npy both ways")


if __name__ == "__main__":
    main()
