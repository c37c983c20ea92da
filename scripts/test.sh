#!/bin/sh
# All tests of build/ through CTest. TESSERA_SLOW=1: the slow ones too.
set -eu
cd "$(dirname "$0")/.."
skip="-LE slow"
[ "${TESSERA_SLOW:-0}" = 1 ] && skip=""
exec ctest --test-dir build --output-on-failure --timeout 900 $skip
