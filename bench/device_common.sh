# What the scripts for CUDA devices share; to be sourced.

# Machines without a CUDA toolkit on the loader's path may still have cuBLAS beside their Python packages.
find_cublas() {
    for library in /usr/local/cuda/lib64/libcublas.so.1? $(find / -xdev -name 'libcublas.so.1?' 2>/dev/null | head -3); do
        [ -e "$library" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")" && export LD_LIBRARY_PATH && break
    done
}

# sanitize PREFIX-OR-FOLDER/ TEST FILTER OUTPUT-STEM [TOOLS]: memcheck (leaks included) and racecheck, each into a file of its own.
# racecheck takes TEST_race where there is one: a build with -DTESSERA_RACECHECK. The program itself is started, not the bundle's
# script: the tool would go into every process of that too (ldd, grep), and one of them was seen to abort in it.
sanitize() {
    command -v compute-sanitizer > /dev/null || return 0
    for tool in ${5:-memcheck racecheck}; do
        case $1 in
            */) folder=$1 start=$1 ;;
            *)
                root=$(dirname "$1")
                folder=$root/bin/
                libraries=$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
                LD_LIBRARY_PATH=$libraries ldd "$folder$2" | grep -q 'libmpi.*not found' && libraries=$libraries:$root/lib-mpi
                start="env LD_LIBRARY_PATH=$libraries $folder"
                ;;
        esac
        name=$2
        [ $tool = racecheck ] && [ -x "$folder$2_race" ] && name=$2_race
        more=
        [ $tool = memcheck ] && more="--leak-check full"
        # shellcheck disable=SC2086
        timeout "${SANITIZER_SECONDS:-150}" compute-sanitizer --tool $tool $more --target-processes all $start$name --gtest_filter="$3" > "$4-$tool.txt" 2>&1
        echo "$name $tool: status $?: $(tail -1 "$4-$tool.txt")$(grep -q '^Aborted' "$4-$tool.txt" && echo ', but a process aborted')"
    done
}
