#!/bin/sh
# The fused triples on a CUDA device: tests, the table, and compute-sanitizer on small sizes.
# usage: triples_device.sh PROGRAM-DIRECTORY OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run]
# Programs are PROGRAM-DIRECTORY/{cuda_triples_test,triples_bench}; with a prefix: `prefix NAME`.
set -u
programs=$1
out=$2
prefix=${3:-}
go() {
    name=$1
    shift
    if [ -n "$prefix" ]; then "$prefix" "$name" "$@"; else "$programs/$name" "$@"; fi
}
mkdir -p "$out"
timeout 120 sh -c 'nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv' > "$out/machine.txt" 2>&1

# Machines without a CUDA toolkit on the loader's path may still have cuBLAS beside their Python packages.
for library in /usr/local/cuda/lib64/libcublas.so.1? $(find / -xdev -name 'libcublas.so.1?' 2>/dev/null | head -3); do
    [ -e "$library" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")" && export LD_LIBRARY_PATH && break
done

( go cuda_triples_test ) > "$out/triples_test.log" 2>&1
echo "tests: status $?"
tail -6 "$out/triples_test.log"
grep -A6 Failure "$out/triples_test.log" | head -60

( go triples_bench --device 0 --output "$out/triples.json" ) > /dev/null 2> "$out/triples_bench.log"
echo "bench: status $?"
cat "$out/triples_bench.log"

if command -v compute-sanitizer > /dev/null && [ "${TESSERA_SANITIZER:-1}" = 1 ]; then
    run=$programs/cuda_triples_test
    [ -n "$prefix" ] && run="$prefix cuda_triples_test"
    for tool in memcheck racecheck; do
        # shellcheck disable=SC2086
        timeout 150 compute-sanitizer --tool $tool --target-processes all $run --gtest_filter='*EighteenTerms*:*EnergiesMatch*:*ClosedShell*:*Walk*' \
            > "$out/triples_$tool.log" 2>&1
        echo "$tool: status $?: $(tail -1 "$out/triples_$tool.log")"
    done
fi
exit 0
