#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh BUILD GROUP: the same model files, picture and seed give the same bits, whatever computes them. Every line that repro_hash and
# repro_matte print must stand in expected.txt. Groups: models levels threads budget layouts tiny vulkan compiler old_cpu aarch64, and aarch64_kernels, which
# compares the NEON kernels with the plain ones under the emulator; what cannot run here is said to be skipped (exit 77 when that is the
# whole group). "update" writes expected.txt anew, with the plain C kernels: do that, and raise ESPALIER_ARITHMETIC_VERSION, when results
# are meant to change.
set -eu

build=$(cd "$1" && pwd)
group=$2
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
expected=$here/expected.txt
hash=$build/tests/repro_hash
matte=$build/tests/repro_matte
hf=$build/tests/micro-hf
gguf=$build/tests/micro-gguf
mattes=$build/tests/micro-matting
tiny=$top/models/tiny
rocket=$tiny/examples/rocket_1.png
scratch=$build/tests/repro-$group
matting_networks=birefnet-micro,isnet-micro,u2netp-micro
failures=0
checks=0

# ---- comparing

# Which hash of a line differs first from the expected line of the same label and pipeline.
first_difference() {
    wanted=$(grep -F "$(echo "$1" | cut -d' ' -f1,2) " "$expected") || { echo "no such line in expected.txt"; return; }
    for word in $1; do
        case " $wanted " in *" $word "*) ;; *) echo "$word differs"; return ;; esac
    done
}

# check WHAT COMMAND...: run it and look its lines up. Returns the command's status; a difference counts as a failure.
check() {
    checking=$1
    shift
    status=0
    "$@" >"$scratch.out" 2>"$scratch.err" || status=$?
    [ "$status" = 0 ] || return "$status"
    [ -s "$scratch.out" ] || { echo "FAILED $checking: no output"; failures=$((failures + 1)); return 0; }
    while read -r line; do
        checks=$((checks + 1))
        grep -Fxq -e "$line" "$expected" && continue
        echo "FAILED $checking: $(echo "$line" | cut -d' ' -f1,2): $(first_difference "$line")"
        failures=$((failures + 1))
    done <"$scratch.out"
    echo "$checking: $(wc -l <"$scratch.out") lines compared"
}

must() {
    check "$@" && return 0
    echo "FAILED $1: $(cat "$scratch.err")"
    failures=$((failures + 1))
}

skip_group() {
    echo "SKIPPED $group: $1"
    exit 77
}

# ---- groups

levels() {
    "$hash" --list-levels >"$scratch.levels"
    for level in generic generic-fma avx2 avx512 neon; do
        if grep -qx "$level" "$scratch.levels"; then
            must "micro, $level" "$hash" --label micro --cpu-level "$level" "$hf"
            must "matting, $level" "$matte" --cpu-level "$level" "$mattes"
        else
            echo "SKIPPED $level: not on this machine"
        fi
    done
}

threads() {
    for n in 1 2 5; do
        must "micro, $n threads" "$hash" --label micro --threads "$n" "$hf"
        must "matting, $n threads" "$matte" --threads "$n" "$mattes"
    done
}

# device_fails WHAT TEXT ARGUMENTS...: the run ends with a clear message and the right status.
device_fails() {
    what=$1
    text=$2
    shift 2
    checks=$((checks + 1))
    status=0
    "$hash" --label micro --pipelines 512 --device vulkan "$@" "$hf" >"$scratch.out" 2>"$scratch.err" || status=$?
    [ "$status" = 8 ] && [ ! -s "$scratch.out" ] && grep -q "$text" "$scratch.err" ||
        { echo "FAILED $what: exit status $status, expected 8 and '$text': $(cat "$scratch.err")"; failures=$((failures + 1)); }
}

