# What the scripts for CUDA devices share; to be sourced.

# Machines without a CUDA toolkit on the loader's path may still have cuBLAS beside their Python packages.
find_cublas() {
    for library in /usr/local/cuda/lib64/libcublas.so.1? $(find / -xdev -name 'libcublas.so.1?' 2>/dev/null | head -3); do
        [ -e "$library" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")" && export LD_LIBRARY_PATH && break
    done
}

# sanitize PREFIX-OR-FOLDER/ TEST FILTER OUTPUT-STEM: memcheck and racecheck, each into a file of its own.
sanitize() {
    command -v compute-sanitizer > /dev/null || return 0
    case $1 in
        */) run=$1$2 ;;
        *) run="$1 $2" ;;
    esac
    for tool in memcheck racecheck; do
        # shellcheck disable=SC2086
        timeout 150 compute-sanitizer --tool $tool --target-processes all $run --gtest_filter="$3" > "$4-$tool.txt" 2>&1
        echo "$2 $tool: status $?: $(tail -1 "$4-$tool.txt")"
    done
}
