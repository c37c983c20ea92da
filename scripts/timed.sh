#!/bin/sh
# `make demo` and `make test`: packages, compiling and running, each with the seconds that it took. A last line that begins
# with "times:" has them all; build/times.txt keeps it for `make help`.
# usage: timed.sh demo|test [JOBS] [cmake options]     TESSERA_SLOW=1: the slow tests too
set -eu
cd "$(dirname "$0")/.."
what=$1 jobs=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))
case $what in
    demo) groups=build target=tessera_program limit=360 compile_limit=240 ;;
    test) groups="build test" target=all limit=900 compile_limit=900 ;;
    *) echo "timed: demo or test, not '$what'" >&2; exit 2 ;;
esac
times=$(mktemp)
trap 'rm -f "$times"' EXIT
begin=$(date +%s)
TESSERA_TIMES=$times scripts/install-packages.sh $groups
if [ "$what" = test ]; then
    if scripts/python_env.sh build/python-env; then
        set -- "$@" -DTESSERA_PYTHON_MODULE=ON -DPython_EXECUTABLE="$PWD/build/python-env/bin/python"
    else
        set -- "$@" -DTESSERA_PYTHON_MODULE=OFF
    fi
fi
compile=$(date +%s)
cmake --preset release --log-level=WARNING "$@" > /dev/null
cmake --build build --parallel "$jobs" --target "$target"
run=$(date +%s)
rc=0
if [ "$what" = demo ]; then
    build/tessera run alkane:30:v3:min --explain || rc=$?
else
    skip="-LE slow|bridges"
    [ "${TESSERA_SLOW:-0}" != 1 ] || skip="-LE bridges"
    ctest --test-dir build --output-on-failure --no-tests=error --timeout 900 --parallel "$jobs" $skip || rc=$?
fi
end=$(date +%s)
packages=$(awk '$1 == "download" {d = $2} $1 == "install" {i = $2} END {if (d != "") printf "packages downloaded in %d s, installed in %d s; ", d, i}' "$times")
line="times: make $what: ${packages}compiled in $((run - compile)) s, run in $((end - run)) s; $((end - begin)) s in all (limits on two cores: $limit s in all, $compile_limit s to compile)"
[ $((end - begin)) -le $limit ] && [ $((run - compile)) -le $compile_limit ] || line="$line WARNING: longer than the limit"
echo "$line"
{ grep -v "^times: make $what:" build/times.txt 2> /dev/null || true; echo "$line"; } > "$times"
cp "$times" build/times.txt
exit $rc
