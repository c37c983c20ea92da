#!/bin/sh
# Grouped tile products on a CUDA device: tests, the table, and compute-sanitizer on the small cases.
# usage: grouped_device.sh PROGRAM-DIRECTORY OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run]
# Programs are PROGRAM-DIRECTORY/{cuda_grouped_test,tessera}; with a prefix: `prefix NAME`.
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

# Machines without a CUDA toolkit on the loader's path may still have cuBLAS beside their Python packages.
for library in /usr/local/cuda/lib64/libcublas.so.1? $(find / -xdev -name 'libcublas.so.1?' 2>/dev/null | head -3); do
    [ -e "$library" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")" && export LD_LIBRARY_PATH && break
done

( go cuda_grouped_test ) > "$out/grouped_test.log" 2>&1
echo "tests: status $?"
tail -6 "$out/grouped_test.log"
grep -A6 Failure "$out/grouped_test.log" | head -60

( go tessera bench grouped --device 0 --json ) > "$out/grouped-h200.json" 2> "$out/grouped_bench.log"
echo "bench: status $?"
cat "$out/grouped_bench.log"

if command -v compute-sanitizer > /dev/null && [ "${TESSERA_SANITIZER:-1}" = 1 ]; then
    run=$programs/cuda_grouped_test
    [ -n "$prefix" ] && run="$prefix cuda_grouped_test"
    for tool in memcheck racecheck; do
        # shellcheck disable=SC2086
        timeout 150 compute-sanitizer --tool $tool --target-processes all $run \
            --gtest_filter='*SmallCases*:*EmptyLists*:*Finish*:*HashGenerator*' > "$out/grouped_$tool.txt" 2>&1
        echo "$tool: status $?: $(tail -1 "$out/grouped_$tool.txt")"
    done
fi
exit 0
