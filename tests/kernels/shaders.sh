#!/bin/sh
# SPDX-License-Identifier: MIT
# shaders.sh TEST_VULKAN DIRECTORY: the shaders as devices get them are valid SPIR-V, and those that a device without fp64 gets can be
# translated to Metal's language, which is what MoltenVK does with them.
set -eu
test=$1
directory=$2
command -v spirv-val >/dev/null 2>&1 || { echo "SKIPPED: spirv-val is not installed"; exit 77; }
mkdir -p "$directory"
"$test" --modules "$directory"
count=0
for module in "$directory"/*.spv; do
    spirv-val --target-env vulkan1.2 "$module"
    count=$((count + 1))
done
echo "$count shaders are valid"
command -v spirv-cross >/dev/null 2>&1 || { echo "SKIPPED: spirv-cross is not installed"; exit 77; }
count=0
for module in "$directory"/*_fused.spv "$directory"/*_integer.spv; do
    spirv-cross --msl --msl-version 20100 "$module" --output "${module%.spv}.metal"
    count=$((count + 1))
done
echo "$count shaders can be translated to Metal"
