#!/bin/sh
# The contractions of the GPU table on one device: tests first, then the rows in the order of their weight. Every step has
# a time limit of its own, so that one that fails leaves the others their turn.
# usage: gpu_device.sh OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run] [rows, e.g. "test v1 v1_16 v1_000 dense"]
# Programs are build/tessera and build/tests/cuda_*_test beside this script; with a prefix: `prefix NAME`.
set -u
out=$1
prefix=${2:-}
rows=${3:-test v1 v1_16 v1_000 trace host dense synthetic v2 v3 purify energy simulate sanitizer}
here=$(cd "$(dirname "$0")/.." && pwd)
molecules=$here/share/molecules
[ -d "$molecules" ] || molecules=$here/share/tessera/molecules  # in a bundle
for row in $rows; do
    case $row in
        test | v1 | v1_16 | v1_000 | trace | host | dense | synthetic | v2 | v3 | purify | energy | simulate | sanitizer) ;;
        *) echo "$row: no such row" >&2 && exit 2 ;;
    esac
done
mkdir -p "$out"
. "$(dirname "$0")/device_common.sh"
find_cublas  # the DGEMM rate that results are held against
failed=0
# limited SECONDS NAME ARGUMENTS...: a program, with all that it started, has this long.
limited() {
    most=$1 what=$2
    shift 2
    case $what in
        mpi_ranks)
            ranks=$1 program=$2
            shift 2
            set -- mpirun --allow-run-as-root --oversubscribe -n "$ranks" "${prefix:-env}" "$([ -n "$prefix" ] || echo "$here/build/tests/")$program" "$@"
            ;;
        command_line) set -- "$here/tests/cuda/command_line.sh" "${prefix:-$here/build/tessera}" ${prefix:+tessera} ;;
        *)
            if [ -n "$prefix" ]; then set -- "$prefix" "$what" "$@"
            elif [ "$what" = tessera ]; then set -- "$here/build/tessera" "$@"
            else set -- "$here/build/tests/$what" "$@"; fi
            ;;
    esac
    timeout -k 5 "$most" "$@"
}
# told STATUS TEXT: prints how it ended, and remembers a failure.
told() {
    [ "$1" -eq 0 ] || failed=1
    echo "$2"
}
# into FILE COMMAND...: its output becomes FILE.json where it succeeds, and FILE.failed where not.
into() {
    file=$1
    shift
    rm -f "$out/$file.json"
    "$@" > "$out/$file.failed" 2> "$out/$file.log"
    status=$?
    [ $status -eq 0 ] && mv "$out/$file.failed" "$out/$file.json"
    return $status
}
shown() { [ ! -f "$out/$1.json" ] || tr -d '\n ' < "$out/$1.json" | cut -c1-"$2"; }
run_row() {  # limit, file, arguments of tessera run
    limit=$1 name=$2
    shift 2
    start=$(date +%s)
    into "$name" limited "$limit" tessera run "$@" --json
    status=$?
    told $status "$name: status $status after $(($(date +%s) - start)) s: $(shown "$name" 900) $(tail -2 "$out/$name.log" | cut -c1-300)"
}
for row in $rows; do
    case $row in
        test)
            for test in cuda_execute_test cuda_device_code_test cuda_contract_test cuda_matrix_devices_test cuda_energy_test; do
                limited 150 $test > "$out/$test.log" 2>&1
                status=$?
                told $status "$test: status $status: $(tail -1 "$out/$test.log")"
                grep -A4 Failure "$out/$test.log" | head -40
            done
            # Ranks that share the GPU, where the machine can start ranks.
            for test in contract.2 contract.3 energy.2 energy.3; do
                number=${test#*.} test=cuda_mpi_${test%.*}
                command -v mpirun > /dev/null || { echo "${test}_test: not run, no mpirun here" && continue; }
                limited 150 mpi_ranks "$number" ${test}_test "--gtest_filter=*SameBits*:*IsThatOfOneRank*" > "$out/$test-$number.log" 2>&1
                status=$?
                told $status "${test}_test on $number ranks: status $status: $(tail -1 "$out/$test-$number.log")"
                grep -A4 Failure "$out/$test-$number.log" | head -40
            done
            # The command line on the device, its errors included.
            export MOLECULES="$molecules"
            limited 150 command_line > "$out/command_line.log" 2>&1
            status=$?
            told $status "command_line.sh: status $status: $(tail -1 "$out/command_line.log")"
            grep FAILED "$out/command_line.log"
            ;;
        v1) run_row 120 alkane-65-v1 alkane:65:v1 --devices 0 ;;
        v1_16) run_row 120 alkane-65-v1-16GiB alkane:65:v1 --devices 0 --device-memory 16GiB ;;
        v1_000) run_row 120 alkane-65-v1-000-16GiB alkane:65:v1 --devices 0,0,0 --device-memory 16GiB ;;
        trace) run_row 120 alkane-65-v1-trace alkane:65:v1 --devices 0 --device-memory 16GiB --trace "$out/alkane-65-v1.trace.json" ;;
        host)  # V made by the device, then by the cores and sent: the same result
            run_row 60 alkane-30-v1 alkane:30:v1 --devices 0
            run_row 60 alkane-30-v1-host alkane:30:v1 --devices 0 --source-b host --trace "$out/alkane-30-v1-host.trace.json"
            sums=$(grep -hs '"checksum"' "$out/alkane-30-v1.json" "$out/alkane-30-v1-host.json" | sort | uniq -c | awk '{print $1}')
            [ "$sums" = 2 ] || told 1 "alkane-30-v1-host: not the checksum of alkane-30-v1"
            into simulate-alkane-30-v1-host limited 60 tessera simulate alkane:30:v1 --machine this --devices-per-rank 1 --source-b host --json
            status=$?
            told $status "$file: status $status: $(shown "$file" 300) $(tail -1 "$out/$file.log")"
            ;;
        dense) run_row 120 dense-49152-16GiB dense:49152,49152,49152,1024 --devices 0 --device-memory 16GiB ;;
        synthetic) run_row 120 synthetic synthetic:48000,96000,96000,0.25 --devices 0 ;;
        v2) run_row 120 alkane-65-v2 alkane:65:v2 --devices 0 ;;
        v3) run_row 120 alkane-65-v3 alkane:65:v3 --devices 0 ;;
        purify)  # a density matrix on the cores and on the device: the same bits; how much of the time is planning
            for tile in 32 64 128; do
                for devices in none 0; do
                    name=purify-50000-$tile-devices-$devices
                    into "$name" limited 90 tessera run "purify:50000,$tile,96,0.4" --devices $devices --json
                    status=$?
                    told $status "$name: status $status: $(python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
