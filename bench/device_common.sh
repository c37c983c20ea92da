# What the scripts for CUDA devices share; to be sourced.

# Machines without a CUDA toolkit on the loader's path may still have cuBLAS beside their Python packages.
find_cublas() {
    for library in /usr/local/cuda/lib64/libcublas.so.1? $(find / -xdev -name 'libcublas.so.1?' 2>/dev/null | head -3); do
        [ -e "$library" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")" && export LD_LIBRARY_PATH && break
    done
}

# sanitize PREFIX-OR-FOLDER/ TEST FILTER OUTPUT-STEM [TOOLS]: memcheck (leaks included) and racecheck, each into a file of its own.
# racecheck takes TEST_race where there is one: a build with -DTESSERA_RACECHECK (make bundle RACECHECK=1). The first line of
# each file says which build it was, a tool that ends badly or finds something sets failed=1. MEMCHECK: further options of memcheck. SANITIZER_SECONDS: of each (300).
sanitize() {
    command -v compute-sanitizer > /dev/null || { echo "$2: not checked, no compute-sanitizer here" && return 0; }
    for tool in ${5:-memcheck racecheck}; do
        # A bundle's program is started without its script: the tool has ended in a segmentation fault of its own on the shells.
        case $1 in
            */) folder=$1 libraries= ;;
            *) folder=$(dirname "$1")/bin/ libraries=$(dirname "$1")/lib:$(dirname "$1")/lib-mpi: ;;
        esac
        name=$2
        [ $tool = racecheck ] && [ -x "$folder$2_race" ] && name=$2_race
        more=
        [ $tool = memcheck ] && more="--leak-check full ${MEMCHECK:-}"
        build=$([ "$name" = "$2" ] && echo "with the usual options" || echo "with -DTESSERA_RACECHECK")
        commit=$(cat "$folder../commit" 2> /dev/null || git -C "$(dirname "$0")" describe --always --dirty --abbrev=12 --exclude='*' 2> /dev/null || echo unknown)
        echo "$name, built $build, of commit $commit: compute-sanitizer --tool $tool $more --gtest_filter=$3" > "$4-$tool.txt"
        # shellcheck disable=SC2086
        LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:-} timeout "${SANITIZER_SECONDS:-300}" compute-sanitizer --tool $tool $more --target-processes all \
            "$folder$name" --gtest_filter="$3" >> "$4-$tool.txt" 2>&1
        status=$?
        # The tool itself ends with 0 whatever it found; it sums up each process.
        if [ $status -ne 0 ] || ! grep -q SUMMARY "$4-$tool.txt" || grep SUMMARY "$4-$tool.txt" | grep -qv 'SUMMARY: 0 '; then failed=1; fi
        echo "$name $tool: status $status: $(tail -1 "$4-$tool.txt")$(grep -q '^Aborted' "$4-$tool.txt" && echo ', but a process aborted')"
    done
}
