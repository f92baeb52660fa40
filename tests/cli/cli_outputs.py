# SPDX-License-Identifier: MIT
#
# What a run leaves behind: GLB, dumps and report, each against what it promises, and the same bytes however it was computed.
import json
import math
import os
import subprocess

from support import (MICRO_PICTURE, SOURCE, TINY, TINY_PICTURE, CommandTest, accessor, glb_read, npm_environment, qtm3d_read, read,
                     schema_errors, settings, tensor_values, tensors_read, trellis_read)


def decode_srgb(v):
    v = min(max(v, 0.0), 1.0)
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


class Formats(CommandTest):
    def setUp(self):
        super().setUp()
        self.succeed(*self.micro('-o', 'x.glb', '--dump-post', 'x.espd', '--post', 'none'))
        self.header, self.data = tensors_read(self.path('x.espd'))

    def tensor(self, name):
        return tensor_values(self.header, self.data, name)

    def test_espd(self):
        shapes = {k: (v['dtype'], v['shape']) for k, v in self.header.items()}
        n = shapes['vertices'][1][0]
        self.assertEqual(shapes['vertices'], ('F32', [n, 3]))
        self.assertEqual(shapes['faces'][0], 'I32')
        coords = next(k for k in shapes if k in ('coords', 'voxels'))
        self.assertEqual(shapes[coords][1][0], n)
        self.assertLess(max(self.tensor('faces')), n)
        floats = [k for k, (dtype, _) in shapes.items() if dtype == 'F32']
        self.assertTrue(all(math.isfinite(v) for k in floats for v in self.tensor(k)))
        # Lossless: logits of every level and of the intersections, dual vertices, split weights, attributes.
        text = ' '.join(shapes)
        for part in ('logits', 'split', 'sub'):
            self.assertIn(part, text)
        # Vertex i lies in voxel i.
        rows = self.tensor(coords)
        width = shapes[coords][1][1]
        vertices = self.tensor('vertices')
        for i in range(n):
            cell = rows[width * i + width - 3:width * i + width]
            for axis in range(3):
                at = (vertices[3 * i + axis] + 0.5) * 64
                self.assertLess(abs(at - (cell[axis] + 0.5)), 1.001)

    def test_glb(self):
        doc, binary = glb_read(self.path('x.glb'))
        self.assertEqual(doc['asset']['version'], '2.0')
        for key in ('extensionsUsed', 'extensionsRequired', 'images', 'textures'):
            self.assertNotIn(key, doc)
        primitive = doc['meshes'][0]['primitives'][0]
        positions = accessor(doc, binary, primitive['attributes']['POSITION'])
        colors = accessor(doc, binary, primitive['attributes']['COLOR_0'])
        indices = accessor(doc, binary, primitive['indices'])
        faces, vertices = self.tensor('faces'), self.tensor('vertices')
        attributes = self.tensor(next(k for k in self.header if k in ('pbr', 'attrs', 'attributes')))
        used = sorted(set(faces))
        number = {v: i for i, v in enumerate(used)}
        self.assertEqual(len(positions), len(used))
        self.assertEqual(len(indices), len(faces))
        for i in range(0, len(faces), 3):                                       # the same faces, turned outward
            self.assertEqual(indices[i], number[faces[i]])
            self.assertEqual(set(indices[i:i + 3]), {number[v] for v in faces[i:i + 3]})
        for i, v in enumerate(used):
            x, y, z = vertices[3 * v:3 * v + 3]
            self.assertEqual(positions[i], (x, z, -y))
        a = doc['accessors'][primitive['attributes']['POSITION']]
        self.assertEqual(a['min'], [min(p[k] for p in positions) for k in range(3)])
        self.assertEqual(a['max'], [max(p[k] for p in positions) for k in range(3)])
        self.assertEqual(len(colors), len(used))
        for i, v in enumerate(used):
            for k in range(3):                                                  # to the nearest of 256 steps
                byte = math.floor(min(max(attributes[6 * v + k], 0.0), 1.0) * 255 + 0.5)
                self.assertLess(abs(colors[i][k] / 65535 - decode_srgb(byte / 255)), 2e-5)
        self.assertEqual(doc['accessors'][primitive['attributes']['COLOR_0']].get('normalized'), True)

    def test_dumps_agree(self):
        """The three dump formats hold the same mesh; trellis.cpp's layout is the one of its --dump-post."""
        self.succeed(*self.micro('--dump-post', 'x.qtm3d'))
        self.succeed(*self.micro('--dump-post', 'x.bin'))
        vertices, faces, coords, attributes, resolution = trellis_read(self.path('x.bin'))
        self.assertEqual(resolution, 64)
        self.assertEqual(list(vertices), self.tensor('vertices'))
        self.assertEqual(list(faces), self.tensor('faces'))
        name = next(k for k in self.header if k in ('coords', 'voxels'))
        rows, width = self.tensor(name), self.header[name]['shape'][1]
        self.assertEqual(list(coords), [v for i in range(len(rows) // width) for v in rows[width * i + width - 3:width * i + width]])
        clamped = [min(max(v, 0.0), 1.0) for v in self.tensor(next(k for k in self.header if k in ('pbr', 'attrs', 'attributes')))]
        self.assertLess(max(abs(a - b) for a, b in zip(attributes, clamped)), 1e-6)
        doc, arrays = qtm3d_read(self.path('x.qtm3d'))
        self.assertEqual((doc['formatVersion'], doc['meta']['resolution'], doc['meta']['seed'], doc['meta']['colorSpace']), (1, 64, 42, 'srgb'))
        self.assertEqual(arrays['positions'], vertices)
        self.assertEqual(arrays['indices'], faces)
        self.assertEqual(arrays['voxel_coords'], coords)
        self.assertLessEqual(max(abs(a - 255 * b) for a, b in zip(arrays['voxel_attrs'], clamped)), 0.5001)

    def test_which_files(self):
        for name in ('only.espd', 'only.qtm3d', 'only.trellisraw', 'only'):
            self.succeed(*self.micro('--dump-post', name))
            self.assertEqual(self.files(), sorted([name, 'x.espd', 'x.glb']))
            os.unlink(self.path(name))
        with_dump = read(self.path('x.glb'))
        self.succeed(*self.micro('-o', 'alone.glb', '--post', 'none'))
        self.assertEqual(read(self.path('alone.glb')), with_dump)

    def test_without_texture(self):
        self.succeed(*self.micro('-o', 'n.glb', '--dump-post', 'n.bin', '--no-texture', '--post', 'none'))
        doc, binary = glb_read(self.path('n.glb'))
        primitive = doc['meshes'][0]['primitives'][0]
        self.assertEqual(list(primitive['attributes']), ['POSITION'])
        full, full_binary = glb_read(self.path('x.glb'))
        self.assertEqual(accessor(doc, binary, primitive['attributes']['POSITION']),
                         accessor(full, full_binary, full['meshes'][0]['primitives'][0]['attributes']['POSITION']))
        vertices, faces, coords, attributes, resolution = trellis_read(self.path('n.bin'))
        self.assertEqual((len(coords), len(attributes)), (0, 0))
        self.assertEqual(list(vertices), self.tensor('vertices'))
        for name in ('n.espd', 'n.qtm3d'):
            self.succeed(*self.micro('--dump-post', name, '--no-texture'))
            info = json.loads(self.succeed('inspect', '--json', name).out)
            self.assertFalse(info['has_materials'])

    def test_gltf_validator(self):
        self.succeed(*self.micro('-o', 'plain.glb', '--no-texture'))
        self.succeed('generate', TINY_PICTURE, '-m', TINY, '-o', 'tiny.glb', '--steps', '2')
        try:
            r = subprocess.run(['node', os.path.join(SOURCE, 'tests', 'cli', 'gltf_validate.mjs'), 'x.glb', 'plain.glb', 'tiny.glb'], cwd=self.dir,
                               env=npm_environment(), capture_output=True, text=True, timeout=120)
        except FileNotFoundError:
            self.skipTest('node is not installed')
        if r.returncode == 77:
            self.skipTest(r.stdout.strip())
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn('3 of 3 files clean', r.stdout)


class SameBytes(CommandTest):
    NAMES = ('x.glb', 'x.espd')

    def results(self, *args, dump='x.espd', base=None):
        self.succeed(*(base or self.micro()), '-o', 'x.glb', '--dump-post', dump, '--quiet', *args)
        both = read(self.path('x.glb')), read(self.path(dump))
        os.unlink(self.path('x.glb'))
        os.unlink(self.path(dump))
        return both

    def levels(self):
        return self.succeed('devices').out.splitlines()[0].split('supported:')[1].rstrip(')').split()

    def test_twice(self):
        for dump in ('x.espd', 'x.qtm3d', 'x.bin'):
            self.assertEqual(self.results(dump=dump), self.results(dump=dump))

    def test_however_computed(self):
        first = self.results()
        for args in (['--threads', '1'], ['--threads', '2'], ['--threads', '5'], ['--mem-budget', '8M'], ['--force'],
                     *[['--cpu-level', level] for level in self.levels()]):
            self.assertEqual(self.results(*args), first, args)
        self.assertNotEqual(self.results('--seed', '43'), first)

    def test_tiny_model(self):
        base = ['generate', TINY_PICTURE, '-m', TINY, '--steps', '2']
        first = self.results(base=base)
        for args in (['--threads', '1'], ['--cpu-level', 'avx2'], ['--mem-budget', '16M']):
            if args[1] in ('avx2',) and 'avx2' not in self.levels():
                continue
            self.assertEqual(self.results(*args, base=base), first, args)

    def test_place_does_not_matter(self):
        first = self.results()
        os.mkdir(self.path('elsewhere'))
        self.succeed(*self.micro('-o', 'elsewhere/y.glb', '--dump-post', 'elsewhere/y.espd'))
        self.assertEqual((read(self.path('elsewhere/y.glb')), read(self.path('elsewhere/y.espd'))), first)


class Report(CommandTest):
    def check(self, report):
        with open(os.path.join(SOURCE, 'docs', 'report.schema.json')) as f:
            self.assertEqual(schema_errors(json.load(f), report), [])

    def report(self, *args):
        self.succeed(*args, '--report', 'r.json')
        report = json.loads(read(self.path('r.json')))
        self.check(report)
        return report

    def test_the_checker_checks(self):
        report = self.report(*self.micro('-o', 'x.glb'))
        for change in (lambda r: r.pop('gates'), lambda r: r['run'].pop('version'), lambda r: r.update(more=1), lambda r: r.update(report_version=2),
                       lambda r: r['run'].update(threads='2'), lambda r: r['run'].update(threads=True), lambda r: r['stages'][0].update(name='x'),
                       lambda r: r['picture'].update(pixels_hash='XYZ'), lambda r: r['gates'][0].update(passed=1),
                       lambda r: r['raw_mesh'].update(largest_component_share=1.5)):
            damaged = json.loads(json.dumps(report))
            change(damaged)
            with self.assertRaises(AssertionError):
                self.check(damaged)

    def test_contents(self):
        report = self.report(*self.micro('-o', 'x.glb', '--dump-post', 'x.espd'))
        self.assertEqual([s['name'] for s in report['stages']], ['preprocess', 'condition', 'structure', 'shape', 'texture', 'decode', 'finish'])
        for s in report['stages']:
            self.assertEqual((s['nan'], s['inf']), (0, 0))
            if 'planned_bytes' in s:
                self.assertLessEqual(s['peak_bytes'], s['planned_bytes'], s)
        for name in ('condition', 'structure', 'shape', 'texture', 'decode'):
            self.assertGreater([s for s in report['stages'] if s['name'] == name][0]['peak_bytes'], 0)
        self.assertTrue(all(g['passed'] for g in report['gates']))
        self.assertEqual({g['name'] for g in report['gates']}, {'nan', 'no_voxels', 'largest_component', 'closed', 'winding'})
        self.assertTrue(os.path.samefile(report['run']['model'], os.path.join(SOURCE, 'tests/golden/micro_model')))
        # The decisions as the dump has them.
        header, data = tensors_read(self.path('x.espd'))
        by_name = {d['name']: d for d in report['decisions']}
        levels = [n for n in by_name if n.startswith('subdivision.')]
        self.assertEqual(len(by_name), 2 + len(levels))
        self.assertGreaterEqual(len(levels), 2)
        logits = {}
        for key in header:
            if 'intersect' in key and 'logit' in key:
                logits['intersection'] = tensor_values(header, data, key)
            for i in range(len(levels)):
                if key.endswith('.%d' % i) or key.endswith('_%d' % i) or ('.%d.' % i) in key or ('_%d_' % i) in key:
                    if 'logit' in key or ('sub' in key and 'coords' not in key):
                        logits['subdivision.%d' % i] = tensor_values(header, data, key)
        self.assertEqual(sorted(logits), sorted(levels + ['intersection']), sorted(header))
        for name, values in logits.items():
            d = by_name[name]
            self.assertEqual(d['count'], len(values))
            self.assertAlmostEqual(d['yes_share'], sum(v > 0 for v in values) / len(values), 12)
            for key, limit in (('within_1e-4', 1e-4), ('within_1e-3', 1e-3), ('within_1e-2', 1e-2)):
                self.assertEqual(d[key], sum(abs(v) <= limit for v in values))
            self.assertEqual(d['min_abs'], min(abs(v) for v in values))
        # The mesh, counted again.
        faces = tensor_values(header, data, 'faces')
        edges = {}
        for i in range(0, len(faces), 3):
            for a, b in ((0, 1), (1, 2), (2, 0)):
                edges.setdefault(tuple(sorted((faces[i + a], faces[i + b]))), []).append(i // 3)
        parent = list(range(len(faces) // 3))

        def root(i):
            while parent[i] != i:
                parent[i] = parent[parent[i]]
                i = parent[i]
            return i
        for sharing in edges.values():
            for other in sharing[1:]:
                parent[root(other)] = root(sharing[0])
        sizes = {}
        for i in range(len(parent)):
            sizes[root(i)] = sizes.get(root(i), 0) + 1
        mesh = report['raw_mesh']
        self.assertEqual((mesh['faces'], mesh['vertices'], mesh['used_vertices']), (len(parent), header['vertices']['shape'][0], len(set(faces))))
        self.assertEqual((mesh['edges'], mesh['boundary_edges'], mesh['nonmanifold_edges']),
                         (len(edges), sum(len(s) == 1 for s in edges.values()), sum(len(s) > 2 for s in edges.values())))
        self.assertEqual(mesh['components'], len(sizes))
        self.assertAlmostEqual(mesh['largest_component_share'], max(sizes.values()) / len(parent), 12)
        self.assertEqual(report['result']['voxels'], mesh['vertices'])

    def test_partial(self):
        report = self.report(*self.micro('-o', 'x.glb', '--no-texture', '--mem-budget', '32M', '--threads', '1'))
        self.assertEqual([s['name'] for s in report['stages']], ['preprocess', 'condition', 'structure', 'shape', 'decode', 'finish'])
        self.assertEqual((report['run']['texture'], report['run']['memory_budget'], report['run']['threads']), (False, 32 << 20, 1))
        for s in report['stages']:
            self.assertLessEqual(s['peak_bytes'], 32 << 20)

    def test_tiny(self):
        report = self.report('generate', TINY_PICTURE, '-m', TINY, '-o', 'x.glb', '--steps', '2')
        self.assertEqual(report['picture']['width'], 256)
