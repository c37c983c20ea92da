#!/bin/sh
# The program on a CUDA device: the cores' results, and what goes wrong with its message and exit code.
# usage: [MOLECULES=share/molecules] command_line.sh PROGRAM [arguments before the command]
set -u
share=$(cd "$(dirname "$0")/../../share" && pwd)
molecules=${MOLECULES:-$([ -d "$share/molecules" ] && echo "$share/molecules" || echo "$share/tessera/molecules")}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$@" run dense:64,64,64,64 --devices 0 --quiet > /dev/null 2> "$out/first" || {
    grep -q 'no NVIDIA driver\|has no device\|no CUDA back end' "$out/first" && echo "SKIPPED: no CUDA device" && exit 77
    cat "$out/first"
    exit 1
}
failed=0
wrong() {
    echo "FAILED: $*"
    failed=1
}
field() { tr -d ' \n' < "$2" | sed "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/"; }
close() {  # within 1e-9 of each other
    python3 -c "import sys; sys.exit(abs(float('$1') - float('$2')) > 1e-9)" 2> /dev/null
}

for molecule in h2o n2; do
    xyz=$molecules/$molecule.xyz
    "$@" energy "$xyz" --json > "$out/cores" 2> "$out/log" || wrong "energy $molecule: $(cat "$out/log")"
    "$@" energy "$xyz" --devices 0 --json > "$out/device" 2> "$out/log" || wrong "energy $molecule --devices 0: $(cat "$out/log")"
    close "$(field total "$out/cores")" "$(field total "$out/device")" ||
        wrong "energy $molecule: cores $(field total "$out/cores"), device $(field total "$out/device")"
done

# The same checksum for any budget and number of devices, and on the cores.
for problem in blocks:12,64,0.4 alkane:8:v2:min; do
    want=
    for how in "" "--devices 0" "--devices 0 --device-memory 24MiB" "--devices 0,0,0 --device-memory 32MiB"; do
        # shellcheck disable=SC2086
        "$@" run $problem $how --json > "$out/run" 2> "$out/log" || wrong "run $problem $how: $(cat "$out/log")"
        sum=$(field checksum "$out/run")
        [ -z "$want" ] && want=$sum
        [ "$sum" = "$want" ] || wrong "run $problem $how: checksum $sum, was $want"
    done
done

# The same wherever B comes from; what --trace says of the cores is so.
want=
for b in stored host device; do
    "$@" run alkane:8:v2:min --devices 0 --device-memory 24MiB --source-b $b --trace "$out/trace.json" --json > "$out/run" 2> "$out/log" || wrong "--source-b $b: $(cat "$out/log")"
    sum=$(field checksum "$out/run")
    [ -z "$want" ] && want=$sum
    [ "$sum" = "$want" ] || wrong "--source-b $b: checksum $sum, was $want"
    made=$(field make "$out/run")
    [ "$b:$made" != host:0.0 ] && { [ $b = host ] || [ "$made" = 0.0 ]; } || wrong "--source-b $b: cores made tiles for $made s"
done

# contract takes files, has the cores' bits, and is held against the device's rate.
python3 - "$out/a.npy" <<'WRITE'
import array, sys
head = "{'descr': '<f8', 'fortran_order': False, 'shape': (500, 500), }"
head += " " * (-(len(head) + 11) % 64) + "\n"
values = array.array("d", (((i * 7919) % 1009) / 1009 - 0.5 for i in range(250000)))
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values.tobytes())
WRITE
want=
for how in "" "--devices 0"; do
    # shellcheck disable=SC2086
    "$@" contract 'ik,kj->ij' --a "$out/a.npy" --b "$out/a.npy" --tile 96 --out "$out/c.npy" $how --json > "$out/run" 2> "$out/log" || wrong "contract $how: $(cat "$out/log")"
    sum=$(field checksum "$out/run")
    [ -z "$want" ] && want=$sum
    [ "$sum" = "$want" ] || wrong "contract $how: checksum $sum, was $want"
    rate=$(field gemm_gflops "$out/run")
    if [ -n "$how" ]; then
        grep -q '"device_names"' "$out/run" || wrong "contract $how --json names no device: $(cat "$out/run")"
        "$@" run dense:64,64,64,64 $how --json > "$out/other" 2> "$out/log"  # takes the same rate
        awk -v x="$rate" -v y="$(field gemm_gflops "$out/other")" 'BEGIN { exit !(x + 0 > 0.7 * y && 0.7 * x < y + 0) }' ||
            wrong "contract $how: a DGEMM rate of $rate, of run $(field gemm_gflops "$out/other")"
    fi
