#!/bin/sh
# Ranks that are started with different arguments say so, what all of them meet is said once; exit code 2; what a node cannot hold is refused, exit code 3. usage: arguments.sh PROGRAM MPIRUN...
program=$1
shift
bad=0
# words of rank 0, words of rank 1, what the message must have
try() {
    first=$1 second=$2 message=$3
    shift 3
    # shellcheck disable=SC2086 # words
    output=$(timeout 60 "$@" -n 1 "$program" $first : -n 1 "$program" $second 2>&1 </dev/null)
    code=$?
    if [ $code -ne 2 ] || ! printf '%s\n' "$output" | grep -q "$message"; then
        echo "'$first' and '$second': exit code $code, not 2, or no '$message' in:"
        printf '%s\n' "$output"
        bad=1
    fi
}
try "run blocks:4,8,0.5" "run blocks:4,8,0.6" "on rank 1 argument 2 is 'blocks:4,8,0.6', on rank 0 argument 2 is 'blocks:4,8,0.5'" "$@"
try "run blocks:4,8,0.5" "run blocks:4,8,0.5 --filter 0.1" "on rank 1 argument 3 is '--filter', on rank 0 there is nothing more" "$@"
try "info" "--version" "on rank 1 argument 1 is '--version', on rank 0 argument 1 is 'info'" "$@"
# words, what the one line must have
alike() {
    words=$1 message=$2
    shift 2
    # shellcheck disable=SC2086 # words
    output=$(timeout 60 "$@" -n 3 "$program" $words 2>&1 </dev/null)
    code=$?
    lines=$(printf '%s\n' "$output" | grep -c '^tessera: ')
    if [ $code -ne 2 ] || [ "$lines" -ne 1 ] || ! printf '%s\n' "$output" | grep -q "^tessera: .*$message"; then
        echo "'$words': exit code $code, not 2, or $lines lines of ours, not 1, or no '$message' in:"
        printf '%s\n' "$output"
        bad=1
    fi
}
xyz=$(mktemp)
trap 'rm -f "$xyz"' EXIT
printf '1\n\nLi 0 0 0\n' >"$xyz"
alike "energy /nonexistent/x.xyz" "/nonexistent/x.xyz" "$@"
alike "energy $xyz" "closed shells" "$@"
alike "energy $xyz --charge 1 --basis 6-31g" "unknown basis '6-31g'" "$@"
alike "energy $xyz --unknown" "unknown" "$@"
# Each of two ranks would find room for its part, the node has none for both.
memory=$("$program" info --json | sed -n 's/.*"memory_bytes": *\([0-9]*\).*/\1/p')
n=$(awk -v memory="$memory" 'BEGIN { print int(sqrt(1.15 * memory / 24)) }')
output=$(timeout 60 "$@" -n 2 "$program" run "dense:$n,$n,$n,$((n / 8))" 2>&1 </dev/null)
code=$?
if [ $code -ne 3 ] || ! printf '%s\n' "$output" | grep -q 'of the ranks there'; then
    echo "dense:$n,$n,$n on two ranks: exit code $code, not 3, or no 'of the ranks there' in:"
    printf '%s\n' "$output"
    bad=1
fi
exit $bad
