#!/bin/sh
# The first minutes of a new user: times `make demo` and `make test` in a chroot of bare Debian 12. Needs root and
# debootstrap. The mirror is the one that this machine's apt uses. What make says of its times stands at the end.
# usage: scripts/bare_debian.sh FOLDER [demo|test]...     (FOLDER keeps the bare system; no target: only makes it)
# CPUS=0-1: the cores that are used (default: the first two).
set -eu
[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0"; exit 2; }
[ "$(id -u)" = 0 ] || { echo "bare_debian: must be root, for chroot" >&2; exit 3; }
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
cpus=${CPUS:-0-1}
suite=bookworm
main=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | awk -v s=$suite '$2 == s {print $1; exit}')
security=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | awk -v s=$suite-security '$2 == s {print $1; exit}')
[ -n "$main" ] || { echo "bare_debian: this machine's apt knows no mirror of $suite" >&2; exit 3; }

if ! [ -e "$folder/bare/ready" ]; then
    command -v debootstrap > /dev/null || { echo "bare_debian: there is no debootstrap (Debian: debootstrap)" >&2; exit 3; }
    rm -rf "$folder/bare"
    # make, which the command itself is, and certificates, without which some mirrors give nothing.
    debootstrap --variant=minbase --include=make,ca-certificates "$suite" "$folder/bare" "$main" > "$folder/debootstrap.log"
    {
        echo "deb $main $suite main"
        [ -z "$security" ] || echo "deb $security $suite-security main"
    } > "$folder/bare/etc/apt/sources.list"
    rm -rf "$folder/bare/var/cache/apt/archives/"*.deb "$folder/bare/var/lib/apt/lists/"*
    touch "$folder/bare/ready"
fi
[ $# -gt 0 ] || { echo "$folder/bare: a bare Debian"; exit 0; }

timed=$folder/timed
leave() {
    for place in dev/shm dev sys proc; do
        ! mountpoint -q "$timed/$place" || umount "$timed/$place"
    done
}
trap leave EXIT
trap "exit 1" INT TERM
leave
rm -rf --one-file-system "$timed"  # never into a /dev that could not be unmounted
cp -a "$folder/bare" "$timed"
cp /etc/resolv.conf /etc/hosts "$timed/etc/"  # mpirun waits seconds for each rank where the host has no name
mkdir -p "$timed/tessera"
git -C "$source" archive HEAD | tar -x -C "$timed/tessera"
mount -t proc proc "$timed/proc"
mount -t sysfs -o ro sysfs "$timed/sys"
mount --bind /dev "$timed/dev"
mount --make-private "$timed/dev"
mount --bind /dev/shm "$timed/dev/shm"  # which ranks use
echo "commit $(git -C "$source" describe --always --abbrev=12 --exclude='*'), cores $cpus, load before: $(cut -d' ' -f1 /proc/loadavg)"
for target in "$@"; do
    start=$(date +%s)
    rc=0
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C taskset -c "$cpus" \
        chroot "$timed" make -C /tessera "$target" > "$folder/$target.log" 2>&1 || rc=$?
    grep '^times: ' "$folder/$target.log" || true
    echo "make $target: $(($(date +%s) - start)) s in all, ended with $rc (log: $folder/$target.log)"
    [ $rc = 0 ] || exit $rc
done
