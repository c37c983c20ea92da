#!/bin/sh
# A rank that is killed while a file is written (signal 9) leaves the old one whole. usage: killed.sh PROGRAM MPIRUN...
program=$1
shift
folder=$(mktemp -d)
bad=0
fail() {
    echo "$1:"
    cat "$folder.log"
    bad=1
}
trap 'rm -rf "$folder" "$folder.log"' EXIT
file=$folder/x.h5
"$@" -n 2 "$program" "$file" write 1 > "$folder.log" 2>&1 < /dev/null || fail "the first file was not written"
# ranks, the one that dies, in which of its writes
while read -r ranks rank nth; do
    name="rank $rank of $ranks, write $nth"
    timeout 60 "$@" -n "$ranks" "$program" "$file" kill 2 "$rank" "$nth" > "$folder.log" 2>&1 < /dev/null
    code=$?
    [ $code -ne 0 ] && [ $code -ne 124 ] || fail "$name: not killed, but ended with $code"
    "$@" -n 3 "$program" "$file" check 1 > "$folder.log" 2>&1 < /dev/null || fail "$name: the old file is not as it was"
    # Between its two names, for the moment of the rename, the new file may be left under the first.
    [ "$nth" -ne 0 ] || rm -f "$folder"/.tessera-*.tmp
    [ "$(ls -A "$folder")" = x.h5 ] || fail "$name: $(ls -A "$folder")"
done <<CASES
1 0 1
2 0 2
2 1 1
3 2 1
4 1 1
1 0 0
3 0 0
CASES
"$@" -n 4 "$program" "$file" write 2 > "$folder.log" 2>&1 < /dev/null || fail "nothing could be written afterwards"
"$@" -n 1 "$program" "$file" check 2 > "$folder.log" 2>&1 < /dev/null || fail "the new file is not the new tensor"
exit $bad
