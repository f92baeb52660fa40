#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh LIBRARY: every public header compiles alone as C11 and as C++17, and the shared library exports public symbols only.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
count=0

for header in "$top"/include/espalier/*.h; do
    name=espalier/$(basename "$header")
    printf '#include <%s>\n#include <%s>\nint header_is_alone;\n' "$name" "$name" >"$tmp/t.c"
    cp "$tmp/t.c" "$tmp/t.cpp"
    for compiler in "gcc -std=c11" "clang -std=c11" "g++ -std=c++17" "clang++ -std=c++17"; do
        command -v "${compiler%% *}" >/dev/null 2>&1 || { echo "headers: ${compiler%% *} is missing, skipped"; continue; }
        source=$tmp/t.c
        case $compiler in *++*) source=$tmp/t.cpp ;; esac
        # shellcheck disable=SC2086
        $compiler -Wall -Wextra -Werror -pedantic -I "$top/include" -c "$source" -o "$tmp/t.o" || { echo "headers: $name fails with $compiler"; failed=1; }
        count=$((count + 1))
    done
done

# Every exported symbol is declared in a public header, and the other way round.
nm -D --defined-only "$1" | awk '{ print $3 }' | sort >"$tmp/exported"
cat "$top"/include/espalier/*.h | tr '\n' ' ' | grep -oE 'ESPALIER_API [^;{]*\(' | grep -oE 'espalier_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u >"$tmp/declared"
if ! diff "$tmp/exported" "$tmp/declared" >"$tmp/diff"; then
    echo "headers: exported (<) and declared (>) symbols differ:"
    cat "$tmp/diff"
    failed=1
fi
echo "headers: $count compilations, $(wc -l <"$tmp/exported") exported symbols"
exit $failed
