# SPDX-License-Identifier: MIT
#
# Strict readers of the files that espalier writes, for comparing them with what other programs make of them: PNG, GLB, OBJ, 3MF, USDZ.
# They know what the specifications ask for and nothing of the writers. Standard library only.
#
# All give a Model: triangles in the axes of the file, and a colour per corner or a picture and texture coordinates.
import json
import os
import re
import struct
import xml.etree.ElementTree as ElementTree
import zipfile
import zlib

from support import accessor, glb_read, read


class Picture:
    """An 8-bit PNG without interlacing; rows top to bottom."""

    def __init__(self, data):
        assert data[:8] == b'\x89PNG\r\n\x1a\n'
        at, packed = 8, b''
        while at < len(data):
            n, kind = struct.unpack('>I4s', data[at:at + 8])
            body = data[at + 8:at + 8 + n]
            assert struct.unpack('>I', data[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + body) & 0xffffffff
            if kind == b'IHDR':
                self.width, self.height, depth, color, _, _, interlaced = struct.unpack('>IIBBBBB', body)
                assert depth == 8 and not interlaced
                self.channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
            elif kind == b'IDAT':
                packed += body
            at += 12 + n
        self.rows = self._unfilter(zlib.decompress(packed))

    def _unfilter(self, raw):
        n, stride, rows = self.channels, self.width * self.channels, []
        above = bytes(stride)
        for y in range(self.height):
            kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
            for i in range(stride):
                left, up, corner = row[i - n] if i >= n else 0, above[i], above[i - n] if i >= n else 0
                if kind == 1:
                    row[i] = (row[i] + left) & 255
                elif kind == 2:
                    row[i] = (row[i] + up) & 255
                elif kind == 3:
                    row[i] = (row[i] + (left + up) // 2) & 255
                elif kind == 4:
                    p = left + up - corner
                    a, b, c = abs(p - left), abs(p - up), abs(p - corner)
                    row[i] = (row[i] + (left if a <= b and a <= c else up if b <= c else corner)) & 255
            rows.append(bytes(row))
            above = row
        return rows

    def at(self, u, v):
        """The texel at (u, v), v up from the lower edge as OBJ, 3MF and USD have it; 0..1."""
        x = min(max(int(u * self.width), 0), self.width - 1)
        y = min(max(int((1 - v) * self.height), 0), self.height - 1)
        return [c / 255 for c in self.rows[y][x * self.channels:x * self.channels + 3]]


class Model:
    def __init__(self):
        self.faces = []            # three (x, y, z)
        self.uvs = None            # per face three (u, v), v up
        self.colors = None         # per face three sRGB-encoded (r, g, b), 0..1
        self.picture = None

    def color(self, face):
        """At the middle of a face."""
        corners = self.colors[face] if self.picture is None else self.uvs[face]
        mean = [sum(c[k] for c in corners) / 3 for k in range(len(corners[0]))]
        return mean if self.picture is None else self.picture.at(*mean)

    def box(self):
        points = [p for face in self.faces for p in face]
        return [min(p[k] for p in points) for k in range(3)], [max(p[k] for p in points) for k in range(3)]

    def volume(self):
        total = 0.0
        for a, b, c in self.faces:
            total += (a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])) / 6
        return total

    def z_up(self):
        """From y up."""
        self.faces = [[(x, -z, y) for x, y, z in face] for face in self.faces]
        return self


def decode_srgb(v):
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


def encode_srgb(v):
    return v * 12.92 if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055


def threes(values):
    return [values[i:i + 3] for i in range(0, len(values), 3)]


# ------------------------------------------------------------- GLB

