# SPDX-License-Identifier: MIT
#
# support.py: what the tests of the command share: running it, making pictures and damaged models, reading its outputs. Standard library only.
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MICRO = os.path.join(SOURCE, 'tests', 'golden', 'micro_model')
# That of the golden case micro_pipeline with every alpha turned to 0 or 255, because soft ones give a warning.
MICRO_PICTURE = os.path.join(SOURCE, 'tests', 'cli', 'object.png')
TINY = os.path.join(SOURCE, 'models', 'tiny')
TINY_PICTURE = os.path.join(TINY, 'examples', 'rocket_1.png')

OK, USAGE, INPUT, MODEL, RESOURCE, INTERNAL, OUTPUT, DEVICE, UNSOUND = 0, 2, 3, 4, 5, 6, 7, 8, 9

settings = {'build': None, 'program': None, 'sanitized': False}


def use_build(directory):
    directory = os.path.abspath(directory)
    settings['build'] = directory
    settings['program'] = os.path.join(directory, 'espalier')
    try:
        with open(os.path.join(directory, 'CMakeCache.txt')) as f:
            settings['sanitized'] = any(line.startswith('ESPALIER_SANITIZE') and line.strip().split('=', 1)[1] for line in f)
    except OSError:
        pass


# ------------------------------------------------------------- running

class Result:
    def __init__(self, process, args):
        self.code = process.returncode
        self.out = process.stdout.decode('utf-8')
        self.err = process.stderr.decode('utf-8')
        self.args = args

    def __str__(self):
        return 'espalier %s\nexit %d\n--- stdout\n%s--- stderr\n%s' % (' '.join(map(str, self.args)), self.code, self.out[-2000:], self.err)


def environment(**more):
    """Nothing of the user's own gets in."""
    env = {k: v for k, v in os.environ.items() if k not in ('XDG_DATA_HOME', 'HOME')}
    env.update({'HOME': '/nonexistent', 'LC_ALL': 'C'})
    env.update(more)
    return env


def npm_environment():
    """For node: npm packages lie in the build directory (tools/deps.sh validator) or where the user says."""
    return dict(os.environ, GLTF_VALIDATOR_DIR=os.environ.get('GLTF_VALIDATOR_DIR') or settings['build'])


class CommandTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='espalier-cli-')
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def files(self):
        return sorted(os.listdir(self.dir))

    def run_raw(self, *args, env=None, timeout=120, **options):
        options.setdefault('stdout', subprocess.PIPE)
        options.setdefault('stderr', subprocess.PIPE)
        options.setdefault('cwd', self.dir)
        process = subprocess.run([settings['program'], *map(str, args)], stdin=subprocess.DEVNULL, env=env or environment(),
                                 timeout=timeout, **options)
        if process.stdout is None:
            process.stdout = b''
        return Result(process, args)

    def succeed(self, *args, warnings=0, **options):
        """Exit status 0 and nothing on stderr but `warnings` warnings."""
        r = self.run_raw(*args, **options)
        self.assertEqual(r.code, 0, r)
        lines = r.err.splitlines()
        self.assertEqual(len(lines), warnings, r)
        for line in lines:
            self.assertTrue(line.startswith('espalier: warning: '), r)
        return r

    def fail_with(self, code, *args, says=(), warnings=0, **options):
        """That exit status and one line on stderr that contains all of `says`."""
        r = self.run_raw(*args, **options)
        self.assertEqual(r.code, code, r)
        lines = r.err.splitlines()
        self.assertEqual(len(lines), 1 + warnings, r)
        for line in lines[:-1]:
            self.assertTrue(line.startswith('espalier: warning: '), r)
        self.assertTrue(lines[-1].startswith('espalier: '), r)
        self.assertFalse(lines[-1].startswith('espalier: warning'), r)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, lines[-1], str(r))
        self.assertLess(len(lines[-1]), 1100, r)
        return r

    def micro(self, *args, picture=MICRO_PICTURE, model=MICRO):
        return ['generate', picture, '-m', model, *args]

    def start(self, *args, **options):
        options.setdefault('stdout', subprocess.PIPE)
        options.setdefault('stderr', subprocess.PIPE)
        return subprocess.Popen([settings['program'], *map(str, args)], stdin=subprocess.DEVNULL, env=environment(), cwd=self.dir, **options)


