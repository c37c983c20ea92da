#!/bin/sh
# Tessera inside another project's build, core alone: none of our tests, programs, install rules or warnings come along,
# and none of the packages of other components is asked for.
# usage: subdirectory.sh SOURCE BUILD [full]     (full: compiles the core again and runs the program)
set -eu
source=$1
work=$2/subdirectory-test
rm -rf "$work"
PKG_CONFIG_LIBDIR=/nonexistent cmake --no-warn-unused-cli -G Ninja -S "$source/tests/checks/consumer" -B "$work" -DTESSERA_SOURCE="$source" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON -DCMAKE_DISABLE_FIND_PACKAGE_BLAS=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON > "$2/subdirectory-test.log"
ninja -C "$work" -t commands > "$work/commands.txt"
grep -q 'libtessera_core\.a' "$work/commands.txt"
for foreign in -Werror tessera_io tessera_chem tessera_program gtest hdf5 int2 png blas; do
    ! grep -e "$foreign" "$work/commands.txt" || { echo "another project's build gets $foreign" >&2; exit 1; }
done
cmake --install "$work" --prefix "$work/prefix" > /dev/null 2>&1 || true
! [ -e "$work/prefix" ] || { echo "another project's install gets files of ours: $(find "$work/prefix" -type f | head -3)" >&2; exit 1; }
# Our own headers reach the consumer.
object=$(ninja -C "$work" -t targets all | grep -o '^[^ ]*abcd\.cpp\.o')
cmake --build "$work" --target "$object" > "$work/build.log" || { cat "$work/build.log"; exit 1; }
[ "${3:-}" = full ] || exit 0
cmake --build "$work" --parallel > "$work/build.log" || { tail -50 "$work/build.log"; exit 1; }
"$work/consumer"