done

# What really ran, in the simulator's lanes: loads, products and stores of the device.
"$@" run blocks:12,64,0.4 --devices 0 --device-memory 24MiB --trace "$out/trace.json" --quiet > /dev/null 2> "$out/log" || wrong "--trace: $(cat "$out/log")"
python3 - "$out/trace.json" <<'CHECK' || wrong "--trace: its lanes or events"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
done = [(lanes[e["tid"]], e["name"].split()[0]) for e in events if e["ph"] == "X" and e["dur"] >= 0]
sys.exit(not {("device 0 from host", "load"), ("device 0", "compute"), ("device 0 to host", "store")} <= set(done))
CHECK

refused() {  # exit code, words of the message, arguments
    code=$1
    words=$2
    shift 2
    "$@" > /dev/null 2> "$out/log"
    status=$?
    [ $status = "$code" ] || wrong "$*: exit code $status, expected $code: $(cat "$out/log")"
    grep -q "$words" "$out/log" || wrong "$*: no '$words' in: $(cat "$out/log")"
}
refused 3 'no device 64' "$@" run blocks:4,8,0.5 --devices 64
refused 3 'no device 99999999999' "$@" run blocks:4,8,0.5 --devices 99999999999
refused 3 'of memory, but' "$@" run blocks:4,8,0.5 --devices 0 --device-memory 8TiB
refused 3 'asked for 2 times' "$@" run blocks:4,8,0.5 --devices 0,0 --device-memory 100GiB
# Before operands are made: their 56 GB take seconds.
begin=$(date +%s)
refused 3 'of memory, but' "$@" run alkane:65:v1 --devices 0 --device-memory 8TiB
[ $(($(date +%s) - begin)) -le 4 ] || wrong "a budget above the card is refused after $(($(date +%s) - begin)) s"
refused 3 'host memory' "$@" run alkane:100:v1 --devices 0 --source-b stored
refused 3 'host memory' "$@" run alkane:100:v1 --devices 0 --source-b stored --device-memory 16GiB
refused 2 'nonexist' "$@" run dense:64,64,64,64 --devices 0 --trace /nonexist/x.json
# One result tile with more thread blocks' shares than the descriptor memory holds, and one that nothing can describe.
"$@" run dense:80000000,1,1,80000000 --devices 0 --json > "$out/run" 2> "$out/log" || wrong "a long tile: $(cat "$out/log")"
"$@" run dense:80000000,1,1,80000000 --json > "$out/cores" 2> "$out/log" || wrong "a long tile on the cores: $(cat "$out/log")"
[ "$(field checksum "$out/run")" = "$(field checksum "$out/cores")" ] || wrong "a long tile: another checksum than on the cores"
refused 2 'use smaller tiles' "$@" run dense:2200000000,1,1,2200000000 --devices 0
refused 3 'too small' "$@" run dense:4096,4096,4096,2048 --devices 0 --device-memory 32MiB
# Someone else holds the card's memory.
on_a_card_with() {  # bytes that are left free, what to run meanwhile
    : > "$out/held"
    python3 -c '
import sys, time, torch
free, total = torch.cuda.mem_get_info()
x = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", flush=True)
time.sleep(60)' "$1" > "$out/held" &
    holder=$!
    shift
    for _ in $(seq 100); do [ -s "$out/held" ] && break; sleep 0.2; done
    "$@"
    kill $holder
    wait $holder 2> /dev/null
}
small_run() {  # no room for the DGEMM rate, but for the contraction
    "$@" run blocks:12,64,0.4 --devices 0 --device-memory 24MiB --json > "$out/run" 2> "$out/log" || wrong "a small run on a full card: $(cat "$out/log")"
    grep -q '"gemm_gflops": null' "$out/run" || wrong "a DGEMM rate on a full card: $(cat "$out/run")"
}
if [ -n "$(command -v python3)" ] && python3 -c 'import torch' 2> /dev/null; then
    on_a_card_with $((7 << 29)) refused 3 'are free' "$@" run dense:16384,16384,16384,2048 --devices 0 --device-memory 8GiB
    on_a_card_with $((3 << 28)) small_run "$@"
else
    echo "not run: a card that another program has nearly filled (no torch here to do it)"
fi
[ $failed = 0 ] && echo "all passed"
exit $failed
