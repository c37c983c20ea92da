#!/bin/sh
# CCSD(T) with fitted integrals of alkanes on one device, from the molecule to the energy, tests first. Every step has a time
# limit of its own.
# usage: energy_device.sh OUTPUT-DIRECTORY [run prefix, e.g. tessera-bundle/run] [rows, e.g. "test c8h18 c12h26 c16h34"]
# Programs are build/tessera and build/tests/cuda_*_test beside this script; with a prefix: `prefix NAME`.
set -u
out=$1
prefix=${2:-}
rows=${3:-test c8h18 c12h26 restart}
here=$(cd "$(dirname "$0")/.." && pwd)
molecules=$here/share/molecules
[ -d "$molecules" ] || molecules=$here/share/tessera/molecules  # in a bundle
mkdir -p "$out"
failed=0
# limited SECONDS NAME ARGUMENTS...
limited() {
    most=$1 what=$2
    shift 2
    if [ -n "$prefix" ]; then set -- "$prefix" "$what" "$@"
    elif [ "$what" = tessera ]; then set -- "$here/build/tessera" "$@"
    else set -- "$here/build/tests/$what" "$@"; fi
    timeout -k 5 "$most" "$@"
}
# energy LIMIT MOLECULE FILE ARGUMENTS...: the log of iterations goes to FILE.log, the result to FILE.json.
energy() {
    most=$1 molecule=$2 file=$3
    shift 3
    limited "$most" tessera energy "$molecules/$molecule.xyz" --integrals df --frozen-core --devices 0 --json "$@" > "$out/$file.json" 2> "$out/$file.log"
    status=$?
    [ $status -eq 0 ] || failed=1
    sed -i "s|$here/||" "$out/$file.json"  # results name no machine's folders
    echo "$file: status $status"
    grep -E "RHF|transformed|CCSD|^ *[0-9]+ +-|\(T\)|%" "$out/$file.log" | tail -40
    grep -E '"(seconds|ccsd|integrals|scf|transform|triples|contractions|total|iterations|peak_bytes|ccsd_lives_there|triples_recorded)"' "$out/$file.json" | tr -d '\n '
    echo
    # What matrix instructions of an H200 do at most, 65 TFLOP/s: the floors of CCSD's iterations and of (T).
    awk -F'[:,]' '/"ccsd"/ && $2 > 1e9 { c = $2 } /"triples"/ && $2 > 1e9 { t = $2 } END { printf "floors at 65 TFLOP/s: CCSD %.2f s, (T) %.2f s, together %.2f s\n", c / 65e12, t / 65e12, (c + t) / 65e12 }' "$out/$file.json"
}
for row in $rows; do
    case $row in
        test)
            for test in cuda_chem_resident_test cuda_resident_test cuda_energy_test; do
                limited 150 $test > "$out/$test.log" 2>&1
                status=$?
                [ $status -eq 0 ] || failed=1
                echo "$test: status $status: $(tail -1 "$out/$test.log")"
                grep -A4 Failure "$out/$test.log" | head -40
            done
            ;;
        c8h18) energy 120 c8h18 energy-df-c8h18 ;;
        c12h26) energy 300 c12h26 energy-df-c12h26 ;;
        c16h34) energy 580 c16h34 energy-df-c16h34 ;;
        restart)  # killed in (T), and started again: the same bits
            rm -f "$out/again.h5" "$out/again.h5.triples"
            energy 120 c8h18 energy-df-c8h18-whole --converge 1e-5 --threads 8
            if [ -n "$prefix" ]; then set -- "$prefix" tessera; else set -- "$here/build/tessera"; fi
            "$@" energy "$molecules/c8h18.xyz" --integrals df --frozen-core --devices 0 --converge 1e-5 --threads 8 --checkpoint "$out/again.h5" > /dev/null 2>&1 &
            killed=$!
            for tenth in $(seq 1200); do
                [ -f "$out/again.h5.triples" ] && break
                kill -0 $killed 2> /dev/null || break
                sleep 0.1
            done
            sleep 0.7
            kill -9 $killed
            wait $killed 2> /dev/null
            [ -f "$out/again.h5.triples" ] && echo "killed with a record" || echo "killed without a record"
            energy 120 c8h18 energy-df-c8h18-again --converge 1e-5 --threads 8 --checkpoint "$out/again.h5"
            first=$(grep '"total"' "$out/energy-df-c8h18-whole.json") second=$(grep '"total"' "$out/energy-df-c8h18-again.json")
            [ "$first" = "$second" ] && echo "restart: the same total, $first" || { echo "restart: $first, then $second"; failed=1; }
            rm -f "$out/again.h5" "$out/again.h5.triples"
            ;;
        *) echo "$row: no such row" >&2 && exit 2 ;;
    esac
done
[ $failed -eq 0 ] || echo "energy_device.sh: a row failed"
exit $failed
