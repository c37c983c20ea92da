#!/bin/sh
# One relocatable archive of what was built: the program, the CUDA tests, the benches and the shared libraries they
# need, for machines that have a driver (and cuBLAS, MPI) but none of the Debian packages.
# usage: bundle.sh [build-directory] [archive]     then there: tar xf ARCHIVE && tessera-bundle/run tessera --version
# RACECHECK=1: the tests of build-racecheck (scripts/racecheck.sh) too, as NAME_race.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$here/build}
archive=${2:-$build/tessera-bundle.tar.xz}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/tessera-bundle/bin" "$stage/tessera-bundle/lib"

for program in "$build/tessera" "$build/tessera-bench" "$build"/bench/* "$build"/tests/cuda_*; do
    case $program in */dbcsr_* | */pdgemm_*) continue ;; esac  # peers stay here: DBCSR is GPL
    [ -f "$program" ] && [ -x "$program" ] && cp "$program" "$stage/tessera-bundle/bin/"
done
if [ "${RACECHECK:-0}" = 1 ]; then
    for program in "$here"/build-racecheck/tests/cuda_*; do
        [ -f "$program" ] && [ -x "$program" ] && cp "$program" "$stage/tessera-bundle/bin/$(basename "$program")_race"
    done
fi
# The scripts of the device tables find the rest of the bundle beside themselves.
mkdir -p "$stage/tessera-bundle/bench" "$stage/tessera-bundle/tests/cuda"
cp "$here"/bench/*_device.sh "$here/bench/device_common.sh" "$stage/tessera-bundle/bench/"
cp "$here/tests/cuda/command_line.sh" "$stage/tessera-bundle/tests/cuda/"
mkdir -p "$stage/tessera-bundle/tests/data"
cp "$here"/tests/data/df_energies.json "$stage/tessera-bundle/tests/data/"
git -C "$here" describe --always --dirty --abbrev=12 --exclude='*' > "$stage/tessera-bundle/commit" 2> /dev/null || echo unknown > "$stage/tessera-bundle/commit"
mkdir -p "$stage/tessera-bundle/share/tessera"
cp -r "$here/machines" "$here/share/basis" "$here/share/molecules" "$stage/tessera-bundle/share/tessera/"
strip --strip-unneeded "$stage"/tessera-bundle/bin/* 2>/dev/null || true

# The C library, the driver and the CUDA libraries belong to the machine; everything else goes along. MPI stands apart:
# that of the machine is taken where there is one.
mkdir -p "$stage/tessera-bundle/lib-mpi"
# Opened at run time, so that no program names it: the GEMM rate of the cores.
blas=$(/sbin/ldconfig -p | awk '$1 == "libopenblas.so.0" {print $NF; exit}')
{ echo "libopenblas.so.0 => $blas"; ldd "$stage"/tessera-bundle/bin/* $blas 2>/dev/null; } |
    awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
    while read -r soname path; do
        case $soname in
            libc.so.*|libm.so.*|libdl.so.*|librt.so.*|libpthread.so.*|libresolv.so.*|ld-linux*) continue ;;
            libcudart.so.*) ;;  # of programs that do not have it inside (scripts/cuda12.sh)
            libcuda.so*|libcublas*.so*|libcusolver*.so*|libcusparse*.so*|libcufft*.so*|libcurand*.so*|libnv*.so*) continue ;;
            libmpi*.so*|libopen-*.so*) cp -L "$path" "$stage/tessera-bundle/lib-mpi/$soname"; continue ;;
        esac
        cp -L "$path" "$stage/tessera-bundle/lib/$soname"
        strip --strip-unneeded "$stage/tessera-bundle/lib/$soname" 2>/dev/null || true
    done

# Whatever a machine without the packages would not find is a mistake of the list above.
outside=$(LD_LIBRARY_PATH=$stage/tessera-bundle/lib:$stage/tessera-bundle/lib-mpi ldd "$stage"/tessera-bundle/bin/* 2>/dev/null |
    awk -v root="$stage/" '$2 == "=>" && index($3, root) != 1 {print $1}' | sort -u |
    grep -v -E '^(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^.]*|libcuda|libcublas[A-Za-z]*|libcusolver|libcusparse|libcufft|libcurand|libnv[^.]*)[.]so' || true)
[ -z "$outside" ] || { echo "bundle: libraries that are not in it:" $outside >&2; exit 1; }

cat > "$stage/tessera-bundle/run" <<'RUN'
#!/bin/sh
# usage: run PROGRAM [arguments]: a program of this bundle with the bundle's libraries
root=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [arguments]; programs: $(ls "$root/bin" | tr '\n' ' ')" >&2; exit 2; }
program=$1
shift
libraries=$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LD_LIBRARY_PATH=$libraries ldd "$root/bin/$program" | grep -q 'libmpi.*not found' && libraries=$libraries:$root/lib-mpi
LD_LIBRARY_PATH=$libraries exec "$root/bin/$program" "$@"
RUN
chmod +x "$stage/tessera-bundle/run"
tar -C "$stage" -cf - tessera-bundle | xz -T0 -6 > "$archive"
echo "$archive: $(du -h "$archive" | cut -f1), $(ls "$stage/tessera-bundle/bin" | wc -l) programs"
