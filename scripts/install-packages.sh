#!/bin/sh
# Installs the Debian packages of scripts/packages.txt that are missing, and says how far it is.
# usage: install-packages.sh [group...]     (default: build test)
# TESSERA_TIMES=FILE: appends a line "download SECONDS" and one "install SECONDS" to it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- build test
wanted=$(awk -v groups=" $* " '!/^#/ && NF && index(groups, " " $2 " ") {print $1}' "$here/packages.txt")

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    echo "install-packages: no apt here; install the equivalents of these Debian packages yourself:" >&2
    echo "  $(echo $wanted)" >&2
    echo "then build with: cmake --preset release && cmake --build build" >&2
    exit 3
fi

missing=""
for p in $wanted; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

sudo=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "install-packages: not root and no sudo; ask an administrator to run: apt-get install$missing" >&2
        exit 3
    }
    sudo="sudo"
fi
apt() {
    $sudo env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -o Dpkg::Use-Pty=0 "$@" 2>&1 || echo "E: apt-get $1 ended with $?"
}
# Counts lines of apt that begin with one of the words; fails where apt complained.
progress() {  # what, how many, words
    n=0 bad=0
    while read -r line; do
        case ${line%% *} in
            E:*|Err:*) echo "install-packages: $line" >&2; bad=1 ;;
        esac
        for word in $3; do
            case $line in
                "$word"*) n=$((n + 1)); [ $((n % 20)) -ne 0 ] || echo "  $1: $n of $2" >&2 ;;
            esac
        done
    done
    return $bad
}
begin=$(date +%s)
echo "packages: asking the mirror for what there is" >&2
apt update | progress lists 0 ""
total=$(apt-get install -s --no-install-recommends $missing | grep -c '^Inst')
echo "packages: $total to install:$missing and what they need" >&2
apt install -y --no-install-recommends --download-only $missing | progress downloaded "$total" "Get:"
downloaded=$(date +%s)
apt install -y --no-install-recommends $missing | progress "unpacked or set up" $((2 * total)) "Unpacking Setting"
installed=$(date +%s)
echo "packages: downloaded in $((downloaded - begin)) s, installed in $((installed - downloaded)) s" >&2
[ -z "${TESSERA_TIMES:-}" ] || printf 'download %s\ninstall %s\n' $((downloaded - begin)) $((installed - downloaded)) >> "$TESSERA_TIMES"
