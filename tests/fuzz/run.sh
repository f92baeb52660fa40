#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh SECONDS: every libFuzzer target for SECONDS, two at a time, starting from its corpus. Fails on the first finding; what it found lies
# in build-fuzz/findings/.
set -eu
seconds=${1:-60}
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${FUZZ_BUILD:-$top/build-fuzz}

cmake -S "$top" -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release -DESPALIER_FUZZ=ON >/dev/null
targets=$(cd "$top/tests/fuzz" && ls fuzz_*.c | sed 's/\.c$//' | grep -v -e fuzz_common -e fuzz_main)
# shellcheck disable=SC2086
cmake --build "$build" --target $targets >"$build/build.log" 2>&1 || { tail -40 "$build/build.log"; exit 1; }
mkdir -p "$build/findings"

fuzz() {
    name=${1#fuzz_}
    mkdir -p "$build/new/$name"
    if (cd "$build/findings" && "$build/fuzz/$1" -max_total_time="$seconds" -rss_limit_mb=2560 -timeout=20 -print_final_stats=1 \
        "$build/new/$name" "$top/tests/fuzz/corpus/$name" >"$build/$1.log" 2>&1); then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$1.log")
        echo "fuzz: $name: ${seconds} s, $runs runs, no finding"
    else
        echo "fuzz: $name: FINDING"
        tail -60 "$build/$1.log"
        return 1
    fi
}

failed=0
pids=
n=0
for t in $targets; do
    fuzz "$t" &
    pids="$pids $!"
    n=$((n + 1))
    if [ $((n % 2)) = 0 ]; then
        for p in $pids; do wait "$p" || failed=1; done
        pids=
    fi
done
for p in $pids; do wait "$p" || failed=1; done
exit $failed
