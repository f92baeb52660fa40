#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh BUILD: install into a fresh prefix; a program of ours builds against it with pkg-config and with find_package, and the installed command
# finds the installed model.
set -eu
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

DESTDIR= cmake --install "$build" --prefix "$tmp/prefix" >/dev/null
pc=$(dirname "$(find "$tmp/prefix" -name espalier.pc)")
# The file names the configured prefix; a relocated copy is told its place as pkg-config offers it.
export PKG_CONFIG_PATH="$pc"
gcc -std=c11 -D_GNU_SOURCE $(pkg-config --define-variable=prefix="$tmp/prefix" --cflags espalier) "$top/examples/embed.c" \
    $(pkg-config --define-variable=prefix="$tmp/prefix" --libs espalier) -o "$tmp/embed"

mkdir "$tmp/user"
cat >"$tmp/user/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(espalier 0.1 REQUIRED)
add_executable(user $top/examples/embed.c)
target_link_libraries(user espalier::espalier)
END
cmake -S "$tmp/user" -B "$tmp/user/build" -DCMAKE_PREFIX_PATH="$tmp/prefix" >/dev/null
cmake --build "$tmp/user/build" >/dev/null

model=$tmp/prefix/share/espalier/tiny
"$tmp/embed" "$model" "$model/examples/mug_1.png" "$tmp/a.glb" </dev/null >/dev/null
"$tmp/user/build/user" "$model" "$model/examples/mug_1.png" "$tmp/b.glb" </dev/null >/dev/null
cmp "$tmp/a.glb" "$tmp/b.glb"
HOME=$tmp XDG_DATA_HOME=$tmp "$tmp/prefix/bin/espalier" generate "$model/examples/mug_1.png" --steps 1 -o "$tmp/c.glb" >"$tmp/log"
grep -q "models: $tmp/prefix/.*share/espalier/tiny" "$tmp/log" || { cat "$tmp/log"; exit 1; }
echo "install: pkg-config, find_package and the installed command work"
