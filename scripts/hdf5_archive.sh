#!/bin/sh
# HDF5 as an archive that a shared library can hold, from Debian's source, into FOLDER (include, lib, pkgconfig). Debian's
# own archive is no position-independent code, and its shared library brings libcurl and thirty others, for a driver that
# Tessera does not use.
# usage: hdf5_archive.sh FOLDER [JOBS]
set -eu
[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0"; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
jobs=${2:-$(nproc)}
[ ! -e "$folder/pkgconfig/hdf5-serial.pc" ] || exit 0
. /etc/os-release
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v s="$VERSION_CODENAME" '$2 == s {print $1; exit}')
[ -n "$mirror" ] || { echo "hdf5_archive: this machine's apt knows no mirror of $VERSION_CODENAME" >&2; exit 3; }
rm -rf "$folder/source"
mkdir -p "$folder/source/lists/partial" "$folder/source/cache/archives/partial" "$folder/source/tree"
cd "$folder/source"
echo "deb-src $mirror $VERSION_CODENAME main" > sources.list
apt() {
    apt-get -q -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$PWD/lists" \
        -o Dir::Cache="$PWD/cache" -o APT::Sandbox::User=root "$@" > apt.log 2>&1 || { cat apt.log >&2; exit 3; }
}
apt update
apt source --download-only hdf5
tar -xf hdf5_*.orig.tar.* -C tree --strip-components=1
cd tree
./configure --prefix="$folder" --disable-shared --with-pic --disable-hl --disable-tools --disable-tests --enable-build-mode=production \
    --with-zlib --without-szlib > ../configure.log 2>&1 || { tail ../configure.log >&2; exit 3; }
make -j "$jobs" -C src > ../make.log 2>&1 && make -C src install >> ../make.log 2>&1 || { tail ../make.log >&2; exit 3; }
mkdir -p "$folder/pkgconfig"
version=$(sed -n 's/^#define H5_VERS_INFO *"HDF5 library version: \(.*\)"/\1/p' "$folder/include/H5public.h")
cat > "$folder/pkgconfig/hdf5-serial.pc" <<END
Name: hdf5-serial
Description: HDF5 as position-independent archive
Version: $version
Cflags: -I$folder/include
Libs: -L$folder/lib -lhdf5 -lz -ldl -lm
END
rm -rf "$folder/source"
