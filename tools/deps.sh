#!/bin/sh
# SPDX-License-Identifier: MIT
# deps.sh build [check]: install the Debian packages that are missing (docs/dependencies.md says what each is for). Uses sudo when not root.
# deps.sh train: what the trainer in tools/train needs (docs/training.md); nothing else needs it.
# deps.sh validator BUILD: the Khronos glTF validator and TinyUSDZ (npm) into BUILD/node_modules; tests that miss them are skipped visibly.
set -eu

if [ "${1:-}" = validator ]; then
    [ -d "$2/node_modules/gltf-validator" ] && [ -d "$2/node_modules/tinyusdz" ] && exit 0
    command -v npm >/dev/null 2>&1 || { echo "deps: no npm, so no glTF validator and no TinyUSDZ"; exit 0; }
    mkdir -p "$2"
    echo "deps: installing gltf-validator and tinyusdz from npm"
    npm install --silent --no-save --no-audit --no-fund --prefix "$2" gltf-validator@2.0.0-dev.3.10 tinyusdz@0.9.0-rc10 >/dev/null 2>&1 ||
        echo "deps: gltf-validator and tinyusdz are not to be had; their tests will say that they were skipped"
    exit 0
fi

packages="gcc cmake ninja-build make pkg-config libc6-dev libpng-dev libjpeg62-turbo-dev libwebp-dev libjansson-dev libassimp-dev zlib1g-dev liblzma-dev libzstd-dev libvulkan-dev glslc"
[ "${2:-}" = check ] && packages="$packages libcmocka-dev clang llvm libclang-rt-14-dev clang-format g++ gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user python3 nodejs npm assimp-utils mesa-vulkan-drivers vulkan-validationlayers spirv-tools spirv-cross"
[ "${1:-}" = train ] && packages="python3-torch python3-numpy python3-pil libopenblas0-pthread"
[ "${1:-}" = build ] || [ "${1:-}" = train ] || { echo "usage: deps.sh build [check] | train" >&2; exit 2; }

command -v dpkg-query >/dev/null 2>&1 || {
    echo "deps: not a Debian system; install by hand: $packages"
    exit 0
}
installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

missing=
for p in $packages; do
    # Any node will do, whoever packaged it.
    [ "$p" = nodejs ] && command -v node >/dev/null 2>&1 && continue
    [ "$p" = npm ] && command -v npm >/dev/null 2>&1 && continue
    installed "$p" || missing="$missing $p"
done

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
if [ -n "$missing" ]; then
    echo "deps: installing$missing"
    $sudo apt-get update -qq
    # shellcheck disable=SC2086
    $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

# The emulated build (NEON kernels under qemu) links Jansson for arm64.
if [ "${2:-}" = check ] && [ "$(dpkg --print-architecture)" = amd64 ] && ! installed libjansson-dev:arm64; then
    echo "deps: installing libjansson-dev:arm64 for the emulated tests"
    $sudo dpkg --add-architecture arm64
    $sudo apt-get update -qq
    $sudo apt-get install -y -qq --no-install-recommends libjansson-dev:arm64 >/dev/null ||
        echo "deps: libjansson-dev:arm64 is not to be had; the emulated tests will say that they were skipped"
fi
