#!/bin/sh
# The CUDA tests with kernels that compute-sanitizer's racecheck can follow (-DTESSERA_RACECHECK), for scripts/bundle.sh.
# usage: racecheck.sh [build-directory] [jobs]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-racecheck}
cmake --preset racecheck -B "$build" --log-level=WARNING
cmake --build "$build" --parallel "${2:-$(nproc)}" --target cuda_grouped_test cuda_triples_test cuda_transpose_test cuda_execute_test