h = r["history"]
planned = [s for s in h if s["planned"]]
print("%.2f s, products %.2f, planning %.2f (%.1f %%), %d of %d products planned and %d on devices, %.0f GFLOP/s; checksum %s; a step planned anew spends %.0f %% on it" % (
    r["seconds"], r["time"]["products"], r["time"]["plan"], 100 * r["time"]["plan"] / r["seconds"], r["plans"], r["products"],
    r["device_products"], r["flops"] / r["seconds"] * 1e-9, r["checksum"],
    100 * sum(s["plan_seconds"] for s in planned) / max(1e-9, sum(s["seconds"] for s in planned))))' "$out/$name.json" 2> /dev/null) $(tail -1 "$out/$name.log")"
                done
                sums=$(cat "$out/purify-50000-$tile-devices-none.json" "$out/purify-50000-$tile-devices-0.json" 2> /dev/null | grep '"checksum"' | sort | uniq -c | awk '{print $1}')
                [ "$sums" = 2 ] || told 1 "purify-50000-$tile: the device has not the checksum of the cores"
            done
            ;;
        energy)
            for devices in none 0; do
                into energy-c4h10-devices-$devices limited 90 tessera energy "$molecules/c4h10.xyz" --frozen-core --devices $devices --json
                status=$?
                told $status "$file: status $status: $(shown "$file" 900)"
                [ $status -eq 0 ] && sed -i "s|$here/||" "$out/$file.json"  # results name no machine's folders
            done
            ;;
        simulate)
            for problem in alkane:65:v1 "alkane:65:v1 --device-memory 16GiB" "alkane:65:v1 --device-memory 16GiB --devices-per-rank 3 --devices-per-gpu 3" "dense:49152,49152,49152,1024 --device-memory 16GiB" synthetic:48000,96000,96000,0.25 alkane:65:v2 alkane:65:v3; do
                simulated=simulate-$(echo "$problem" | sed 's/--devices-per-rank 3 --devices-per-gpu 3/000/' | tr -s ':,. ' '-')
                case $problem in *devices-per-rank*) one= ;; *) one="--devices-per-rank 1" ;; esac
                # shellcheck disable=SC2086
                into "$simulated" limited 60 tessera simulate $problem --machine this $one --json
                status=$?
                told $status "$simulated: status $status: $(shown "$simulated" 300) $(tail -1 "$out/$simulated.log")"
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
[ $failed -eq 0 ] || echo "gpu_device.sh: a row failed"
exit $failed
