#!/usr/bin/env python3
"""The folders depend on each other only as docs/DESIGN.md says, and foreign headers stay where they belong."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]

# What each folder may use besides itself; "->" of the design page, spelled out.
USES = {
    "base": "",
    "machine": "base",
    "index": "base",
    "shape": "base index",
    "plan": "base index shape machine",
    "simulate": "base index shape machine plan",
    "inspect": "base index shape machine plan simulate",
    "storage": "base index",
    "kernels": "base index storage",
    "comm": "base index storage",
    "device": "base index storage machine kernels comm",
    "probe": "base index storage machine kernels comm device",
}
USES["execute"] = " ".join(USES)
USES["tensor"] = USES["execute"] + " execute"
USES["contract"] = USES["tensor"] + " tensor"
for top in ("matrix", "io", "problems", "chem"):
    USES[top] = USES["contract"] + " contract"
USES["chem"] += " io problems"

FOREIGN = [  # header, where it may stand
    (re.compile(r"(cuda|cublas|nv)[\w/]*\.(h|hpp)$"), re.compile(r"/cuda/")),
    (re.compile(r"^mpi\.h$"), re.compile(r"src/comm/mpi/|include/tessera/comm/mpi\.hpp")),
    (re.compile(r"^hdf5\.h$|^H5\w*\.h$"), re.compile(r"src/io/")),
    (re.compile(r"^png\.h$"), re.compile(r"src/io/")),
    (re.compile(r"^libint2"), re.compile(r"src/chem/")),
    (re.compile(r"^Eigen/"), re.compile(r"src/chem/")),
    (re.compile(r"^CLI/"), re.compile(r"apps/|bench/")),
    (re.compile(r"^nanobind/|^Python\.h$"), re.compile(r"python/")),
]
# A back end is a folder: above it nobody names one, save in comments and in words for people (TESSERA_BUILT_CUDA is
# such words, from the build).
BACK_END = re.compile(r"\b(?!TESSERA_BUILT_CUDA\b)\w*cuda\w*", re.I)
BACK_END_FOLDERS = re.compile(r"/cuda/|/cuda_stub/")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def folder_of(path: pathlib.PurePath) -> str:
    return path.parts[0]


def names_of_back_ends(path: pathlib.PurePath, text: str) -> list[str]:
    if BACK_END_FOLDERS.search(str(path)):
        return []
    included = [name for _, name in INCLUDE.findall(text) if "cuda" in name.lower()]
    return sorted(set(included + BACK_END.findall(NOT_CODE.sub(" ", text))))


def main() -> int:
    bad = []
    for base in ("src", "include", "apps"):
        for path in sorted((root / base).rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".cu", ".cuh"):
                shown = path.relative_to(root)
                bad += [f"{shown}: names a back end, {name}" for name in names_of_back_ends(shown, path.read_text())]
    count = 0
    for base in ("src", "include/tessera"):
        for path in sorted((root / base).rglob("*")):
            if path.suffix not in (".cpp", ".hpp", ".cu", ".cuh"):
                continue
            relative = path.relative_to(root / base)
            if len(relative.parts) == 1:
                continue  # the umbrella header
            here = folder_of(relative)
            shown = path.relative_to(root)
            if here not in USES:
                bad.append(f"{shown}: folder '{here}' is not on the design page")
                continue
            for _, name in INCLUDE.findall(path.read_text()):
                count += 1
                if ".." in name.split("/"):
                    bad.append(f"{shown}: {name} is given by its way there, not from the top")
                target = name.removeprefix("tessera/")
                if "/" not in target or not ((root / "src" / target).exists() or (root / "include/tessera" / target).exists()):
                    for header, place in FOREIGN:
                        if header.search(name) and not place.search(str(shown)):
                            bad.append(f"{shown}: {name} does not belong here")
                    continue
                there = target.split("/")[0]
                if there != here and there not in USES[here].split():
                    bad.append(f"{shown}: '{here}' may not use '{there}' ({name})")
                if base != "src" and not name.startswith("tessera/"):
                    bad.append(f"{shown}: a public header includes the internal {name}")
    # The Python module and the doors for other languages are users: they see the public headers alone.
    for path in sorted(p for door in ("python/src", "c", "tapp") for p in (root / door).glob("*.[ch]*")):
        for kind, name in INCLUDE.findall(path.read_text()):
            count += 1
            own = kind == '"' and (path.parent / name).exists()
            public = name.startswith("tessera/") and (root / "include" / name).exists()
            if not (own or public) and ("/" in name and not name.startswith(("nanobind/", "numpy/")) or kind == '"'):
                bad.append(f"{path.relative_to(root)}: {name} is not public")
    for line in bad:
        print(line)
    if count == 0:
        print("no includes found: the check does not see the sources")
        return 1
    print(f"{count} includes checked, {len(bad)} against the rules")
    return 1 if bad else 0


sys.exit(main())
