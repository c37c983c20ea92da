#!/bin/sh
# The transpose on a CUDA device: the tests, a sweep over tile shapes, then the published sample with the best shape.
# usage: transpose_device.sh PROGRAM-DIRECTORY OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run]
# Programs are PROGRAM-DIRECTORY/{cuda_transpose_test,transpose_bench}; with a prefix: `prefix NAME`.
set -u
programs=$1
out=$2
prefix=${3:-}
commit=${TESSERA_COMMIT:-}
go() {
    name=$1
    shift
    if [ -n "$prefix" ]; then "$prefix" "$name" "$@"; else "$programs/$name" "$@"; fi
}
bench() { go transpose_bench --devices 0 ${commit:+--commit "$commit"} "$@"; }
geomean() { sed -n 's/.*"geomean_of_copy": \([0-9.]*\).*/\1/p' "$1" | tail -1; }
worst() { sed -n 's/.*"worst_of_copy": \([0-9.]*\).*/\1/p' "$1" | tail -1; }
mkdir -p "$out"
tmp=$(mktemp -d)

go cuda_transpose_test > "$out/test.log" 2>&1
status=$?
tail -4 "$out/test.log"
[ $status -eq 0 ] || { grep -B2 -A12 Failure "$out/test.log" | head -60; exit $status; }

echo "variant (threads x elements x stages : run bytes : row bytes : waves : 16-byte accesses)  geomean  worst" | tee "$out/sweep.txt"
best=0
for variant in ${TESSERA_VARIANTS:-1024x8x2 1024x8x2:256:0:0:0 1024x8x2:512 1024x8x2:256:512 768x8x2 768x8x2:256:0:0:0 \
    512x16x2 512x8x1 512x8x1:256:512 256x8x1 1024x8x2:256:0:4 512x8x1:256:512:4}; do
    bench --volume 141e6 --samples 1 --rank 2 3 4 5 6 7 8 --no-scatter --seed 7 --variant "$variant" --output "$tmp/v.json" > /dev/null 2> "$tmp/v.err" ||
        { echo "$variant failed: $(tail -1 "$tmp/v.err")" | tee -a "$out/sweep.txt"; continue; }
    echo "$variant $(geomean "$tmp/v.json") $(worst "$tmp/v.json")" | tee -a "$out/sweep.txt"
done
best=$(grep -v -e variant -e failed "$out/sweep.txt" | sort -k2,2 -g | tail -1 | cut -d' ' -f1)
echo "best: $best"
bench --variant "$best" --output "$out/transpose_random.json" > /dev/null 2> "$out/random.log"
bench --variant "$best" --reverse --output "$out/transpose_reverse.json" > /dev/null 2> "$out/reverse.log"
bench --volume 141e6 --output "$out/transpose_default_141.json" > /dev/null 2>&1
grep 141e6 "$out/random.log" "$out/reverse.log" | sed 's/.*log://'
for f in random reverse; do echo "$f: geomean $(geomean "$out/transpose_$f.json") worst $(worst "$out/transpose_$f.json")"; done
