#!/usr/bin/env python3
"""The documents say what is so: every command of the README runs, every flag in a document is one of its command, every
relative link leads to a file.

usage: readme.py SOURCE BUILD

Each line of the README's ```sh blocks runs as it stands, in a folder with the build's programs, the shared data and two
small tensors, T.h5 and V.h5. Three kinds of lines need what a machine may lack:
  make X         make -n X: the target is there, nothing is built
  --devices N    where there is no device it must end with exit code 3 and a message that names the flag
  mpirun -n N P  where there is no MPI, P alone; with it, the checksum must be that of P alone
"""
import array
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE, BUILD = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
MOST_LINES = 130  # of the README
# Open MPI refuses root and more ranks than cores unless it is told.
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_WAIT_POLICY": "passive"}
failures = []


def expect(true, message):
    if not true:
        failures.append(message)
        print(f"FAILED: {message}")


def shell(line, folder):
    return subprocess.run(["bash", "-c", line], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands(text):
    """The lines of ```sh blocks, without comments."""
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            line = re.sub(r"\s+#.*", "", line).strip()
            if line and not line.startswith("#"):
                yield line


def npy(path, shape):
    """A dense array of small numbers."""
    count = 1
    for extent in shape:
        count *= extent
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header = header.ljust(64 * ((len(header) + 11) // 64 + 1) - 11) + "\n"
    numbers = array.array("d", ((7 * i) % 11 / 11 for i in range(count)))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + numbers.tobytes())


def prepare(folder):
    """What the README's commands expect around them."""
    (folder / "build").symlink_to(BUILD)
    (folder / "share").symlink_to(SOURCE / "share")
    for name, letters, shape in (("T", "pcd", (6, 8, 8)), ("V", "cdab", (8, 8, 8, 8))):
        npy(folder / f"{name}.npy", shape)
        done = shell(f"build/tessera contract '{letters}->{letters}' --a {name}.npy --tile 4 --out {name}.h5", folder)
        assert done.returncode == 0, done.stderr


def checksum(output):
    found = re.search(r"^checksum\s+(\w+)", output, re.M)
    return found.group(1) if found else None


def run(line, folder, has_devices, has_mpi):
    words = shlex.split(line)
    if words[0] == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=SOURCE, capture_output=True, text=True)
        expect(done.returncode == 0 and done.stdout, f"make -n {' '.join(words[1:])}: {done.stderr}")
        return
    parts = re.fullmatch(r"mpirun -n \d+ (.*)", line)
    done = shell(parts[1] if parts and not has_mpi else line, folder)
    if "--devices" in words and not has_devices:
        expect(done.returncode == 3 and "--devices" in done.stderr,
               f"{line}: exit {done.returncode} without a device, not 3 with a message: {done.stderr}")
        return
    expect(done.returncode == 0, f"{line}: exit {done.returncode}: {done.stderr}")
    if parts and has_mpi:
        alone = checksum(shell(parts[1], folder).stdout)
        expect(alone and alone == checksum(done.stdout), f"{line}: checksum {checksum(done.stdout)}, alone {alone}")
    if "--json" in words and done.returncode == 0:
        json.loads(done.stdout)
    for flag in ("--out", "--png"):
        if flag in words:
            made = folder / words[words.index(flag) + 1]
            expect(made.is_file() and made.stat().st_size > 0, f"{line}: there is no {made.name}")


def help_of(command, known={}):
    if command not in known:
        done = subprocess.run([BUILD / "tessera", *command.split(), "--help"], capture_output=True, text=True)
        # Of a command that is not there the program shows the help of all.
        there = done.returncode == 0 and f"{command.split()[-1]} [OPTIONS]" in done.stdout
        known[command] = set(re.findall(r"--[a-z][a-z0-9-]*", done.stdout)) if there else None
    return known[command]


def check_flags(path):
    """Of every `tessera COMMAND ...` in a document, inline or in a block."""
    text = path.read_text()
    found = list(commands(text))
    for block in blocks(text, ""):
        found += [line for line in block.splitlines() if re.match(r"(mpirun|srun|tessera) ", line)]
    found += re.findall(r"`([^`\n]*\btessera [^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    for line in found:
        for call in re.findall(r"(?:^|[\s/])tessera (bench [a-z]+|[a-z]+)([^|;&]*)", line):
            flags = help_of(call[0])
            expect(flags is not None, f"{path.name}: no command 'tessera {call[0]}': {line}")
            for flag in re.findall(r"(?<=\s)--[a-z][a-z0-9-]*", call[1]):
                expect(flags is None or flag in flags, f"{path.name}: tessera {call[0]} has no {flag}: {line}")
    return len(found)


def check_links(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            expect((path.parent / target).exists(), f"{path.name}: the link {target} leads nowhere")


readme = (SOURCE / "README.md").read_text()
lines = list(commands(readme))
expect(len(lines) >= 8, f"README: only {len(lines)} commands found")
expect(readme.count("\n") <= MOST_LINES, f"README: {readme.count(chr(10))} lines, more than {MOST_LINES}")
with tempfile.TemporaryDirectory() as name:
    where = pathlib.Path(name)
    prepare(where)
    info = json.loads(shell("build/tessera info --json", where).stdout)
    mpi = info["features"]["mpi"] and shutil.which("mpirun") is not None
    for command in lines:
        run(command, where, bool(info["devices"]), mpi)
        print(f"ran: {command}")
documents = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]
calls = sum(check_flags(path) for path in documents)
for path in [*documents, SOURCE / "CHANGELOG.md"]:
    check_links(path)
print(f"{len(lines)} commands, {calls} calls in {len(documents)} documents, {len(failures)} failures")
sys.exit(1 if failures else 0)