# A Vulkan device, a software one if there is no other: all pipelines; with everything cut small and the validation layer silent; with
# allocations and bindings that hold next to nothing; and failures.
vulkan() {
    status=0
    check "micro, Vulkan" "$hash" --label micro --device vulkan "$hf" || status=$?
    case $status in
    0) ;;
    8) skip_group "no Vulkan device here" ;;
    *) echo "FAILED micro, Vulkan: $(cat "$scratch.err")"; failures=$((failures + 1)) ;;
    esac
    status=0
    check "micro, Vulkan, allocations of 16 MiB, bindings of 1 MiB, validated" "$hash" --label micro --device vulkan \
        --limits 16777216:1048576 --validate "$hf" || status=$?
    case $status in
    0) ;;
    8) echo "SKIPPED validation: $(cat "$scratch.err")" ;;
    *) echo "FAILED micro, Vulkan, validated: $(cat "$scratch.err")"; failures=$((failures + 1)) ;;
    esac
    must "micro 512, Vulkan, allocations of 256 KiB, bindings of 16 KiB" "$hash" --label micro --pipelines 512 --device vulkan \
        --limits 262144:16384 "$hf"
    device_fails "lost at the 40th submission" "repro_hash: [a-z]*: .*: starting .*: device lost" --lose 40
    device_fails "full from the 3rd allocation on" "repro_hash: [a-z]*: .*: out of device memory for tensor" --fill 3 --limits 1048576:65536
}

# peak_of ARGUMENTS...: bytes a run without a budget needs.
peak_of() {
    "$hash" "$@" 2>&1 >/dev/null | sed -n 's/^peak //p'
}

# From a budget no run will notice down to the smallest one that is still enough.
budgets_of() {
    what=$1
    shift
    peak=$(peak_of "$@")
    must "$what, budget of 1 TiB" "$hash" --mem-budget 1099511627776 "$@"
    must "$what, budget of its own peak, $peak" "$hash" --mem-budget "$peak" "$@"
    smallest=$peak
    for sixteenths in 15 14 13 12 11 10 9 8 7 6 5 4; do
        bytes=$((peak * sixteenths / 16))
        status=0
        check "$what, budget of $bytes" "$hash" --mem-budget "$bytes" "$@" || status=$?
        [ "$status" = 0 ] || break
        smallest=$bytes
    done
    if [ "$status" != 0 ] && [ "$status" != 5 ]; then
        echo "FAILED $what, budget of $bytes: exit status $status, expected 5: $(cat "$scratch.err")"
        failures=$((failures + 1))
    fi
    echo "$what: smallest budget $smallest of $peak"
}

squeeze() {
    "$build/tests/repro_squeeze" "$1" "$2" || failures=$((failures + 1))
    checks=$((checks + 1))
}

budget() {
    for pipeline in 512 1024 1024_cascade 1536_cascade; do budgets_of "micro $pipeline" --label micro --pipelines "$pipeline" "$hf"; done
    must "matting, budget of 4 MB" "$matte" --mem-budget 4000000 "$mattes"
    # Whole runs have few places that can do with less; network by network there are many.
    for pipeline in 1024_cascade 1536_cascade; do squeeze "$hf" "$pipeline"; done
    squeeze "$tiny" 512
}

layouts() {
    must "micro, GGUF directory" "$hash" --label micro "$gguf"
    must "micro, GGUF files named one by one" "$hash" --label micro --gguf "$gguf" "$hf"
}

tiny() {
    [ -f "$rocket" ] || { echo "FAILED: $rocket is missing"; exit 1; }
    "$hash" --list-levels >"$scratch.levels"
    for level in avx2 avx512 neon; do
        grep -qx "$level" "$scratch.levels" || { echo "SKIPPED $level: not on this machine"; continue; }
        must "tiny with 12 steps, $level" "$hash" --label tiny-12-steps --steps 12 --pipelines 512 --image "$rocket" --cpu-level "$level" \
            "$tiny"
    done
    for level in generic generic-fma; do
        grep -qx "$level" "$scratch.levels" || { echo "SKIPPED $level: not on this machine"; continue; }
        must "tiny with one step, $level" "$hash" --label tiny-1-step --steps 1 --pipelines 512 --image "$rocket" --cpu-level "$level" \
            "$tiny"
    done
    budgets_of "tiny with one step" --label tiny-1-step --steps 1 --pipelines 512 --image "$rocket" "$tiny"
}

