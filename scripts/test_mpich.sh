#!/bin/sh
# The MPI tests with MPICH, in a build folder of their own. usage: scripts/test_mpich.sh [BUILD_FOLDER]
# Where MPICH is not installed (Debian: libmpich-dev, mpich) it says so and ends with 77, which CTest counts as skipped.
set -e
cd "$(dirname "$0")/.."
build=${1:-build-mpich}
for program in mpicc.mpich mpirun.mpich; do
    if ! command -v "$program" >/dev/null; then
        echo "skipped: there is no $program; install libmpich-dev and mpich"
        exit 77
    fi
done
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTESSERA_MPI=mpich -DTESSERA_CUDA=OFF >/dev/null
cmake --build "$build" -j "$(nproc)" --target mpi_tests
ctest --test-dir "$build" -L mpi --output-on-failure
