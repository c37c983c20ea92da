#!/bin/sh
# Makes the CPU results of bench/results/ anew: one run of each, on a build of a clean commit and a quiet machine.
# usage: cpu_results.sh [part...]     parts: run sparse transpose (default: all). About 20 minutes on two cores.
# Each program runs for less than about a minute and a half; the transpose sample is joined from such pieces.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- run sparse transpose
out=bench/results
for part in "$@"; do
    case $part in
    run)
        for problem in blocks:24,640,0.3 blocks:60,256,0.3 alkane:9:v1 alkane:40:v3:min; do
            build/tessera run "$problem" --json --check 2 >"$out/run-$(echo "$problem" | tr ':,' '--').json"
        done
        ;;
    sparse)
        build/tessera bench sparse --part blocks --peers --json >"$out/sparse-blocks-2cores.json"
        build/tessera bench sparse --part permuted --json >"$out/sparse-permuted-2cores.json"
        ;;
    transpose)
        file=$out/transpose-cpu-random.json
        rm -f "$file"
        for volume in 37e6 77e6 141e6; do
            for rank in 2 3 4 5 6 7 8 15; do
                build/bench/transpose_bench --volume $volume --rank $rank --repeats 2 --join --output "$file" >/dev/null
            done
        done
        build/bench/transpose_bench --reverse --repeats 2 --output "$out/transpose-cpu-reverse.json" >/dev/null
        ;;
    *)
        echo "cpu_results: no part '$part'; there are run, sparse, transpose" >&2
        exit 2
        ;;
    esac
done