def model_of_glb(path):
    doc, binary = glb_read(path)
    model = Model()
    primitive, = doc['meshes'][0]['primitives']
    indices = accessor(doc, binary, primitive['indices'])
    values = {name: accessor(doc, binary, index) for name, index in primitive['attributes'].items()}
    model.faces = threes([values['POSITION'][i] for i in indices])
    if 'COLOR_0' in values:
        model.colors = threes([[encode_srgb(c / 65535) for c in values['COLOR_0'][i][:3]] for i in indices])
    if 'TEXCOORD_0' in values:
        model.uvs = threes([(u, 1 - v) for u, v in (values['TEXCOORD_0'][i] for i in indices)])
        texture = doc['textures'][doc['materials'][primitive['material']]['pbrMetallicRoughness']['baseColorTexture']['index']]
        view = doc['bufferViews'][doc['images'][texture['source']]['bufferView']]
        begin = view.get('byteOffset', 0)
        model.picture = Picture(binary[begin:begin + view['byteLength']])
    return model


# ------------------------------------------------------------- OBJ

def model_of_obj(path, picture=None):
    """picture: path of what the material library names otherwise."""
    model = Model()
    v, vt, colors, library = [], [], [], None
    uvs, tints = [], []
    for line in read(path).decode().splitlines():
        key, *rest = line.split() or ['']
        if key == 'v':
            v.append(tuple(map(float, rest[:3])))
            colors.append(tuple(map(float, rest[3:6])))
        elif key == 'vt':
            vt.append(tuple(map(float, rest[:2])))
        elif key == 'mtllib':
            library = ' '.join(rest)
        elif key == 'f':
            assert len(rest) == 3
            corners = [c.split('/') for c in rest]
            model.faces.append([v[int(c[0]) - 1] for c in corners])
            tints.append([colors[int(c[0]) - 1] for c in corners])
            uvs.append([vt[int(c[1]) - 1] if len(c) > 1 and c[1] else None for c in corners])
    if uvs and uvs[0][0]:
        model.uvs = uvs
    if tints and tints[0][0]:
        model.colors = tints
    if library and not picture:
        names = re.findall(r'^map_Kd (.*)$', read(os.path.join(os.path.dirname(path), library)).decode(), re.M)
        picture = os.path.join(os.path.dirname(path), names[0]) if names else None
    if picture and model.uvs:
        model.picture = Picture(read(picture))
    return model


# ------------------------------------------------------------- PLY

def model_of_ply(path):
    """Binary little-endian, scalars of vertices before one list of faces."""
    data = read(path)
    end = data.index(b'end_header\n') + len(b'end_header\n')
    lines = data[:end].decode().splitlines()
    assert lines[:2] == ['ply', 'format binary_little_endian 1.0']
    counts = [int(line.split()[2]) for line in lines if line.startswith('element ')]
    fields = [line.split() for line in lines if line.startswith('property ') and not line.startswith('property list ')]
    names = [f[2] for f in fields]
    code = '<' + ''.join({'float': 'f', 'uchar': 'B'}[f[1]] for f in fields)
    rows = [struct.unpack_from(code, data, end + i * struct.calcsize(code)) for i in range(counts[0])]
    faces = struct.iter_unpack('<B3i', data[end + counts[0] * struct.calcsize(code):])
    model, corners = Model(), []
    for n, *face in faces:
        assert n == 3
        corners.append([rows[i] for i in face])
    assert len(corners) == counts[1]
    model.faces = [[r[:3] for r in face] for face in corners]
    if 'red' in names:
        at = names.index('red')
        model.colors = [[[c / 255 for c in r[at:at + 3]] for r in face] for face in corners]
    return model


# ------------------------------------------------------------- 3MF

CORE = '{http://schemas.microsoft.com/3dmanufacturing/core/2015/02}'
MATERIAL = '{http://schemas.microsoft.com/3dmanufacturing/material/2015/02}'
PACKAGE = '{http://schemas.openxmlformats.org/package/2006/relationships}'
TYPES = '{http://schemas.openxmlformats.org/package/2006/content-types}'
TYPE_MODEL = 'http://schemas.microsoft.com/3dmanufacturing/2013/01/3dmodel'
TYPE_TEXTURE = 'http://schemas.microsoft.com/3dmanufacturing/2013/01/3dtexture'
METADATA = {'Title', 'Designer', 'Description', 'Copyright', 'LicenseTerms', 'Rating', 'CreationDate', 'ModificationDate', 'Application'}


