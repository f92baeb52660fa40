# SPDX-License-Identifier: MIT
#
# Finishing raw assets and converting between meshes and voxels: espalier post, voxelize, mesh, render, and inspect on meshes.
import json
import math
import os
import signal
import struct
import subprocess
import time

from support import (INPUT, MICRO, MICRO_PICTURE, OUTPUT, RESOURCE, SOURCE, UNSOUND, USAGE, CommandTest, accessor, glb_read, read,
                     schema_errors, settings, trellis_read, write)

FORMATS = ('.glb', '.gltf', '.obj', '.ply', '.stl', '.3mf', '.usdz')


def png_size(data):
    assert data[:8] == b'\x89PNG\r\n\x1a\n'
    return struct.unpack('>II', data[16:24])


class PostTest(CommandTest):
    def dump(self, shape, resolution, name, *more):
        tool = os.path.join(settings['build'], 'espalier-make-dump')
        r = subprocess.run([tool, shape, str(resolution), self.path(name), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(r.returncode, 0, r.stderr)
        return self.path(name)

    def inspect(self, path):
        return json.loads(self.succeed('inspect', '--json', path).out)

    def sound(self, path):
        info = self.inspect(path)
        return info.get('mesh', info)['soundness']


class Post(PostTest):
    def test_closed_textured_glb(self):
        self.dump('torus', 64, 'x.espd', 'uncertain=0.02')
        self.succeed('post', 'x.espd', '-o', 'x.glb', '--faces', 3000, '--texture-size', 300, '--report', 'x.json')
        doc, binary = glb_read(self.path('x.glb'))
        primitive = doc['meshes'][0]['primitives'][0]
        self.assertEqual(sorted(primitive['attributes']), ['NORMAL', 'POSITION', 'TEXCOORD_0'])
        self.assertNotIn('extensionsRequired', doc)
        self.assertLessEqual(len(accessor(doc, binary, primitive['indices'])), 9000)
        self.assertEqual(doc['materials'][0].get('alphaMode', 'OPAQUE'), 'OPAQUE')
        for image in doc['images']:
            view = doc['bufferViews'][image['bufferView']]
            begin = view.get('byteOffset', 0)
            self.assertEqual(png_size(binary[begin:begin + view['byteLength']]), (300, 300))
        extras = doc['asset']['extras']
        self.assertEqual((extras['seed'], extras['resolution'], extras['post']), (1, 64, 'clean'))
        # Torus radii 0.3 and 0.1, z up there and y up here.
        points = accessor(doc, binary, primitive['attributes']['POSITION'])
        for axis, reach in ((0, 0.4), (1, 0.1), (2, 0.4)):
            self.assertAlmostEqual(max(p[axis] for p in points), reach, delta=0.5 / 64)
            self.assertAlmostEqual(min(p[axis] for p in points), -reach, delta=0.5 / 64)
        m = self.sound('x.glb')
        self.assertEqual((m['odd_edges'], m['nonmanifold_edges'], m['winding_conflicts'], m['genus']), (0, 0, 0, 1))
        self.assertTrue(m['watertight'])
        report = json.loads(read(self.path('x.json')))
        with open(os.path.join(SOURCE, 'docs', 'report.schema.json')) as f:
            self.assertEqual(schema_errors(json.load(f), report), [])
        steps = {s['name']: s for s in report['post']['steps']}
        self.assertGreater(steps['raw']['mesh']['odd_edges'], 100)
        self.assertEqual(steps['repaired']['mesh']['odd_edges'], 0)
        self.assertEqual(report['post']['uv']['overlapping_texels'], 0)

    def test_all_formats_tell_the_same(self):
        self.dump('sphere', 32, 'x.espd')
        outputs = [a for suffix in FORMATS for a in ('-o', 'x' + suffix)]
        self.succeed('post', 'x.espd', *outputs, '--faces', 1000, '--texture-size', 64)
        faces = None
        for suffix in ('.glb', '.gltf', '.obj', '.ply', '.stl', '.3mf'):
            m = self.sound('x' + suffix)
            faces = faces or m['faces']
            self.assertEqual((m['faces'], m['odd_edges'], m['winding_conflicts']), (faces, 0, 0), suffix)
            self.assertGreater(m['volume'], 0, suffix)
            unit = 100 / 0.7 if suffix == '.3mf' else 1
            sides = [m['box'][i + 3] - m['box'][i] for i in range(3)]
            for side in sides:
                self.assertAlmostEqual(side / unit, 0.7, delta=0.02, msg=suffix)

    def test_same_bytes_again_and_in_any_order(self):
        self.dump('bumpy', 64, 'x.espd', 'missing=0.005')
        before = read(self.path('x.espd'))
        self.succeed('post', 'x.espd', '-o', 'a.glb', '--faces', 5000, '--texture-size', 128, '--threads', 1)
        self.succeed('post', 'x.espd', '-o', 'b.glb', '--faces', 1000, '--texture-size', 128)
        self.succeed('post', 'x.espd', '-o', 'c.glb', '--faces', 5000, '--texture-size', 128, '--threads', 5)
        self.assertEqual(read(self.path('a.glb')), read(self.path('c.glb')))
        self.assertNotEqual(read(self.path('a.glb')), read(self.path('b.glb')))
        self.assertEqual(read(self.path('x.espd')), before)

    def test_generate_is_dump_and_post(self):
        options = ['--texture-size', '64', '--faces', '800']
        self.succeed(*self.micro('-o', 'direct.glb', '--dump-post', 'x.espd', *options))
        self.succeed('post', 'x.espd', '-o', 'later.glb', *options)
        self.assertEqual(read(self.path('direct.glb')), read(self.path('later.glb')))

    def test_dumps_of_others(self):
        self.dump('sphere', 32, 'x.espd')
        self.dump('sphere', 32, 'x.raw')
        self.dump('sphere', 32, 'x.qtm3d')
        for name in ('x.raw', 'x.qtm3d'):
            r = self.succeed('post', name, '-o', name + '.glb', '--texture-size', 64)
            self.assertIn('no logits: margin repair off', r.out)
            self.assertEqual(self.sound(name + '.glb')['odd_edges'], 0)

    def test_texture_formats(self):
        self.dump('sphere', 32, 'x.espd')
        for kind, magic in (('png', b'\x89PNG'), ('jpeg', b'\xff\xd8\xff'), ('webp', b'\x89PNG')):
            self.succeed('post', 'x.espd', '-o', 'x.glb', '--texture-size', 64, '--texture-format', kind)
            doc, binary = glb_read(self.path('x.glb'))
            self.assertNotIn('extensionsRequired', doc)
            self.assertEqual(doc.get('extensionsUsed', []), ['EXT_texture_webp'] if kind == 'webp' else [])
            index = doc['textures'][doc['materials'][0]['pbrMetallicRoughness']['baseColorTexture']['index']]['source']
            begin = doc['bufferViews'][doc['images'][index]['bufferView']].get('byteOffset', 0)
            self.assertTrue(binary[begin:].startswith(magic), kind)

    def test_geometry_only(self):
        self.dump('sphere', 32, 'x.espd')
        self.succeed('post', 'x.espd', '-o', 'x.glb', '--texture-size', 0)
        doc, _ = glb_read(self.path('x.glb'))
        self.assertNotIn('images', doc)
        self.succeed('post', 'x.espd', '-o', 'r.glb', '--post', 'none')
        doc, _ = glb_read(self.path('r.glb'))
        self.assertIn('COLOR_0', doc['meshes'][0]['primitives'][0]['attributes'])

    def test_json_and_quiet(self):
        self.dump('sphere', 32, 'x.espd')
        r = self.succeed('post', 'x.espd', '-o', 'x.stl', '--json')
        lines = [json.loads(line) for line in r.out.splitlines()]
        self.assertEqual(lines[-1]['type'], 'done')
        self.assertEqual(lines[-1]['files'], ['x.stl'])
        self.assertEqual(self.succeed('post', 'x.espd', '-o', 'x.stl', '--quiet').out, '')


class PostRefuses(PostTest):
    def bad(self, *args, says=()):
        says = [says] if isinstance(says, str) else list(says)
        self.fail_with(USAGE, *args, says=says + ["--help'"])

    def test_options(self):
        write(self.path('x.espd'), b'x')
        cases = {'--faces': ('0', '99', '-5', 'many', '1e6', '100000001'), '--texture-size': ('-1', '15', '16385', 'big', '1.5'),
                 '--margin': ('-0.1', '0.02', 'nan', 'x'), '--fill-perimeter': ('-1', 'inf', 'x', '100001'),
                 '--band': ('0', '0.4', '9', 'nan'),
                 '--project': ('-0.1', '1.1', 'x'), '--remesh-res': ('15', '2049', '33', 'x'), '--min-component': ('-1', '101', 'x'),
                 '--remove-floaters': ('-1', '1.5', 'x'), '--padding': ('-1', '65', 'x'), '--despeckle': ('-1', '257', '1.5'),
                 '--ao': ('0', '1025', 'x'), '--alpha': ('half', 'OPAQUE'), '--post': ('dirty', 'Clean'), '--gutter': ('mud',),
                 '--texture-format': ('gif', 'PNG'), '--jpeg-quality': ('0', '101', 'x'), '--size-mm': ('0', '-1', 'x', '1e7'),
                 '--resolution': ('0', '-1', '131073', 'x')}
        for option, values in cases.items():
            for value in values:
                self.bad('post', 'x.espd', '-o', 'x.glb', option, value, says=[option, "'%s'" % value])
            self.bad('post', 'x.espd', '-o', 'x.glb', option, says=["'%s'" % option, 'needs a value'])
            self.bad('post', 'x.espd', '-o', 'x.glb', option, '', says=["'%s'" % option, 'empty value'])
        self.bad('post', says='name a dump')
        self.bad('post', 'x.espd', says='name the result')
        self.bad('post', 'x.espd', 'y.espd', '-o', 'x.glb', says='more than one dump')
        self.bad('post', 'x.espd', '-o', 'x.doc', says=['x.doc', '.glb'])
        self.bad('post', 'x.espd', '-o', 'x.glb', '-o', 'x.glb', says='would be overwritten')
        self.bad('post', 'x.glb', '-o', 'x.glb', says='would be overwritten')
        self.assertEqual(self.files(), ['x.espd'])

    def test_solid_needs_remeshing(self):
        self.dump('sphere', 16, 'x.espd')
        self.fail_with(USAGE, 'post', 'x.espd', '-o', 'x.glb', '--solid', '--no-remesh', says='solid')

    def test_damaged_dumps(self):
        self.dump('sphere', 16, 'good.espd')
        self.dump('sphere', 16, 'good.raw')
        espd, raw = read(self.path('good.espd')), read(self.path('good.raw'))
        v, f, m, resolution = struct.unpack_from('<4i', raw)
        nan = struct.pack('<f', math.nan)
        cases = {
            'empty.raw': b'', 'short.raw': raw[:100], 'cut.espd': espd[:-10], 'header.espd': espd[:200],
            'zero_faces.raw': struct.pack('<4i', v, 0, m, resolution) + raw[16:16 + 12 * v] + raw[16 + 12 * v + 12 * f:],
            'huge.raw': struct.pack('<4i', 2147483647, 2147483647, 2147483647, 512) + raw[16:],
            'negative.raw': struct.pack('<4i', -1, f, m, resolution) + raw[16:],
            'index.raw': raw[:16 + 12 * v] + struct.pack('<i', v) + raw[20 + 12 * v:],
            'nan.raw': raw[:16] + nan + raw[20:],
            'outside.raw': raw[:16 + 12 * v + 12 * f] + struct.pack('<i', resolution) + raw[20 + 12 * v + 12 * f:],
        }
        for name, data in cases.items():
            write(self.path(name), data)
            r = self.run_raw('post', name, '-o', 'x.glb')
            self.assertIn(r.code, (INPUT, UNSOUND, RESOURCE), (name, str(r)))
            self.assertEqual(len(r.err.splitlines()), 1, (name, str(r)))
            self.assertNotIn('x.glb', self.files())
        # One coordinate twice.
        at = 16 + 12 * v + 12 * f
        write(self.path('twice.raw'), raw[:at + 12] + raw[at:at + 12] + raw[at + 24:])
        self.fail_with(INPUT, 'post', 'twice.raw', '-o', 'x.glb')
        self.fail_with(INPUT, 'post', 'missing.espd', '-o', 'x.glb', says='missing.espd')
        write(self.path('mesh.glb'), b'glTF' + bytes(40))
        self.fail_with(INPUT, 'post', 'mesh.glb', '-o', 'x.glb', says=['a mesh', 'voxelize'])
        self.fail_with(OUTPUT, 'post', 'good.espd', '-o', 'no/such/x.glb', says='no such directory')
        self.assertNotIn('x.glb', self.files())

    def test_small_budget(self):
        self.dump('sphere', 64, 'x.espd')
        self.fail_with(RESOURCE, 'post', 'x.espd', '-o', 'x.glb', '--mem-budget', '2M')
        self.assertEqual(self.files(), ['x.espd'])

    def test_interrupt_leaves_nothing(self):
        self.dump('bumpy', 256, 'x.espd')
        p = self.start('post', 'x.espd', '-o', 'x.glb', '--texture-size', 4096, stdout=subprocess.DEVNULL)
        time.sleep(1.0)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130, err)
        self.assertEqual(self.files(), ['x.espd'])


class Voxels(PostTest):
    def test_round_trip(self):
        self.dump('torus', 64, 'x.espd')
        self.succeed('post', 'x.espd', '-o', 'x.glb', '--texture-size', 256, '--faces', 20000)
        self.succeed('voxelize', 'x.glb', '--resolution', 128, '-o', 'x.vxz')
        self.succeed('mesh', 'x.vxz', '-o', 'y.ply', '--resolution', 128)
        self.succeed('mesh', 'x.vxz', '-o', 'z.ply')                      # 128 is what holds it
        self.assertEqual(read(self.path('y.ply')), read(self.path('z.ply')))
        m = self.sound('y.ply')
        self.assertEqual((m['odd_edges'], m['euler_characteristic']), (0, 0))
        distance = json.loads(self.succeed('inspect', '--json', '--compare', 'x.glb', 'y.ply').out)
        self.assertLess(distance['hausdorff'], 1.5 / 128)
        self.succeed('voxelize', 'x.glb', '--resolution', 128, '-o', 'x.npz')
        self.assertEqual(self.inspect('x.npz')['voxels'], self.inspect('x.vxz')['voxels'])
        self.succeed('mesh', 'x.npz', '-o', 'n.ply')
        self.succeed('post', 'x.vxz', '-o', 'p.glb', '--texture-size', 128)
        self.assertEqual(self.sound('p.glb')['odd_edges'], 0)

    def test_clipping_and_fitting(self):
        cube = ['v %g %g %g' % (x, y, z) for x in (0, 4) for y in (0, 4) for z in (0, 4)]
        faces = ['1 2 4 3', '5 7 8 6', '1 5 6 2', '3 4 8 7', '1 3 7 5', '2 6 8 4']
        write(self.path('big.obj'), ('\n'.join(cube + ['f ' + f for f in faces]) + '\n').encode())
        r = self.run_raw('voxelize', 'big.obj', '--resolution', 64, '-o', 'cut.vxz')
        self.assertEqual(r.code, 0, r)
        self.assertIn('--fit', r.err)
        self.succeed('voxelize', 'big.obj', '--resolution', 64, '--fit', '-o', 'fit.vxz')
        self.succeed('mesh', 'fit.vxz', '-o', 'fit.ply')
        m = self.sound('fit.ply')
        self.assertTrue(m['watertight'])
        self.assertAlmostEqual(abs(m['volume']), (62 / 64) ** 3, delta=0.05)

    def test_refuses(self):
        self.dump('sphere', 16, 'x.espd')
        write(self.path('x.obj'), b'v 0 0 0\n')
        for args in (('voxelize', 'x.obj', '-o', 'x.vxz', '--resolution', '63'),
                     ('voxelize', 'x.obj', '-o', 'x.vxz', '--resolution', '2049'),
                     ('voxelize', 'x.obj'), ('voxelize', '-o', 'x.vxz'), ('mesh', 'x.espd'), ('mesh', '-o', 'x.glb'),
                     ('mesh', 'x.espd', '-o', 'x.txt'), ('render', 'x.obj'), ('render', 'x.obj', '-o', 'x.jpg'),
                     ('render', 'x.obj', '-o', 'x.png', '--size', '8'), ('inspect', '--compare', 'x.obj')):
            self.fail_with(USAGE, *args)
        self.fail_with(INPUT, 'voxelize', 'x.obj', '-o', 'x.vxz')
        self.fail_with(INPUT, 'voxelize', 'missing.obj', '-o', 'x.vxz', says='missing.obj')
        write(self.path('bad.vxz'), b'VXZ\0\0\0\0\x10{}')
        self.fail_with(INPUT, 'mesh', 'bad.vxz', '-o', 'x.glb', says='bad.vxz')
        self.fail_with(INPUT, 'mesh', 'x.espd', '-o', 'x.glb', '--resolution', '32', says='resolution')
        self.assertEqual(self.files(), ['bad.vxz', 'x.espd', 'x.obj'])


class Looking(PostTest):
    def test_render(self):
        self.dump('plates', 32, 'x.espd')
        self.succeed('post', 'x.espd', '-o', 'x.glb', '--texture-size', 64)
        self.succeed('render', 'x.glb', '-o', 'x.png', '--size', 64)
        self.assertEqual(png_size(read(self.path('x.png'))), (128, 128))

    def test_inspect_two(self):
        self.dump('sphere', 32, 'x.espd')
        self.succeed('post', 'x.espd', '-o', 'a.ply', '-o', 'b.stl', '--texture-size', 0)
        r = self.succeed('inspect', 'a.ply', 'b.stl')
        self.assertIn('watertight: yes', r.out)
        self.assertIn('hausdorff: ', r.out)
        distance = json.loads(self.succeed('inspect', '--json', '--compare', 'a.ply', 'b.stl').out)
        self.assertLess(distance['hausdorff'], 1e-7)              # the same triangles: what is left is rounding
        r = self.succeed('inspect', '--json', '--self-intersections', 'a.ply')
        self.assertEqual(json.loads(r.out)['self_intersecting_pairs'], 0)
