#!/bin/sh
# SPDX-License-Identifier: MIT
# sanitize.sh [address|thread]: the test suite under AddressSanitizer + UndefinedBehaviorSanitizer, and the threaded tests under ThreadSanitizer.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
what=${1:-all}

# Vulkan drivers leak a little when they are closed. Only the Vulkan tests see one, without the search for leaks: they count what we allocate
# themselves, and the validation layer counts the objects.
export VK_DRIVER_FILES=/nonexistent

run() {
    build=$top/build-$1
    cmake -S "$top" -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DESPALIER_SANITIZE="$2" -DESPALIER_UNIT_TESTS=ON >/dev/null
    cmake --build "$build" >"$build/build.log" 2>&1 || { tail -40 "$build/build.log"; exit 1; }
    (cd "$build" && ctest --output-on-failure --no-tests=error "$3" "$4" "$5" "$6")
}
[ "$what" = thread ] || run asan address,undefined -E '^repro|cli_examples|math_vectors|kernels_(generic|avx2)|install|headers' -j 2
[ "$what" = address ] || run tsan thread -R 'unit_base_threads|two_contexts|unit_models|unit_resize' -j 1
