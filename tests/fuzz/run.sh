#!/bin/sh
# Builds the fuzzers with clang (kept in BUILD/fuzz) and runs one of them for a short time from the seeds in corpus/.
# usage: run.sh spec|npy|hdf5|fcidump BUILD [SECONDS]        TESSERA_FUZZ_SECONDS overrides, TESSERA_FUZZ_SEED varies the run
set -eu
name=$1 build=$2 seconds=${TESSERA_FUZZ_SECONDS:-${3:-10}}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$build/fuzz

if ! command -v clang++ >/dev/null 2>&1; then
    echo "SKIPPED: clang++ is not installed (Debian: clang, libclang-rt-14-dev)"
    exit 77
fi
mkdir -p "$out"
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer,address - -o "$out/probe-$name" 2>"$out/probe-$name.log"; then
    echo "SKIPPED: clang++ has no libFuzzer here (Debian: libclang-rt-14-dev)"
    exit 77
fi

# One build serves all; tests may run side by side.
(
    flock 9
    { cmake -S "$root" -B "$out" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ \
        -DTESSERA_FUZZ=ON && cmake --build "$out" --parallel; } >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
) 9>"$out/lock"

corpus=$(mktemp -d "$out/corpus-$name-XXXXXX")
trap 'rm -rf "$corpus"' EXIT
# HDF5 1.10 loses memory of its own on files it refuses; leaks are looked for where it takes no part.
[ "$name" != hdf5 ] || export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
"$out/${name}_fuzz" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1000 -max_len=4096 \
    -seed="${TESSERA_FUZZ_SEED:-1}" -print_final_stats=1 -verbosity=1 -artifact_prefix="$out/$name-" \
    "$corpus" "$here/corpus/$name" >"$out/$name.log" 2>&1 || { tail -60 "$out/$name.log"; exit 1; }
grep -E "stat::number_of_executed_units|stat::new_units_added|stat::peak_rss_mb" "$out/$name.log"
