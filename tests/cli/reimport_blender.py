# SPDX-License-Identifier: MIT
#
# blender -b --factory-startup --python reimport_blender.py -- OUT.json FILE...: what Blender makes of files, one entry each: triangles in
# Blender's own axes (z up) and, in sRGB-encoded values, the colour at the middle of every face; None where the import operator is missing.
import json
import sys

import bpy
import numpy

# Blender 3.4's glTF importer says numpy.bool, which the NumPy that Debian ships beside it no longer has.
if 'bool' not in numpy.__dict__:
    numpy.bool = bool

OPERATORS = {'glb': ('import_scene', 'gltf'), 'gltf': ('import_scene', 'gltf'), 'obj': ('wm', 'obj_import'), 'stl': ('import_mesh', 'stl'),
             'ply': ('import_mesh', 'ply'), 'usdz': ('wm', 'usd_import')}


def base_color_picture(mesh):
    for material in mesh.materials:
        for link in material.node_tree.links if material and material.use_nodes else ():
            if link.to_socket.name == 'Base Color':
                node = link.from_node
                while node.type != 'TEX_IMAGE' and any(s.is_linked for s in node.inputs):
                    node = next(s for s in node.inputs if s.is_linked).links[0].from_node
                if node.type == 'TEX_IMAGE':
                    return node.image
    return None


def mean(values):
    return [sum(v[k] for v in values) / len(values) for k in range(len(values[0]))]


def colors(mesh):
    image = base_color_picture(mesh)
    if image is not None and mesh.uv_layers:
        (width, height), n, pixels, uvs = image.size, image.channels, list(image.pixels), mesh.uv_layers[0].data
        out = []
        for face in mesh.polygons:
            u, v = mean([uvs[i].uv for i in face.loop_indices])
            at = (min(int(v * height), height - 1) * width + min(int(u * width), width - 1)) * n
            out.append(pixels[at:at + 3])
        return out
    for attribute in mesh.color_attributes:
        data, corner = attribute.data, attribute.domain == 'CORNER'
        return [mean([list(data[i].color_srgb)[:3] for i in (face.loop_indices if corner else face.vertices)]) for face in mesh.polygons]
    return None


def load(path):
    group, name = OPERATORS[path.rsplit('.', 1)[1]]
    bpy.ops.wm.read_factory_settings(use_empty=True)
    operator = getattr(getattr(bpy.ops, group), name)
    try:
        operator.get_rna_type()
    except KeyError:
        return None
    operator(filepath=path)
    faces, found = [], []
    for thing in bpy.data.objects:
        if thing.type == 'MESH':
            points = [list(thing.matrix_world @ v.co) for v in thing.data.vertices]
            faces += [[points[i] for i in face.vertices] for face in thing.data.polygons]
            found += colors(thing.data) or []
    return {'faces': faces, 'colors': found or None}


out, *files = sys.argv[sys.argv.index('--') + 1:]
result = {'version': bpy.app.version_string}
for file in files:
    result[file] = load(file)
with open(out, 'w') as f:
    json.dump(result, f)