# ------------------------------------------------------------- pictures

def png_chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data) & 0xffffffff)


def png(width, height, color, rows, depth=8, before=b''):
    """color: 0 gray, 2 RGB, 3 palette, 4 gray alpha, 6 RGBA; rows: bytes without filter bytes; before: chunks in front of IDAT."""
    stride = len(rows) // height if height else 0
    raw = b''.join(b'\0' + rows[y * stride:(y + 1) * stride] for y in range(height))
    header = struct.pack('>IIBBBBB', width, height, depth, color, 0, 0, 0)
    return b'\x89PNG\r\n\x1a\n' + png_chunk(b'IHDR', header) + before + png_chunk(b'IDAT', zlib.compress(raw, 1)) + png_chunk(b'IEND', b'')


def png_read(path):
    """(width, height, channels, pixels) of an 8-bit PNG that is not interlaced and has no palette."""
    data = read(path)
    assert data[:8] == b'\x89PNG\r\n\x1a\n'
    at, packed = 8, b''
    while at < len(data):
        size, kind = struct.unpack('>I4s', data[at:at + 8])
        if kind == b'IHDR':
            width, height, depth, color, _, _, interlaced = struct.unpack('>IIBBBBB', data[at + 8:at + 8 + size])
            assert depth == 8 and color in (0, 2, 6) and not interlaced
        elif kind == b'IDAT':
            packed += data[at + 8:at + 8 + size]
        at += 12 + size
    channels = {0: 1, 2: 3, 6: 4}[color]
    raw, stride, out = zlib.decompress(packed), width * channels, bytearray()
    before = bytearray(stride)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b, c = (line[i - channels] if i >= channels else 0), before[i], (before[i - channels] if i >= channels else 0)
            if kind == 4:
                pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
                guess = a if pa <= pb and pa <= pc else b if pb <= pc else c
            else:
                guess = (0, a, b, (a + b) // 2)[kind]
            line[i] = (line[i] + guess) & 255
        out += line
        before = line
    return width, height, channels, bytes(out)


def blob(width, height, color=(200, 80, 40)):
    """RGBA rows of an ellipse in the middle, a darker half on one side so that rotations show."""
    out = bytearray()
    for y in range(height):
        for x in range(width):
            u, v = (2 * x + 1) / width - 1, (2 * y + 1) / height - 1
            inside = u * u + v * v < 0.7
            shade = 2 if u > 0 and v > 0.3 else 1
            out += bytes([c // shade for c in color] + [255]) if inside else b'\0\0\0\0'
    return bytes(out)


def exif_chunk(orientation):
    tiff = b'MM\0*\0\0\0\x08' + struct.pack('>HHHIHH', 1, 0x112, 3, 1, orientation, 0) + b'\0\0\0\0'
    return tiff


def write(path, data):
    with open(path, 'wb') as f:
        f.write(data)
    return path


def read(path):
    with open(path, 'rb') as f:
        return f.read()


# ------------------------------------------------------------- safetensors

def tensors_read(path):
    """(header without __metadata__, data)"""
    data = read(path)
    n = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop('__metadata__', None)
    return header, data[8 + n:]


def tensors_bytes(header, data):
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + data


ELEMENT = {'F64': 'd', 'F32': 'f', 'F16': 'e', 'I64': 'q', 'I32': 'i', 'U32': 'I', 'U8': 'B'}


def tensor_values(header, data, name):
    t = header[name]
    begin, end = t['data_offsets']
    if t['dtype'] == 'BF16':
        return [struct.unpack('<f', b'\0\0' + data[i:i + 2])[0] for i in range(begin, end, 2)]
    return list(struct.unpack('<%d%s' % ((end - begin) // struct.calcsize(ELEMENT[t['dtype']]), ELEMENT[t['dtype']]), data[begin:end]))


def tensor_put(header, data, name, values):
    t = header[name]
    begin, end = t['data_offsets']
    if t['dtype'] == 'BF16':
        packed = b''.join(struct.pack('<f', v)[2:] for v in values)
    else:
        packed = struct.pack('<%d%s' % (len(values), ELEMENT[t['dtype']]), *values)
    assert len(packed) == end - begin
    return data[:begin] + packed + data[end:]


PARTS = {'ss_flow': 'ckpts/ss_flow_img_dit_micro_bf16', 'ss_dec': 'ckpts/ss_dec_conv3d_16l8_micro_fp16',
         'shape_flow': 'ckpts/slat_flow_img2shape_dit_micro_bf16', 'shape_dec': 'ckpts/shape_dec_next_dc_f16c32_micro_fp16',
         'tex_flow': 'ckpts/slat_flow_imgshape2tex_dit_micro_bf16', 'tex_dec': 'ckpts/tex_dec_next_dc_f16c32_micro_fp16',
         'encoder': 'dinov3-micro/model'}


class MicroCopy:
    """A copy of the micro model whose files are links until they are changed."""

    def __init__(self, directory):
        self.dir = directory
        for sub in ('ckpts', 'dinov3-micro'):
            os.makedirs(os.path.join(directory, sub))
            for name in os.listdir(os.path.join(MICRO, sub)):
                os.symlink(os.path.join(MICRO, sub, name), os.path.join(directory, sub, name))
        os.symlink(os.path.join(MICRO, 'pipeline.json'), os.path.join(directory, 'pipeline.json'))

    def file(self, part):
        return os.path.join(self.dir, PARTS[part] + '.safetensors')

    def config(self, part):
        return os.path.join(self.dir, 'dinov3-micro/config.json' if part == 'encoder' else PARTS[part] + '.json')

    def remove(self, part):
        os.unlink(self.file(part))

    def replace(self, path, data):
        os.unlink(path)
        write(path, data)

    def replace_weights(self, part, data):
        self.replace(self.file(part), data)

    def edit(self, part, change):
        """change(header, data) -> (header, data)"""
        self.replace_weights(part, tensors_bytes(*change(*tensors_read(self.file(part)))))

    def put(self, part, name, change):
        """change(values) -> values of one tensor"""
        self.edit(part, lambda header, data: (header, tensor_put(header, data, name, change(tensor_values(header, data, name)))))

    def edit_json(self, path, change):
        value = json.loads(read(path))
        result = change(value)
        self.replace(path, json.dumps(value if result is None else result).encode())

    @property
    def pipeline(self):
        return os.path.join(self.dir, 'pipeline.json')


# ------------------------------------------------------------- outputs

def glb_read(path):
    """(json, binary)"""
    data = read(path)
    magic, version, length = struct.unpack('<4sII', data[:12])
    assert magic == b'glTF' and version == 2 and length == len(data)
    size, kind = struct.unpack('<I4s', data[12:20])
    assert kind == b'JSON'
    doc = json.loads(data[20:20 + size])
    rest = data[20 + size:]
    n, kind = struct.unpack('<I4s', rest[:8])
    assert kind == b'BIN\0' and n == len(rest) - 8
    return doc, rest[8:]


def accessor(doc, binary, index):
    a = doc['accessors'][index]
    view = doc['bufferViews'][a['bufferView']]
    code, size = {5121: ('B', 1), 5123: ('H', 2), 5125: ('I', 4), 5126: ('f', 4)}[a['componentType']]
    width = {'SCALAR': 1, 'VEC2': 2, 'VEC3': 3, 'VEC4': 4}[a['type']]
    begin = view.get('byteOffset', 0) + a.get('byteOffset', 0)
    stride = view.get('byteStride', width * size)
    rows = [struct.unpack_from('<%d%s' % (width, code), binary, begin + i * stride) for i in range(a['count'])]
    return rows if width > 1 else [r[0] for r in rows]


def trellis_read(path):
    """trellis.cpp's --dump-post layout -> (vertices, faces, coords, attributes, resolution), flat lists."""
    data = read(path)
    v, f, m, resolution = struct.unpack_from('<4i', data)
    at = 16
    out = []
    for code, count in (('f', 3 * v), ('i', 3 * f), ('i', 3 * m), ('f', 6 * m)):
        out.append(struct.unpack_from('<%d%s' % (count, code), data, at))
        at += 4 * count
    assert at == len(data), 'surplus bytes'
    return out[0], out[1], out[2], out[3], resolution


def qtm3d_read(path):
    """(json, {name: flat tuple})"""
    data = read(path)
    assert data[:8] == b'QTMESH3D'
    version, n = struct.unpack_from('<II', data, 8)
    assert version == 1
    doc = json.loads(data[16:16 + n])
    base = (16 + n + 15) // 16 * 16
    assert not data[16 + n:base].strip(b'\0')
    arrays = {}
    for name, a in doc['arrays'].items():
        assert a['offset'] % 16 == 0
        code = {'f32': 'f', 'u8': 'B', 'u16': 'H', 'u32': 'I', 'i32': 'i'}[a['dtype']]
        count = 1
        for extent in a['shape']:
            count *= extent
        assert a['byteLength'] == count * struct.calcsize(code)
        arrays[name] = struct.unpack_from('<%d%s' % (count, code), data, base + a['offset'])
    return doc, arrays


# ------------------------------------------------------------- JSON schema

def schema_errors(schema, value, root=None, where='$'):
    """A checker for what docs/report.schema.json uses of JSON Schema 2020-12; refuses keywords it does not know."""
    root = root or schema
    known = {'$schema', '$id', '$defs', '$ref', 'title', 'description', 'type', 'properties', 'required', 'additionalProperties', 'items',
             'enum', 'const', 'minimum', 'maximum', 'exclusiveMinimum', 'pattern', 'minLength', 'minItems', 'maxItems'}
    unknown = set(schema) - known
    if unknown:
        return ['%s: schema keywords %s are not understood' % (where, sorted(unknown))]
    errors = []
    if '$ref' in schema:
        target = root
        for part in schema['$ref'].lstrip('#/').split('/'):
            target = target[part]
        errors += schema_errors(target, value, root, where)
    types = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'null': type(None)}
    if 'type' in schema:
        wanted = schema['type'] if isinstance(schema['type'], list) else [schema['type']]

        def fits(t):
            if t == 'integer':
                return isinstance(value, int) and not isinstance(value, bool)
            if t == 'number':
                return isinstance(value, (int, float)) and not isinstance(value, bool)
            return isinstance(value, types[t])
        if not any(fits(t) for t in wanted):
            return errors + ['%s: %r is not of type %s' % (where, value, wanted)]
    if 'enum' in schema and value not in schema['enum']:
        errors.append('%s: %r is none of %s' % (where, value, schema['enum']))
    if 'const' in schema and value != schema['const']:
        errors.append('%s: %r is not %r' % (where, value, schema['const']))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get('minimum', value) or value > schema.get('maximum', value):
            errors.append('%s: %r is out of range' % (where, value))
        if 'exclusiveMinimum' in schema and value <= schema['exclusiveMinimum']:
            errors.append('%s: %r is out of range' % (where, value))
    if isinstance(value, str) and len(value) < schema.get('minLength', 0):
        errors.append('%s: %r is too short' % (where, value))
    if isinstance(value, str) and 'pattern' in schema:
        import re
        if not re.search(schema['pattern'], value):
            errors.append('%s: %r does not match %s' % (where, value, schema['pattern']))
    if isinstance(value, dict):
        properties = schema.get('properties', {})
        errors += ['%s: %s is missing' % (where, k) for k in schema.get('required', []) if k not in value]
        if schema.get('additionalProperties') is False:
            errors += ['%s: %s is not described' % (where, k) for k in value if k not in properties]
        for k, v in value.items():
            if k in properties:
                errors += schema_errors(properties[k], v, root, where + '.' + k)
    if isinstance(value, list):
        if len(value) < schema.get('minItems', 0) or len(value) > schema.get('maxItems', len(value)):
            errors.append('%s: %d items' % (where, len(value)))
        for i, v in enumerate(value):
            errors += schema_errors(schema.get('items', {}), v, root, '%s[%d]' % (where, i))
    return errors
