#!/bin/sh
# A virtual environment with what the Python module needs to be built and tested. Where there can be none it says why in a
# sentence and ends with 77.
# usage: python_env.sh FOLDER [package...]     (packages besides nanobind, numpy and pytest)
set -eu
folder=$1
shift
leave() { echo "Python module: $1; it is left out" >&2; exit 77; }
if ! "$folder/bin/python" -c 'import nanobind, numpy, pytest' 2> /dev/null; then
    found="" why="there is no python3"
    for python in python3 /usr/bin/python3; do
        why=$("$python" - 2>&1 <<'CODE'
import os, sys, sysconfig
if sys.version_info < (3, 10):
    print("Python 3.10 is needed, this is", sys.version.split()[0])
elif not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print("there is no Python.h (Debian: python3-dev)")
else:
    try:
        import ensurepip, venv
    except ImportError:
        print("Python has no venv (Debian: python3-venv)")
CODE
        ) || why="there is no python3"
        if [ -z "$why" ]; then found=$python; break; fi
    done
    [ -n "$found" ] || leave "$why"
    rm -rf "$folder"
    "$found" -m venv "$folder" || leave "no virtual environment could be made in $folder"
fi
install() { "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "$@" >&2; }
"$folder/bin/python" -c 'import nanobind, numpy, pytest' 2> /dev/null || install 'nanobind>=3.1,<4' numpy pytest ||
    leave "pip could not get nanobind, numpy and pytest"
[ $# -eq 0 ] || install "$@" || leave "pip could not get $*"