# build_other DIRECTORY TARGETS CMAKE_ARGUMENTS...: once more, without image codecs and unit tests.
build_other() {
    other=$1
    targets=$2
    shift 2
    mkdir -p "$other"
    # shellcheck disable=SC2086
    { cmake -S "$top" -B "$other" -G Ninja -DESPALIER_IMAGES=OFF -DESPALIER_UNIT_TESTS=OFF "$@" &&
        cmake --build "$other" --target $targets; } >"$other.log" 2>&1 && return 0
    tail -30 "$other.log"
    echo "FAILED: $other did not build"
    exit 1
}

# compare_models COMMAND...: does this espalier-make-model write the same bytes?
compare_models() {
    rm -rf "$scratch-hf" "$scratch-gguf" "$scratch-matting"
    "$@" --preset micro "$scratch-hf" >/dev/null
    "$@" --preset micro --layout gguf "$scratch-gguf" >/dev/null
    "$@" --matting "$matting_networks" "$scratch-matting" >/dev/null
    diff -r "$hf" "$scratch-hf" && diff -r "$gguf" "$scratch-gguf" && diff -r "$mattes" "$scratch-matting" ||
        { echo "FAILED: the model files differ"; failures=$((failures + 1)); }
    rm -rf "$scratch-hf" "$scratch-gguf" "$scratch-matting"
}

# The compiler that did not build this: clang beside gcc, gcc beside clang.
compiler() {
    mine=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
    case $("$mine" --version) in *clang*) theirs=gcc ;; *) theirs=clang ;; esac
    command -v "$theirs" >/dev/null || skip_group "$theirs is not installed"
    build_other "$build/tests/other-compiler" "repro_hash repro_matte espalier-make-model" -DCMAKE_C_COMPILER="$theirs"
    compare_models "$build/tests/other-compiler/espalier-make-model"
    "$hash" --list-levels >"$scratch.levels"
    while read -r level; do
        must "micro, $level, $theirs" "$build/tests/other-compiler/tests/repro_hash" --label micro --cpu-level "$level" "$hf"
        must "matting, $level, $theirs" "$build/tests/other-compiler/tests/repro_matte" --cpu-level "$level" "$mattes"
    done <"$scratch.levels"
}

# on_old_cpu NAME COMMAND...: under the emulator, which says at every start what else of that processor it lacks.
on_old_cpu() {
    cpu=$1
    shift
    status=0
    qemu-x86_64 -cpu "$cpu" "$@" 2>"$scratch.qemu" || status=$?
    grep -v "warning: TCG doesn't support" "$scratch.qemu" >&2 || true
    return "$status"
}

# old_cpu_levels NAME LEVELS: the kernels that must be found there.
old_cpu_levels() {
    checks=$((checks + 1))
    found=$(on_old_cpu "$1" "$hash" --list-levels | tr '\n' ' ')
    [ "$found" = "$2" ] || { echo "FAILED $1: found kernels '$found', expected '$2'"; failures=$((failures + 1)); }
}

# Processors that lack some or all of FMA, AVX, F16C and AVX-512: an instruction of these that strayed out of its kernels ends the run.
old_cpu() {
    command -v qemu-x86_64 >/dev/null || skip_group "qemu-user is not installed"
    old_cpu_levels core2duo "generic "
    old_cpu_levels IvyBridge "generic "
    old_cpu_levels Haswell "generic generic-fma avx2 "
    for cpu in core2duo Haswell; do
        must "micro 512, emulated $cpu" on_old_cpu "$cpu" "$hash" --label micro --pipelines 512 "$hf"
        must "matting, emulated $cpu" on_old_cpu "$cpu" "$matte" "$mattes"
    done
    # The command itself, with image codecs, and as much as is quick under an emulator.
    checks=$((checks + 1))
    on_old_cpu IvyBridge "$build/espalier" generate "$rocket" -m "$hf" --pipeline 512 --steps 1 --force --quiet -o "$scratch.old.glb" &&
        "$build/espalier" generate "$rocket" -m "$hf" --pipeline 512 --steps 1 --force --quiet -o "$scratch.new.glb" &&
        cmp "$scratch.old.glb" "$scratch.new.glb" || { echo "FAILED espalier generate, emulated IvyBridge"; failures=$((failures + 1)); }
    rm -f "$scratch.old.glb" "$scratch.new.glb" "$scratch.qemu"
}

