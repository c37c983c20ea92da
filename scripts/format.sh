#!/bin/sh
# clang-format over every source file; with --check only says which differ (exit 1).
set -eu
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null 2>&1 || { echo "format: clang-format is not installed" >&2; exit 77; }
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    files=$(git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.c' '*.h')
else
    files=$(find apps bench c examples include python src tapp tests \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.[ch]' \))
fi
if [ "${1:-}" = --check ]; then
    clang-format --dry-run -Werror $files
else
    clang-format -i $files
fi