def relationships(package, name):
    root = ElementTree.fromstring(package.read(name))
    assert root.tag == PACKAGE + 'Relationships'
    found = {}
    for r in root:
        assert r.tag == PACKAGE + 'Relationship' and r.get('Id') not in found
        assert r.get('Target').startswith('/') and r.get('Target')[1:] in package.namelist(), r.get('Target')
        found[r.get('Id')] = (r.get('Type'), r.get('Target'))
    return list(found.values())


def check_content_types(package):
    """Every part has a type and no two parts differ only in case."""
    root = ElementTree.fromstring(package.read('[Content_Types].xml'))
    assert root.tag == TYPES + 'Types'
    known = {e.get('Extension').lower() for e in root.iter(TYPES + 'Default')}
    names = [n for n in package.namelist() if n != '[Content_Types].xml']
    for name in names:
        assert name.rsplit('.', 1)[1].lower() in known, name
    assert len({n.lower() for n in names}) == len(names)


def property_groups(resources, package, pictures):
    """id -> ('uv', coordinates, texture path) or ('color', colours)"""
    groups, textures = {}, {}
    for e in resources:
        key = e.get('id')
        assert int(key) > 0 and key not in groups and key not in textures
        if e.tag == MATERIAL + 'texture2d':
            assert e.get('contenttype') == 'image/png' and e.get('path') in pictures, e.get('path')
            textures[key] = e.get('path')
        elif e.tag == MATERIAL + 'texture2dgroup':
            groups[key] = ('uv', [(float(c.get('u')), float(c.get('v'))) for c in e], textures[e.get('texid')])
        elif e.tag == MATERIAL + 'colorgroup':
            groups[key] = ('color', [rgb(c.get('color')) for c in e])
        elif e.tag == CORE + 'basematerials':
            groups[key] = ('color', [rgb(c.get('displaycolor')) for c in e])
        else:
            assert e.tag == CORE + 'object', e.tag
    return groups


def rgb(text):
    assert re.fullmatch('#[0-9A-F]{6}([0-9A-F]{2})?', text), text
    return tuple(int(text[i:i + 2], 16) / 255 for i in (1, 3, 5))


def model_of_3mf(path):
    model = Model()
    with zipfile.ZipFile(path) as package:
        assert package.testzip() is None
        check_content_types(package)
        (kind, target), = relationships(package, '_rels/.rels')
        assert kind == TYPE_MODEL
        links = '%s/_rels/%s.rels' % tuple(target[1:].rsplit('/', 1))
        pictures = [t for k, t in relationships(package, links) if k == TYPE_TEXTURE] if links in package.namelist() else []
        root = ElementTree.fromstring(package.read(target[1:]))
        assert root.tag == CORE + 'model' and root.get('unit') == 'millimeter' and not root.get('requiredextensions')
        assert [e.tag for e in root if e.tag != CORE + 'metadata'] == [CORE + 'resources', CORE + 'build']
        names = [e.get('name') for e in root.iter(CORE + 'metadata')]
        assert len(set(names)) == len(names) and set(names) <= METADATA, names
        resources, build = root.find(CORE + 'resources'), root.find(CORE + 'build')
        groups = property_groups(resources, package, pictures)
        item, = build
        thing, = (e for e in resources if e.get('id') == item.get('objectid'))
        read_object(model, thing, item, groups)
        used = {g[2] for g in groups.values() if g[0] == 'uv'}
        if used:
            model.picture = Picture(package.read(used.pop()[1:]))
            assert not used
    return model


