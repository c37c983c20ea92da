#!/bin/sh
# What more cores give: `tessera bench threads` on 1, 2, 8, 16 threads, and `tessera run` on all cores, AVX-512 and AVX2. About a minute.
# usage: threads.sh OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run]     Without a prefix: the programs of build/.
set -u
out=$1
prefix=${2:-}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
failed=0
# into NAME SECONDS PROGRAM ARGUMENTS...: its output becomes NAME.json, what it says NAME.log.
into() {
    name=$1 most=$2 program=$3
    shift 3
    if [ -n "$prefix" ]; then set -- "$prefix" "$program" "$@"; else set -- "$here/build/$program" "$@"; fi
    timeout "$most" "$@" > "$out/$name.json" 2> "$out/$name.log" || { failed=1; echo "$name: status $?: $(tail -1 "$out/$name.log")"; }
}
{ lscpu; nproc; cat "$here/commit" 2> /dev/null || git -C "$here" describe --always --dirty --abbrev=12 --exclude='*'; } > "$out/machine.txt" 2>&1
into threads 40 tessera-bench threads --counts 1,2,8,16 --repeats "${REPEATS:-2}" --json --quiet
for isa in avx512 avx2; do
    for problem in blocks:24,640,0.3 alkane:9:v1; do
        TESSERA_ISA=$isa into "run-$(echo "$problem" | tr ':,' '--')-$isa" 15 tessera run "$problem" --json --quiet --check 1
    done
done
exit $failed