build_aarch64() {
    command -v aarch64-linux-gnu-gcc >/dev/null || skip_group "gcc-aarch64-linux-gnu is not installed"
    [ -e /usr/aarch64-linux-gnu/lib/crt1.o ] || skip_group "libc6-dev-arm64-cross is not installed"
    command -v qemu-aarch64 >/dev/null || skip_group "qemu-user is not installed"
    PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig
    export PKG_CONFIG_LIBDIR
    pkg-config --exists jansson || skip_group "libjansson-dev:arm64 is not installed"
    build_other "$build/tests/aarch64" "repro_hash repro_matte espalier-make-model check_kernels" --toolchain "$top/cmake/aarch64.cmake"
}

aarch64() {
    build_aarch64
    compare_models qemu-aarch64 "$build/tests/aarch64/espalier-make-model"
    must "micro, neon, emulated" qemu-aarch64 "$build/tests/aarch64/tests/repro_hash" --label micro --cpu-level neon "$hf"
    must "matting, neon, emulated" qemu-aarch64 "$build/tests/aarch64/tests/repro_matte" --cpu-level neon "$mattes"
    must "micro 512, generic, emulated" qemu-aarch64 "$build/tests/aarch64/tests/repro_hash" --label micro --cpu-level generic \
        --pipelines 512 "$hf"
}

aarch64_kernels() {
    build_aarch64
    checks=$((checks + 1))
    qemu-aarch64 "$build/tests/aarch64/tests/check_kernels" --cpu-level neon || failures=$((failures + 1))
}

models() {
    rm -rf "$hf" "$gguf" "$mattes"
    "$build/espalier-make-model" --preset micro "$hf"
    "$build/espalier-make-model" --preset micro --layout gguf "$gguf"
    "$build/espalier-make-model" --matting "$matting_networks" "$mattes"
    compare_models "$build/espalier-make-model"
    for wrong in "" "--preset huge d" "--preset micro" "--preset micro a b" "--preset micro --layout zip d" "--preset micro --seed -1 d" \
        "--preset micro --seed 1x d" "--preset micro --seed 18446744073709551616 d" "--preset micro --roles vae d" \
        "--preset micro --roles ss_flow, d" "--preset micro --pipelines 2048 d" "--preset" "--frob d" "--matting vgg d" \
        "--matting isnet, d" "--matting birefnet-swin-t,birefnet-swin-l d" "--matting isnet"; do
        status=0
        # shellcheck disable=SC2086
        (cd "$build/tests" && "$build/espalier-make-model" $wrong) >/dev/null 2>&1 || status=$?
        [ "$status" = 2 ] || { echo "FAILED: espalier-make-model $wrong: exit status $status, expected 2"; failures=$((failures + 1)); }
        checks=$((checks + 1))
    done
    status=0
    "$build/espalier-make-model" --preset micro /dev/null/models >/dev/null 2>&1 || status=$?
    [ "$status" = 7 ] || { echo "FAILED: a directory that cannot be: exit status $status, expected 7"; failures=$((failures + 1)); }
}

update() {
    {
        "$hash" --version
        "$hash" --label micro --cpu-level generic "$hf"
        "$matte" --cpu-level generic "$mattes"
        "$hash" --label tiny-1-step --steps 1 --pipelines 512 --image "$rocket" --cpu-level generic "$tiny"
        "$hash" --label tiny-12-steps --steps 12 --pipelines 512 --image "$rocket" --cpu-level generic "$tiny"
    } >"$scratch.new"
    mv "$scratch.new" "$expected"
    cat "$expected"
}

case $group in
models | update) ;;
levels | threads | budget | layouts | tiny | vulkan | compiler | old_cpu | aarch64 | aarch64_kernels)
    [ "$("$hash" --version)" = "$(head -n 1 "$expected")" ] || {
        echo "FAILED: this is $("$hash" --version), expected.txt is of $(head -n 1 "$expected"); see run.sh update"
        exit 1
    }
    ;;
*) echo "usage: run.sh BUILD models|levels|threads|budget|layouts|tiny|vulkan|compiler|old_cpu|aarch64|aarch64_kernels|update" >&2; exit 2 ;;
esac
"$group"
rm -f "$scratch.out" "$scratch.err" "$scratch.levels"
[ "$failures" = 0 ] || { echo "$failures of $checks checks FAILED"; exit 1; }
echo "$checks checks passed"