def read_object(model, thing, item, groups):
    assert thing.tag == CORE + 'object' and thing.get('type') == 'model'
    mesh, = thing
    vertices, triangles = mesh
    assert (mesh.tag, vertices.tag, triangles.tag) == (CORE + 'mesh', CORE + 'vertices', CORE + 'triangles')
    matrix = [float(v) for v in item.get('transform', '1 0 0 0 1 0 0 0 1 0 0 0').split(' ')]
    assert len(matrix) == 12 and matrix[:9] == [1, 0, 0, 0, 1, 0, 0, 0, 1]
    points = [tuple(float(v.get(k)) + matrix[9 + i] for i, k in enumerate('xyz')) for v in vertices]
    values = []
    edges = {}
    for t in triangles:
        corners = [int(t.get(k)) for k in ('v1', 'v2', 'v3')]
        assert len(set(corners)) == 3
        for a, b in zip(corners, corners[1:] + corners[:1]):
            edges[a, b] = edges.get((a, b), 0) + 1
        model.faces.append([points[i] for i in corners])
        if t.get('pid'):
            # The core specification: then the object has to have a property as well.
            assert int(thing.get('pindex')) < len(groups[thing.get('pid')][1])
            group = groups[t.get('pid')]
            values.append([group[1][int(t.get(k, t.get('p1')))] for k in ('p1', 'p2', 'p3')])
            kind = group[0]
    model.closed = all(n == 1 and edges.get((b, a)) == 1 for (a, b), n in edges.items())
    if values:
        setattr(model, 'uvs' if kind == 'uv' else 'colors', values)


# ------------------------------------------------------------- USDZ

USDA = re.compile(r'\s*(?:(#.*)|("(?:[^"\\]|\\.)*")|(@[^@]*@)|(<[^>]*>)|(-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w:])|([A-Za-z_][\w:.]*(?:\[\])?)|([][(){}=,]))')


class Stage:
    """What the text form of USD has here: prims by path, each with type, metadata and {property: (type, value, metadata)}."""

    def __init__(self, text):
        assert text.startswith('#usda 1.0\n')
        self.tokens = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            m = USDA.match(text, at)
            assert m, text[at:at + 80]
            if not m.group(1):
                self.tokens.append((m.lastindex, m.group(m.lastindex)))
            at = m.end()
        self.tokens.append((0, ''))
        self.next = 0
        self.prims = {}
        self.metadata = self.items('(', ')') if self.see('(') else {}
        while self.see('def'):
            self.prim('')
        assert self.next == len(self.tokens) - 1

    def see(self, text):
        return self.tokens[self.next] in ((7, text), (6, text))

    def take(self, text=None):
        kind, got = self.tokens[self.next]
        assert text is None or got == text, 'expected %s, found %s' % (text, got)
        self.next += 1
        return kind, got

    def items(self, opening, closing):
        self.take(opening)
        found = {}
        while not self.see(closing):
            name, _, value, _ = self.assignment()
            assert name not in found
            found[name] = value
        self.take(closing)
        return found

    def assignment(self):
        """name, type, value, metadata"""
        words = []
        while not self.see('=') and self.tokens[self.next][0] in (2, 6) and not (words and self.declared(words)):
            words.append(self.take()[1])
        value = None
        if self.see('='):
            self.take()
            value = self.value()
        metadata = self.items('(', ')') if self.see('(') else {}
        words = [w for w in words if w not in ('uniform', 'prepend', 'custom')]
        assert words, 'a name is missing before %s' % self.tokens[self.next][1]
        return words[-1].strip('"'), words[0] if len(words) > 1 else None, value, metadata

    def declared(self, words):
        """A declaration without value, such as "float outputs:r", ends with its name."""
        return words[-1].startswith('outputs:') and not self.see('=')

    def value(self):
        kind, text = self.take()
        if kind == 5:
            return float(text)
        if kind in (2, 3, 4):
            return json.loads(text) if kind == 2 else text
        if text in '[(':
            closing, values = {'[': ']', '(': ')'}[text], []
            while not self.see(closing):
                values.append(self.value())
                if not self.see(closing):
                    self.take(',')
            self.take(closing)
            return values if text == '[' else tuple(values)
        assert text == '{', text
        self.next -= 1
        return self.items('{', '}')

    def prim(self, parent):
        self.take('def')
        kind, name = self.take()[1], json.loads(self.take()[1])
        path = parent + '/' + name
        assert re.fullmatch(r'[A-Za-z_]\w*', name) and path not in self.prims
        metadata = self.items('(', ')') if self.see('(') else {}
        properties = {}
        self.prims[path] = (kind, metadata, properties)
        self.take('{')
        while not self.see('}'):
            if self.see('def'):
                self.prim(path)
                continue
            name, what, value, more = self.assignment()
            assert name not in properties, name
            properties[name] = (what, value, more)
        self.take('}')

    def check_references(self, names):
        """Every path and every file that is named is there, and connections have the type of their source."""
        for kind, _, properties in self.prims.values():
            for name, (what, value, _) in properties.items():
                if isinstance(value, str) and value.startswith('<'):
                    target, _, output = value[1:-1].partition('.')
                    assert target in self.prims, value
                    if name.endswith('.connect'):
                        assert output in self.prims[target][2], value
                        source = self.prims[target][2][output][0]
                        assert source == what or {source, what} <= {'float3', 'color3f', 'normal3f'}, (name, source, what)
                    else:
                        assert what == 'rel' and self.prims[target][0] == 'Material'
                if isinstance(value, str) and value.startswith('@'):
                    assert value[1:-1] in names, value


