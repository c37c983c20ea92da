#!/bin/sh
# Kernels on a CUDA device: for each part its tests, its table, and compute-sanitizer on the small cases.
# usage: kernels_device.sh PROGRAM-DIRECTORY OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run] [parts, e.g. "grouped triples transpose"]
# Programs are PROGRAM-DIRECTORY/{cuda_PART_test,tessera}; with a prefix: `prefix NAME`.
set -u
programs=$1
out=$2
prefix=${3:-}
parts=${4:-grouped triples}
. "$(dirname "$0")/device_common.sh"
# Every program has ten minutes.
go() {
    name=$1
    shift
    if [ -n "$prefix" ]; then timeout -k 5 600 "$prefix" "$name" "$@"; else timeout -k 5 600 "$programs/$name" "$@"; fi
}
failed=0
mkdir -p "$out"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv > "$out/machine.txt" 2>&1
find_cublas
for part in $parts; do
    case $part in
        grouped) small='*SmallCases*:*EmptyLists*:*HashGenerator*' ;;
        triples) small='*EighteenTerms*:*AnyTerms*:*EnergiesMatch*:*ClosedShell*:*Walk*' ;;
        transpose) small='CudaTranspose/*.SmallCases' ;;  # its table: transpose_device.sh
        *) echo "$part: no such part" && exit 2 ;;
    esac
    ( go cuda_${part}_test ) > "$out/${part}_test.log" 2>&1
    status=$?
    [ $status -eq 0 ] || failed=1
    echo "$part tests: status $status"
    tail -6 "$out/${part}_test.log"
    grep -A6 Failure "$out/${part}_test.log" | head -60

    case $part in
        grouped | triples)
            rm -f "$out/$part-h200.json"
            go tessera bench $part --devices 0 --json > "$out/$part.failed" 2> "$out/${part}_bench.log"
            status=$?
            if [ $status -eq 0 ]; then mv "$out/$part.failed" "$out/$part-h200.json"; else failed=1; fi
            echo "$part bench: status $status"
            cat "$out/${part}_bench.log"
            ;;
    esac
    [ "${TESSERA_SANITIZER:-1}" = 1 ] && sanitize "${prefix:-$programs/}" cuda_${part}_test "$small" "$out/$part"
done
[ $failed -eq 0 ] || echo "kernels_device.sh: a part failed"
exit $failed
