#!/bin/sh
# What more cores give: `tessera bench threads` on 1, 2, 8 and 16 threads, and `tessera bench run` on all cores, with AVX-512
# and with AVX2. About a minute.
# usage: threads.sh OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run]     Without a prefix: the program of build/.
set -u
out=$1
prefix=${2:-}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
failed=0
# into NAME SECONDS ARGUMENTS...: what tessera-bench prints becomes NAME.json, what it says NAME.log.
into() {
    name=$1 most=$2
    shift 2
    if [ -n "$prefix" ]; then set -- "$prefix" tessera-bench "$@"; else set -- "$here/build/tessera-bench" "$@"; fi
    timeout "$most" "$@" --json > "$out/$name.json" 2> "$out/$name.log" || { failed=1 && echo "$name: $(tail -1 "$out/$name.log")"; }
}
{ lscpu && nproc && if [ -f "$here/commit" ]; then cat "$here/commit"; else git -C "$here" describe --always --dirty --abbrev=12 --exclude='*'; fi; } > "$out/machine.txt" 2>&1
for isa in avx512 avx2; do
    export TESSERA_ISA=$isa
    into "threads-$isa" "${LIMIT:-120}" threads --counts 1,2,8,16 --repeats $([ $isa = avx512 ] && echo 2 || echo 1)
    into "run-$isa" "${LIMIT:-120}" run --repeats 3
done
exit $failed
