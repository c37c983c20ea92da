#!/bin/sh
# RI-MP2 on more ranks takes less memory on each, and has the same bits. usage: rank_memory.sh PROGRAM XYZ MPIRUN...
program=$1
molecule=$2
shift 2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
bad=0
before=
field() { sed -n "s/^ *\"$1\": \([-0-9.e+]*\),*$/\1/p" "$out" | head -1; }
for ranks in 1 2 4; do
    "$@" -n $ranks "$program" energy "$molecule" --method ri-mp2 --frozen-core --threads 1 --quiet --json > "$out" 2> /dev/null < /dev/null || {
        echo "$ranks ranks: failed"
        exit 1
    }
    peak=$(field peak_bytes) energies="$(field rhf) $(field mp2)"
    echo "$ranks ranks: $((peak >> 20)) MiB in a process at most, estimate $(($(field memory_estimate) >> 20)) MiB, $(field seconds) s; RHF and MP2 $energies"
    [ -z "$before" ] || [ $((10 * peak)) -le $((9 * before)) ] || bad=1
    [ -z "$before" ] || [ "$energies" = "$first" ] || bad=1
    [ "$(field memory_estimate)" -ge "$peak" ] || bad=1
    [ -n "$before" ] || first=$energies
    before=$peak
done
exit $bad
