#!/bin/sh
# One program that uses every component, against what install.sh installed: by find_package and by pkg-config; the
# README's program against the shared libraries of the build tree; and an energy against them installed.
# usage: consumers.sh SOURCE BUILD
set -eu
source=$1
build=$2
here=$source/tests/checks/consumer
prefix=$build/install-test/prefix
work=$build/consumers-test
rm -rf "$work"
mkdir -p "$work"
expected() {
    grep -q '^same 1$' "$1" && grep -Eq '^rhf -1\.12[0-9]+$' "$1" || { cat "$1"; exit 1; }
}
cmake -G Ninja -S "$here" -B "$work/found" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release > "$work/configure.log"
cmake --build "$work/found" > "$work/build.log"
TESSERA_SHARE=$prefix/share/tessera "$work/found/consumer" "$work" > "$work/output.txt"
expected "$work/output.txt"

# pkg-config: the object that was just compiled is linked anew, with its flags.
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tessera.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion tessera)" = "$(pkg-config --modversion tessera-core)" ]
g++ $(pkg-config --cflags tessera) -fsyntax-only -x c++ - <<'CODE'
#include <tessera/tessera.hpp>
CODE
g++ "$work/found/CMakeFiles/consumer.dir/all.cpp.o" $(pkg-config --libs tessera) -o "$work/by_pkg_config"
TESSERA_SHARE=$prefix/share/tessera "$work/by_pkg_config" "$work" > "$work/output.txt"
expected "$work/output.txt"
# What `make install PREFIX=` builds finds the shared files of that prefix: the one object file that knows it is compiled
# for this prefix, and takes the place of the archive's.
make -n -C "$source" install PREFIX="$prefix" | grep -q -- "-DCMAKE_INSTALL_PREFIX=$prefix\$"
cmake -G Ninja -S "$source" -B "$work/prefixed" -DCMAKE_INSTALL_PREFIX="$prefix" -DTESSERA_IO=OFF -DTESSERA_CUDA=OFF > "$work/configure.log"
object=src/CMakeFiles/tessera_core_objects.dir/base/shared_data.cpp.o
ninja -C "$work/prefixed" "$object" > "$work/build.log"
g++ "$work/found/CMakeFiles/consumer.dir/all.cpp.o" "$work/prefixed/$object" $(pkg-config --libs tessera) -o "$work/prefixed/consumer"
"$work/prefixed/consumer" "$work" > "$work/output.txt"
expected "$work/output.txt"
# Programs in C, by their compiler and pkg-config alone.
gcc -std=c99 -Wall -Werror $(pkg-config --cflags tessera-c) "$source/examples/c/assemble.c" $(pkg-config --libs tessera-c) -o "$work/c"
"$work/c" | diff - "$build/install-test/assemble.txt"
gcc -std=c99 -Wall -Werror $(pkg-config --cflags tessera-tapp) "$source/examples/tapp/tapp.c" $(pkg-config --libs tessera-tapp) -o "$work/tapp"
"$work/tapp" > /dev/null
! pkg-config --libs tessera-core | grep -iE 'hdf5|int2|png|blas' || { echo "tessera-core.pc names a foreign package" >&2; exit 1; }

# Shared libraries: what the core's users call is to be seen, and the name carries the version.
g++ -O1 "$build/install-test/abcd/CMakeFiles/abcd.dir/abcd.cpp.o" -L"$build/src" -Wl,-Bdynamic -ltessera_core -Wl,-rpath,"$build/src" -o "$work/shared"
readelf -d "$work/shared" | grep -q 'NEEDED.*libtessera_core\.so\.[0-9]*\.[0-9]*\]'
"$work/shared" | diff - "$build/install-test/abcd.txt"
# Installed, outside of the folders that the system looks in, a library finds those that it uses.
cmake --install "$build" --component shared --prefix "$work/shared_prefix" > "$work/install.log"
libraries=$(dirname "$(find "$work/shared_prefix" -name libtessera_chem.so)")
cat > "$work/energy.cpp" <<'CODE'
#include <cstdio>
#include <tessera/chem/energy.hpp>
int main(int, char** argv) {
    using namespace tessera::chem;
    const auto h2 = parse_xyz("2\n\nH 0 0 0\nH 0 0 0.74\n", "h2");
    std::printf("same 1\nrhf %.6f\n", energy(h2, {.method = Method::rhf, .basis_folder = argv[1]}).rhf);
}
CODE
g++ -std=c++20 -I"$prefix/include" "$work/energy.cpp" -L"$libraries" -ltessera_chem -Wl,-rpath,"$libraries" -o "$work/energy"
"$work/energy" "$prefix/share/tessera/basis" > "$work/output.txt"
expected "$work/output.txt"
# Nothing else is to be seen: no kernel, no planner, no pool.
for part in core io chem; do
    nm -DC --defined-only "$build/src/libtessera_$part.so" > "$work/$part.symbols"
    grep -q ' tessera::' "$work/$part.symbols"
    ! grep -E 'tessera::(kernels::cpu|inspect|PagePool|chem::Ccsd|Eigen)' "$work/$part.symbols" || { echo "libtessera_$part.so shows what it should hide" >&2; exit 1; }
done
# The doors show their C functions, all of them and no others.
shown() {
    nm -D --defined-only "$1" | grep ' T ' | sed 's/.* //' | sort
}
shown "$build/tapp/libtessera-tapp.so" > "$work/tapp.symbols"
grep -o 'TAPP_[a-z_]*(' "$source/tapp/tapp.h" | tr -d '(' | sort | diff - "$work/tapp.symbols"
shown "$build/c/libtessera_c.so" > "$work/c.symbols"
grep '^TESSERA_C_API' "$source/include/tessera/tessera.h" | grep -o 'tessera_[a-z_]*(' | tr -d '(' | sort | diff - "$work/c.symbols"
