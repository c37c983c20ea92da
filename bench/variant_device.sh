#!/bin/sh
# A bundle on a device: the CUDA tests (but old_driver), the grouped and the triples table; what of, and how it ended, in tests.txt.
# make bundle: the programs as make builds them. Ends with 1 where one of them failed.
# make bundle-sm80: the kernels as sm_80 runs them (m8n8k4 matrix instructions, no barriers of Hopper's); holds nothing but
# PTX of compute_80, which the driver compiles for the device it finds.
# make cuda12: compiled by clang against CUDA 12.5, whose runtime goes along.
# usage: variant_device.sh OUTPUT-DIRECTORY tessera-bundle/run
set -u
out=$1
prefix=$2
bench=$(dirname "$0")
bin=$(dirname "$prefix")/bin
mkdir -p "$out"
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    echo "commit $(cat "$(dirname "$prefix")/commit")"
    for program in tessera cuda_grouped_test cuda_triples_test cuda_transpose_test cuda_execute_test; do
        echo "$program: $(cuobjdump --list-elf "$bin/$program" 2> /dev/null | grep -c 'ELF file') machine codes; PTX for $(cuobjdump --list-ptx "$bin/$program" 2> /dev/null | sed -n 's/.*\(sm_[0-9a-z]*\)\.ptx/\1/p' | sort | uniq -c | tr -s ' \n' ' ')"
        # ptxas leaves its version, times ten, with every kernel it makes.
        LC_ALL=C grep -aoP '\x04\x37\x04\x00\K.(?=\x00\x00\x00)' "$bin/$program" | od -An -v -tu1 -w2 | sort | uniq -c | awk '{print "    " $1 " kernels by ptxas " $2 / 10}'
        ldd "$bin/$program" | grep -o 'libcudart.so[.0-9]*' | sort -u | sed 's/^/    runtime: /'
    done
    # Compiled once, side by side, and kept by the driver for what follows.
    for part in grouped triples transpose; do "$prefix" cuda_${part}_test --gtest_filter='*SmallCases*:*EighteenTerms*' > /dev/null 2>&1 & done
    wait
    rm -f "$out/failed"
    TESSERA_SANITIZER=0 "$bench/kernels_device.sh" - "$out" "$prefix" "grouped triples transpose" || touch "$out/failed"
    "$bench/gpu_device.sh" "$out" "$prefix" test || touch "$out/failed"
} 2>&1 | tee "$out/tests.txt"
grep -h '^\[  FAILED\|^\[  PASSED\|suites* ran' "$out"/*.log | tee -a "$out/tests.txt"
[ ! -e "$out/failed" ]
