# SPDX-License-Identifier: MIT
"""U2-Net and IS-Net as their forward passes, over whatever `ops` makes of the operations: an ONNX file (onnx_file.py) or PyTorch
(test_convert_torch.py). Written from the papers' description, not from the converter's tables."""


def rebn(ops, x, scope, dilation):
    x = ops.conv(x, scope + ".conv_s1", pad=dilation, dilation=dilation)
    return ops.relu(ops.batch_norm(x, scope + ".bn_s1"))


def rsu(ops, x, stage, depth):
    scope = stage + ".rebnconv"
    start = rebn(ops, x, scope + "in", 1)
    levels = [rebn(ops, start, scope + "1", 1)]
    for i in range(2, depth):
        levels.append(rebn(ops, ops.pool(levels[-1]), f"{scope}{i}", 1))
    x = rebn(ops, levels[-1], f"{scope}{depth}", 2)
    for i in range(depth - 1, 0, -1):
        if i < depth - 1:
            x = ops.resize(x, levels[i - 1])
        x = rebn(ops, ops.concat([x, levels[i - 1]]), f"{scope}{i}d", 1)
    return ops.add(x, start)


def rsu_flat(ops, x, stage):
    scope = stage + ".rebnconv"
    start = rebn(ops, x, scope + "in", 1)
    one = rebn(ops, start, scope + "1", 1)
    two = rebn(ops, one, scope + "2", 2)
    three = rebn(ops, two, scope + "3", 4)
    four = rebn(ops, three, scope + "4", 8)
    three = rebn(ops, ops.concat([four, three]), scope + "3d", 4)
    two = rebn(ops, ops.concat([three, two]), scope + "2d", 2)
    return ops.add(rebn(ops, ops.concat([two, one]), scope + "1d", 1), start)


def block(ops, x, stage):
    depth = {"1": 7, "2": 6, "3": 5, "4": 4}.get(stage[5])
    return rsu(ops, x, stage, depth) if depth else rsu_flat(ops, x, stage)


def forward(ops, picture, isnet, sides=6):
    """The sigmoids of all maps, the result first. sides: how many side maps an IS-Net is exported with."""
    x = ops.conv(picture, "conv_in", stride=2, pad=1) if isnet else picture
    levels = []
    for i in range(1, 7):
        levels.append(block(ops, ops.pool(x) if i > 1 else x, f"stage{i}"))
        x = levels[-1]
    results = [x]
    for i in range(5, 0, -1):
        x = block(ops, ops.concat([ops.resize(x, levels[i - 1]), levels[i - 1]]), f"stage{i}d")
        results.insert(0, x)
    maps = []
    for i in range(1, sides + 1):
        side = ops.conv(results[i - 1], f"side{i}", pad=1)
        maps.append(side if i == 1 and not isnet else ops.resize(side, picture if isnet else maps[0]))
    if not isnet:
        maps.insert(0, ops.conv(ops.concat(maps), "outconv", pad=0))
    return [ops.sigmoid(one) for one in maps]
