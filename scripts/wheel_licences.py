#!/usr/bin/env python3
"""Puts into a wheel the licences of what it carries besides Tessera: those that Debian keeps of each package.

usage: wheel_licences.py WHEEL
"""
import base64
import csv
import hashlib
import importlib.metadata
import io
import pathlib
import re
import sys
import zipfile

# Archives, shared libraries and headers that end up in the wheel, by Debian's packages.
PACKAGES = ["libeigen3-dev", "libfmt-dev", "libgomp1", "libhdf5-dev", "libint2-dev",
            "nlohmann-json3-dev", "zlib1g-dev"]


def texts():
    wanted = set()
    for package in PACKAGES:
        path = pathlib.Path("/usr/share/doc") / package / "copyright"
        if not path.exists():
            sys.exit(f"wheel_licences: {path} is missing, with which the wheel would have to come")
        text = path.read_text(errors="replace")
        yield f"{package}.txt", text
        wanted.update(re.findall(r"/usr/share/common-licenses/([A-Za-z]+-[0-9][0-9.]*[0-9]|[A-Za-z]+-[0-9])", text))
    # LGPL-3 is what it adds to GPL-3.
    for name in sorted(wanted | {"LGPL-3", "GPL-3"}):
        path = pathlib.Path("/usr/share/common-licenses") / name
        if path.exists():
            yield f"{name}.txt", path.read_text()
    for file in importlib.metadata.files("nanobind") or []:
        if file.name == "LICENSE":
            yield "nanobind.txt", file.read_text()
    for path in pathlib.Path("/usr/local/cuda").glob("EULA.txt"):
        yield "cuda.txt", path.read_text(errors="replace")


def main():
    wheel = pathlib.Path(sys.argv[1])
    with zipfile.ZipFile(wheel) as source:
        entries = {item: source.read(item) for item in source.infolist()}
    record = next(item for item in entries if item.filename.endswith(".dist-info/RECORD"))
    folder = record.filename.rsplit("/", 1)[0] + "/licenses"
    rows = list(csv.reader(io.StringIO(entries.pop(record).decode())))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for item, data in entries.items():
            out.writestr(item, data)
        for name, text in texts():
            data = text.encode()
            out.writestr(f"{folder}/{name}", data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.insert(-1, [f"{folder}/{name}", f"sha256={digest}", str(len(data))])
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows(rows)
        out.writestr(record.filename, lines.getvalue())


main()
