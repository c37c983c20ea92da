#!/bin/sh
# Installs the Debian packages of scripts/packages.txt that are missing.
# usage: install-packages.sh [group...]     (default: build test)
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
echo "install-packages: installing$missing" >&2
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
