#!/bin/sh
# SPDX-License-Identifier: MIT
# includes.sh: includes point down only (ARCHITECTURE.md, "Layers"); the command uses public headers only.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
failed=0

# layer: what it may include, itself included
allowed() {
    case $1 in
    base) echo "base" ;;
    tensor) echo "base tensor" ;;
    voxel) echo "base voxel" ;;
    mesh) echo "base voxel mesh" ;;
    formats) echo "base formats" ;;
    models) echo "base tensor voxel formats models" ;;
    sample) echo "base tensor sample" ;;
    pipeline) echo "base tensor voxel mesh formats models sample pipeline" ;;
    esac
}

for layer in base tensor voxel mesh formats models sample pipeline; do
    [ -d "src/$layer" ] || continue
    ok=$(allowed "$layer")
    for file in $(find "src/$layer" -name '*.[ch]'); do
        for included in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$file"); do
            case $included in */*) target=${included%%/*} ;; *) continue ;; esac
            [ -d "src/$target" ] || continue
            case " $ok " in *" $target "*) ;; *)
                echo "$file includes $included: $layer may use only: $ok"
                failed=1 ;;
            esac
        done
    done
done

for file in $(find tools examples -name '*.[ch]'); do
    for included in $(sed -n 's/^ *# *include *["<]\([^">]*\)[">].*/\1/p' "$file"); do
        case $included in
        base/* | tensor/* | voxel/* | mesh/* | formats/* | models/* | sample/* | pipeline/*)
            echo "$file includes $included: tools and examples use public headers only"
            failed=1 ;;
        esac
    done
done
[ $failed = 0 ] && echo "includes: all point down"
exit $failed
