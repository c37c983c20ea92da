#!/bin/sh
# The tests of Python on a GPU, from a wheel with the kernels (CUDA=1 make wheel), on a machine without a network: the
# folder has NumPy and pytest beside it. CuPy and PyTorch are tried where that machine has them.
# usage: python_device.sh pack FOLDER WHEEL...     then, there:     python_device.sh test FOLDER
set -eu
[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
what=$1 folder=$2
shift 2
here=$(cd "$(dirname "$0")/.." && pwd)
case $what in
    pack)
        rm -rf "$folder"
        python3 -m pip install --quiet --disable-pip-version-check --target "$folder" numpy pytest "$@"
        find "$folder" -name tests -type d -prune -exec rm -rf {} +
        find "$folder" -name __pycache__ -type d -prune -exec rm -rf {} +
        du -sh "$folder"
        ;;
    test)
        # Its own NumPy where that has one (PyTorch was made with it).
        export PYTHONPATH="$folder" PYTHONDONTWRITEBYTECODE=1
        python3 -c 'import tessera, sys; print("tessera", tessera.__version__, "CUDA", tessera._core.built_cuda, "Python", sys.version.split()[0])'
        for library in torch cupy; do
            python3 -c "import $library; print('$library', $library.__version__)" 2> /dev/null || echo "$library: none here"
        done
        python3 -m pytest -q -p no:cacheprovider "$here/python/bridges/test_devices.py" -rs
        ;;
    *) sed -n '2,4s/^# //p' "$0"; exit 2 ;;
esac
