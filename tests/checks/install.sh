#!/bin/sh
# Installs into a fresh prefix, then builds and runs examples/abcd, which is the program of the README, against it.
# usage: install.sh SOURCE BUILD
set -eu
source=$1
build=$2
work="$build/install-test"
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
"$work/prefix/bin/tessera" --version > /dev/null
# It finds the machine files that were installed with it.
(cd / && "$work/prefix/bin/tessera" simulate blocks:6,64,0.5 --machine summit --quiet)
# And the basis sets and molecules.
(cd / && "$work/prefix/bin/tessera" energy "$work/prefix/share/tessera/molecules/h2o.xyz" --method mp2 --quiet)

# The README shows exactly this program.
awk '/^```cpp/ {on = 1; next} /^```/ {if (on) exit} on' "$source/README.md" > "$work/readme.cpp"
diff "$work/readme.cpp" "$source/examples/abcd/abcd.cpp" || { echo "the README's program is not examples/abcd/abcd.cpp" >&2; exit 1; }

cmake -S "$source/examples/abcd" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release > "$work/configure.log"
cmake --build "$work/build" > "$work/build.log"
"$work/build/abcd" | tee "$work/output.txt"
grep -Eq "^[0-9.]+ \+- 0; of tile \(2, 1, 0\): -?[0-9.]+$" "$work/output.txt"

# The dense kernels are there for others too.
cmake -S "$source/examples/kernels" -B "$work/kernels" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release > "$work/configure.log"
cmake --build "$work/kernels" > "$work/build.log"
"$work/kernels/kernels" | tee "$work/output.txt"
printf 'b(4, 2, 3) = 118\nt3(0) = 2.5\n|t3|^2 = 1350\n' | diff - "$work/output.txt"
