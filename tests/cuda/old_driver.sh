#!/bin/sh
# A driver that is older than the CUDA runtime of the program: said so, exit code 3, wherever a device is asked for.
# Needs no GPU: the driver's library is played by old_driver.cpp.
# usage: old_driver.sh FOLDER-OF-LIBCUDA PROGRAM
set -u
LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
program=$2
molecule=$(cd "$(dirname "$0")/../../share/molecules" && pwd)/h2o.xyz
failed=0
for arguments in "run dense:64,64,64,64 --devices 0" "run dense:64,64,64,64 --devices 0,0 --memory 1GiB" \
    "energy $molecule --devices 0" "bench transpose --devices 0 --volume 1e6" "bench grouped --devices 0" "bench triples --devices 0"; do
    # shellcheck disable=SC2086
    said=$("$program" $arguments 2>&1 > /dev/null)
    status=$?
    case $status:$said in
        3:*"driver is too old: it supports CUDA 11.0, this program needs"*) ;;
        *) echo "FAILED: $arguments: exit code $status: $said" && failed=1 ;;
    esac
done
"$program" run dense:64,64,64,64 --quiet > /dev/null || { echo "FAILED: the cores do not work with an old driver" && failed=1; }
[ $failed = 0 ] && echo "all passed"
exit $failed
