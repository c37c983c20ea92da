#!/bin/sh
# A failure on one rank ends all of them within 10 s, with its message and exit code. usage: failure.sh PROGRAM MPIRUN...
program=$1
shift
bad=0
# how, rank, ranks, exit code, message
try() {
    start=$(date +%s)
    output=$(timeout 60 "$@" -n "$ranks" "$program" "$how" "$rank" 2>&1 </dev/null)
    code=$?
    seconds=$(($(date +%s) - start))
    if [ $code -ne "$expected" ] || [ $seconds -gt 10 ] || ! printf '%s\n' "$output" | grep -q "$message"; then
        echo "$how on rank $rank of $ranks: exit code $code, not $expected, or $seconds s, or no '$message' in:"
        printf '%s\n' "$output"
        bad=1
    fi
}
while read -r how rank ranks expected message; do
    [ -n "$how" ] && try "$@"
done <<CASES
none 0 3 0
generator 0 3 2 rank 0: no integrals
generator 2 3 2 rank 2: no integrals
generator 3 6 2 rank 3: no integrals
generator 0 1 2 tessera: no integrals
contract-1 0 3 2 rank 0: no more tiles
contract-1 2 3 2 rank 2: no more tiles
contract-7 1 4 2 rank 1: no more tiles
contract-24 3 6 2 rank 3: no more tiles
contract-5 0 1 2 tessera: no more tiles
stationary_b-1 0 3 2 rank 0: no more tiles
stationary_b-9 2 3 2 rank 2: no more tiles
replicate_b-1 1 3 2 rank 1: no more tiles
replicate_b-40 0 2 2 rank 0: no more tiles
split_k-1 2 3 2 rank 2: no more tiles
split_k-30 1 4 2 rank 1: no more tiles
contract_each-2 1 3 2 rank 1: no more tiles
devices-1000 0 3 0
devices-1 0 3 2 rank 0: no more tiles
devices-1 2 3 2 rank 2: no more tiles
devices-20 1 4 2 rank 1: no more tiles
memory 1 2 3 rank 1: out of memory
machine 1 4 3 rank 1: no disk
bug 1 2 70 rank 1: internal: it cannot be
receive 0 3 2 rank 0: nothing to send
receive 2 3 2 rank 2: nothing to send
machine -1 4 3 rank 0: no disk
exit 1 3 5
CASES
exit $bad
