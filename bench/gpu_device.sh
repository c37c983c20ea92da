#!/bin/sh
# The contractions of the GPU table on one device: tests first, then the rows in the order of their weight. Every step has
# a time limit of its own, so that one that fails leaves the others their turn.
# usage: gpu_device.sh OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run] [rows, e.g. "test v1 v1_16 v1_000 dense"]
# Programs are build/tessera and build/tests/cuda_*_test beside this script; with a prefix: `prefix NAME`.
set -u
out=$1
prefix=${2:-}
rows=${3:-test v1 v1_16 v1_000 dense synthetic v2 v3 energy simulate sanitizer}
here=$(cd "$(dirname "$0")/.." && pwd)
molecules=$here/share/molecules
[ -d "$molecules" ] || molecules=$here/share/tessera/molecules  # in a bundle
mkdir -p "$out"
go() {
    name=$1
    shift
    case $name in
        mpi_ranks)
            ranks=$1 program=$2
            shift 2
            mpirun --allow-run-as-root --oversubscribe -n "$ranks" ${prefix:-env} "$([ -n "$prefix" ] || echo "$here/build/tests/")$program" "$@"
            return
            ;;
        command_line)
            if [ -n "$prefix" ]; then "$here/tests/cuda/command_line.sh" "$prefix" tessera; else "$here/tests/cuda/command_line.sh" "$here/build/tessera"; fi
            return
            ;;
    esac
    if [ -n "$prefix" ]; then "$prefix" "$name" "$@"; return; fi
    case $name in
        tessera) "$here/build/tessera" "$@" ;;
        *) "$here/build/tests/$name" "$@" ;;
    esac
}
. "$(dirname "$0")/device_common.sh"
find_cublas  # the DGEMM rate that results are held against
# limited SECONDS NAME ARGUMENTS...: a shell function cannot be given to timeout, so the watch is kept here.
limited() {
    limit=$1
    shift
    go "$@" &
    child=$!
    ( sleep "$limit"; kill -9 $child 2>/dev/null ) > /dev/null 2>&1 &
    watch=$!
    wait $child
    status=$?
    kill $watch 2>/dev/null
    return $status
}
run_row() {  # limit, file, arguments of tessera run
    limit=$1
    file=$2
    shift 2
    start=$(date +%s)
    limited "$limit" tessera run "$@" --json > "$out/$file.json" 2> "$out/$file.log"
    echo "$file: status $? after $(($(date +%s) - start)) s: $(tr -d '\n ' < "$out/$file.json" | cut -c1-900) $(tail -2 "$out/$file.log" | cut -c1-300)"
}
for row in $rows; do
    case $row in
        test)
            for name in cuda_execute_test cuda_device_code_test cuda_contract_test cuda_energy_test; do
                limited 150 $name > "$out/$name.log" 2>&1
                echo "$name: status $?: $(tail -1 "$out/$name.log")"
                grep -A4 Failure "$out/$name.log" | head -40
            done
            # Ranks that share the GPU, where the machine can start ranks.
            for name in contract.2 contract.3 energy.2 energy.3; do
                ranks=${name#*.} name=cuda_mpi_${name%.*}
                command -v mpirun > /dev/null || { echo "${name}_test: not run, no mpirun here" && continue; }
                limited 150 mpi_ranks "$ranks" ${name}_test "--gtest_filter=*SameBits*:*IsThatOfOneRank*" > "$out/$name-$ranks.log" 2>&1
                echo "${name}_test on $ranks ranks: status $?: $(tail -1 "$out/$name-$ranks.log")"
                grep -A4 Failure "$out/$name-$ranks.log" | head -40
            done
            # The command line on the device, its errors included.
            MOLECULES=$molecules limited 150 command_line > "$out/command_line.log" 2>&1
            echo "command_line.sh: status $?: $(tail -1 "$out/command_line.log")"
            grep FAILED "$out/command_line.log"
            ;;
        v1) run_row 120 alkane-65-v1 alkane:65:v1 --devices 0 ;;
        v1_16) run_row 120 alkane-65-v1-16GiB alkane:65:v1 --devices 0 --memory 16GiB ;;
        v1_000) run_row 120 alkane-65-v1-000-16GiB alkane:65:v1 --devices 0,0,0 --memory 16GiB ;;
        trace) run_row 120 alkane-65-v1-trace alkane:65:v1 --devices 0 --memory 16GiB --trace "$out/alkane-65-v1.trace.json" ;;
        dense) run_row 120 dense-49152-16GiB dense:49152,49152,49152,1024 --devices 0 --memory 16GiB ;;
        synthetic) run_row 120 synthetic synthetic:48000,96000,96000,0.25 --devices 0 ;;
        v2) run_row 120 alkane-65-v2 alkane:65:v2 --devices 0 ;;
        v3) run_row 120 alkane-65-v3 alkane:65:v3 --devices 0 ;;
        energy)
            for devices in none 0; do
                file=energy-c4h10-devices-$devices
                limited 90 tessera energy "$molecules/c4h10.xyz" --frozen-core --devices $devices --json > "$out/$file.json" 2> "$out/$file.log"
                echo "$file: status $?: $(tr -d '\n ' < "$out/$file.json" | cut -c1-900)"
                sed -i "s|$here/||" "$out/$file.json"  # results name no machine's folders
            done
            ;;
        simulate)
            for problem in alkane:65:v1 "alkane:65:v1 --memory 16GiB" "alkane:65:v1 --memory 16GiB --devices-per-rank 3 --devices-per-gpu 3" "dense:49152,49152,49152,1024 --memory 16GiB" synthetic:48000,96000,96000,0.25 alkane:65:v2 alkane:65:v3; do
                file=simulate-$(echo "$problem" | sed 's/--devices-per-rank 3 --devices-per-gpu 3/000/' | tr -s ':,. ' '-')
                case $problem in *devices-per-rank*) one= ;; *) one="--devices-per-rank 1" ;; esac
                # shellcheck disable=SC2086
                limited 60 tessera simulate $problem --machine this $one --json > "$out/$file.json" 2> "$out/$file.log"
                echo "$file: status $?: $(tr -d '\n ' < "$out/$file.json" | cut -c1-300) $(tail -1 "$out/$file.log")"
            done
            ;;
        sanitizer)
            sanitize "${prefix:-$here/build/tests/}" cuda_execute_test 'CudaExecute/1.Random*:CudaExecuteOnce.Larg*' "$out/execute" racecheck
            sanitize "${prefix:-$here/build/tests/}" cuda_execute_test 'CudaExecute/*.Random*:CudaExecuteOnce.Larg*' "$out/execute" memcheck
            sanitize "${prefix:-$here/build/tests/}" cuda_device_code_test 'CudaDeviceCode.SameBits*:CudaDeviceCode.Contract*' "$out/device-code" memcheck
            # Calls that fail are what these are about: none of them may leak.
            MEMCHECK="--report-api-errors no" sanitize "${prefix:-$here/build/tests/}" cuda_device_code_test 'CudaDeviceCode.WhatItThrows*' "$out/device-code-faults" memcheck
            MEMCHECK="--report-api-errors no" sanitize "${prefix:-$here/build/tests/}" cuda_execute_test 'CudaExecuteOnce.Faults' "$out/execute-faults" memcheck
            ;;
    esac
done
exit 0