def open_usdz(path):
    """(stage text, {name: bytes}); the package's rules are asserted."""
    data = read(path)
    parts = {}
    with zipfile.ZipFile(path) as package:
        assert package.testzip() is None
        for i, entry in enumerate(package.infolist()):
            assert entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
            name_size, extra_size = struct.unpack_from('<HH', data, entry.header_offset + 26)
            begin = entry.header_offset + 30 + name_size + extra_size
            assert begin % 64 == 0, (entry.filename, begin)
            assert i > 0 or entry.filename.endswith('.usda')
            parts[entry.filename] = data[begin:begin + entry.file_size]
    first = next(iter(parts))
    return parts[first].decode(), parts


def model_of_usdz(path):
    text, parts = open_usdz(path)
    stage = Stage(text)
    stage.check_references(parts)
    assert stage.metadata['upAxis'] == 'Y' and stage.metadata['metersPerUnit'] == 1
    assert '/' + stage.metadata['defaultPrim'] in stage.prims
    (_, metadata, mesh), = (p for p in stage.prims.values() if p[0] == 'Mesh')
    get = {name: value for name, (_, value, _) in mesh.items()}
    assert get['subdivisionScheme'] == 'none' and get['orientation'] == 'rightHanded'
    assert 'MaterialBindingAPI' in metadata['apiSchemas']
    counts, indices, points = get['faceVertexCounts'], [int(i) for i in get['faceVertexIndices']], get['points']
    assert set(counts) == {3} and 3 * len(counts) == len(indices) and sorted(set(indices)) == list(range(len(points)))
    model = Model()
    model.faces = threes([points[i] for i in indices])
    assert [tuple(v) for v in model.box()] == get['extent']
    if 'primvars:normals' in mesh:
        assert mesh['primvars:normals'][2]['interpolation'] == 'faceVarying'
        assert max(get['primvars:normals:indices']) < len(get['primvars:normals'])
    if 'primvars:st' in mesh:
        assert mesh['primvars:st'][2]['interpolation'] == 'faceVarying'
        model.uvs = threes([get['primvars:st'][int(i)] for i in get['primvars:st:indices']])
        material = get['material:binding'][1:-1]
        model.picture = Picture(parts[base_color_file(stage, material)])
    if 'primvars:displayColor' in mesh:
        assert mesh['primvars:displayColor'][2]['interpolation'] == 'vertex'
        model.colors = threes([[encode_srgb(c) for c in get['primvars:displayColor'][i]] for i in indices])
    return model


def base_color_file(stage, material):
    surface = stage.prims[material][2]['outputs:surface.connect'][1][1:-1].partition('.')[0]
    shader = stage.prims[surface][2]
    assert shader['info:id'][1] == 'UsdPreviewSurface'
    texture = stage.prims[shader['inputs:diffuseColor.connect'][1][1:-1].partition('.')[0]][2]
    assert texture['info:id'][1] == 'UsdUVTexture' and texture['inputs:sourceColorSpace'][1] == 'sRGB'
    return texture['inputs:file'][1][1:-1]
