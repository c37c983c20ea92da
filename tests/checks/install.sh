#!/bin/sh
# Installs into a fresh prefix, BUILD/install-test/prefix, then builds and runs the examples against it: users of the
# core alone, on a machine that has none of the packages of the other components.
# usage: install.sh SOURCE BUILD
set -eu
source=$1
build=$2
work="$build/install-test"
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
"$work/prefix/bin/tessera" --version | tee "$work/version.txt"
grep -Eq '^tessera [0-9.]+, commit [0-9a-z-]+$' "$work/version.txt"
grep -Eq '^built with .*MPI.*, .*CUDA.*; instruction sets scalar, avx2, avx512 \(here: (scalar|avx2|avx512)\)$' "$work/version.txt"
# It finds the machine files that were installed with it.
(cd / && "$work/prefix/bin/tessera" simulate blocks:6,64,0.5 --machine summit --quiet)
# And the basis sets and molecules.
(cd / && "$work/prefix/bin/tessera" energy "$work/prefix/share/tessera/molecules/h2o.xyz" --method mp2 --quiet)

# The README shows exactly this program.
awk '/^```cpp/ {on = 1; next} /^```/ {if (on) exit} on' "$source/README.md" > "$work/readme.cpp"
diff "$work/readme.cpp" "$source/examples/abcd/abcd.cpp" || { echo "the README's program is not examples/abcd/abcd.cpp" >&2; exit 1; }

# Nothing is found of HDF5, libint2, libpng or BLAS.
hidden="-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON -DCMAKE_DISABLE_FIND_PACKAGE_PNG=ON -DCMAKE_DISABLE_FIND_PACKAGE_BLAS=ON -DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON"
for example in abcd kernels assemble tapp; do
    PKG_CONFIG_LIBDIR=/nonexistent cmake --no-warn-unused-cli -G Ninja -S "$source/examples/$example" -B "$work/$example" \
        -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release $hidden > "$work/configure.log"
    cmake --build "$work/$example" > "$work/build.log"
    ninja -C "$work/$example" -t commands "$example" > "$work/$example.commands"
    grep -q tessera_core "$work/$example.commands"
    for foreign in tessera_io tessera_chem hdf5 int2 png blas; do
        ! grep -i "$foreign" "$work/$example.commands" || { echo "a user of the core alone links $foreign" >&2; exit 1; }
        ! readelf -d "$work/$example/$example" | grep -i "NEEDED.*$foreign" || { echo "a user of the core alone needs $foreign" >&2; exit 1; }
    done
done
# The library from C, which has files too.
cmake -G Ninja -S "$source/examples/c" -B "$work/c" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release > "$work/configure.log"
cmake --build "$work/c" > "$work/build.log"
"$work/assemble/assemble" > "$work/assemble.txt"
"$work/c/assemble" | diff - "$work/assemble.txt"
# And from Fortran, where its module was built.
if [ -f "$build/fortran/modules/tessera.mod" ]; then
    cmake -G Ninja -S "$source/examples/fortran" -B "$work/fortran" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release > "$work/configure.log"
    cmake --build "$work/fortran" > "$work/build.log"
    "$work/fortran/three_index" | tee "$work/fortran.txt"
    grep -q '^84 blocks of a' "$work/fortran.txt"
else
    echo "no Fortran module: its example is left out"
fi
"$work/abcd/abcd" | tee "$work/abcd.txt"
grep -Eq "^[0-9.]+ \+- 0; of tile \(2, 1, 0\): -?[0-9.]+$" "$work/abcd.txt"
"$work/assemble/assemble"
"$work/tapp/tapp"
"$work/kernels/kernels" | tee "$work/output.txt"
printf 'b(4, 2, 3) = 118\nt3(0) = 2.5\n|t3|^2 = 1350\n' | diff - "$work/output.txt"
