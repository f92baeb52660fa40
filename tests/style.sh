#!/bin/sh
# SPDX-License-Identifier: MIT
# style.sh: white space, final newline, licence line, line length of our own text files.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
failed=0
complain() { echo "style: $1"; failed=1; }

files=$(git ls-files 2>/dev/null | grep -E '\.(c|h|sh|cmake|md|mjs|py)$|CMakeLists\.txt$|^Makefile$|^\.ci/run$' | grep -v '^models/') || {
    echo "style: not a git checkout, skipped"
    exit 0
}
for f in $files; do
    [ -f "$f" ] || continue
    grep -nE '[[:blank:]]+$' "$f" >/dev/null && complain "$f: trailing white space"
    [ -n "$(tail -c 1 "$f")" ] && complain "$f: no newline at the end"
    case $f in *.c | *.h)
        head -1 "$f" | grep -q 'SPDX-License-Identifier: MIT' || complain "$f: no SPDX line"
        grep -q "$(printf '\t')" "$f" && complain "$f: tab"
        awk 'length($0) > 140 { exit 1 }' "$f" || complain "$f: a line longer than 140 characters" ;;
    esac
done
[ $failed = 0 ] && echo "style: clean"
exit $failed
