# SPDX-License-Identifier: MIT
#
# What other programs make of the files that espalier writes: the Khronos glTF validator, strict readers of our own (foreign.py), assimp,
# Blender, TinyUSDZ. Bounds, axes, sense of rotation, number of faces and colours have to come out the same everywhere. Programs that are
# not installed are skipped visibly.
#
# The shapes are those of espalier-make-dump: on "bumpy" red grows with x and green with y (z up), so that the colour of a face tells where
# it must be: a mirrored or turned mesh or texture shows. "plates" is red above and blue below.
import base64
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import foreign
from support import SOURCE, environment, npm_environment, read, settings

SUFFIXES = ('glb', 'gltf', 'obj', 'ply', 'stl', '3mf', 'usdz')
Y_UP = ('glb', 'gltf', 'obj', 'usdz')


def run(*args, **options):
    return subprocess.run([str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300,
                          **options)


shared = {}


def command(*args):
    r = run(*args, cwd=shared['dir'], env=environment())
    assert r.returncode == 0, (args, r.stdout.decode())


def post(dump, name, *options, suffixes=SUFFIXES):
    outputs = [a for s in suffixes for a in ('-o', '%s.%s' % (name, s))]
    command(settings['program'], 'post', dump + '.espd', *outputs, '--quiet', *options)


def setUpModule():
    """x = textured with normal map and occlusion, c = colours of vertices, p = plates, g = no colours."""
    shared['dir'] = tempfile.mkdtemp(prefix='espalier-reimport-')
    unittest.addModuleCleanup(shutil.rmtree, shared['dir'], ignore_errors=True)
    for shape in ('bumpy', 'plates'):
        command(os.path.join(settings['build'], 'espalier-make-dump'), shape, 64, shape + '.espd')
    post('bumpy', 'x', '--faces', 1500, '--texture-size', 256, '--normal-map', '--ao', 8)
    post('bumpy', 'c', '--post', 'none')
    post('bumpy', 'g', '--faces', 1500, '--texture-size', 0)
    post('plates', 'p', '--faces', 600, '--texture-size', 128)
    # From the GLBs, which the glTF validator looks at; z up.
    shared['reference'] = {name: foreign.model_of_glb(os.path.join(shared['dir'], name + '.glb')).z_up() for name in 'xcgp'}


class Files(unittest.TestCase):
    @property
    def dir(self):
        return shared['dir']

    def path(self, name):
        return os.path.join(self.dir, name)

    def reference(self, name):
        return shared['reference'][name]

    def same_faces(self, model, reference, unit=1.0, tolerance=2e-6, what=''):
        """The same triangles in the same order and sense, each beginning with any corner; 3MF and others may be moved."""
        low, at = model.box()[0], reference.box()[0]
        moved = [l - a * unit if unit != 1.0 else 0.0 for l, a in zip(low, at)]
        self.assertEqual(len(model.faces), len(reference.faces), what)
        for face, expect in zip(model.faces, reference.faces):
            best = min(max(abs(face[(k + turn) % 3][i] - moved[i] - expect[k][i] * unit) for k in range(3) for i in range(3))
                       for turn in range(3))
            self.assertLess(best, tolerance * unit, (what, face, expect))

    def colors_tell_places(self, model, faces, tolerance=0.04, what=''):
        """faces: in z up; model.color(i) is the colour at the middle of face i."""
        far = 0
        for i, face in enumerate(faces):
            x, y = (sum(p[k] for p in face) / 3 for k in range(2))
            r, g = (model.color(i) if isinstance(model, foreign.Model) else model[i])[:2]
            far += abs(r - 0.5 - 0.8 * x) > tolerance or abs(g - 0.5 - 0.8 * y) > tolerance
        self.assertLessEqual(far, len(faces) // 100, what)

    def red_above_blue(self, model, faces, what=''):
        for i, face in enumerate(faces):
            color = model.color(i) if isinstance(model, foreign.Model) else model[i]
            z = sum(p[2] for p in face) / 3
            expect = (1, 0, 0) if z > 0 else (0, 0, 1)
            self.assertLess(max(abs(a - b) for a, b in zip(color, expect)), 0.02, (what, face, color))


class GltfValidator(Files):
    def test_all_kinds(self):
        for kind in ('jpeg', 'webp'):
            post('bumpy', kind, '--faces', 1500, '--texture-size', 128, '--normal-map', '--ao', 8, '--texture-format', kind,
                      suffixes=('glb', 'gltf'))
        post('bumpy', 'blend', '--faces', 1500, '--texture-size', 64, '--alpha', 'blend', suffixes=('glb', 'gltf'))
        post('bumpy', 'mask', '--faces', 1500, '--texture-size', 64, '--alpha', 'mask', '--box-uv', suffixes=('glb', 'gltf'))
        post('bumpy', 'reference', '--post', 'reference', '--texture-size', 64, suffixes=('glb', 'gltf'))
        files = sorted(f for f in os.listdir(self.dir) if f.endswith(('.glb', '.gltf')))
        self.assertEqual(len(files), 18)
        try:
            r = run('node', os.path.join(SOURCE, 'tests', 'cli', 'gltf_validate.mjs'), *files, cwd=self.dir,
                    env=npm_environment())
        except FileNotFoundError:
            self.skipTest('node is not installed')
        text = r.stdout.decode()
        if r.returncode == 77:
            self.skipTest(text.strip())
        self.assertEqual(r.returncode, 0, text)
        self.assertIn('18 of 18 files clean', text)
        self.assertNotIn(' severity ', text)                      # neither infos nor hints


class StrictReaders(Files):
    def test_shapes_and_colors(self):
        for name in 'xcp':
            reference = self.reference(name)
            self.assertGreater(reference.volume(), 0) if name != 'c' else None
            for suffix in ('obj', 'ply', '3mf', 'usdz'):
                model = getattr(foreign, 'model_of_' + suffix)(self.path('%s.%s' % (name, suffix)))
                model = model.z_up() if suffix in Y_UP else model
                sides = [h - l for l, h in zip(*reference.box())]
                self.same_faces(model, reference, 100 / max(sides) if suffix == '3mf' else 1.0, what=(name, suffix))
                check = self.red_above_blue if name == 'p' else self.colors_tell_places
                check(model, reference.faces, what=(name, suffix))

    def test_without_colors(self):
        for suffix in ('obj', 'ply', '3mf', 'usdz'):
            model = getattr(foreign, 'model_of_' + suffix)(self.path('g.' + suffix))
            self.assertIsNone(model.picture)
            self.assertIsNone(model.colors if suffix != '3mf' else None)                      # 3MF: one white base material
            self.same_faces(model.z_up() if suffix in Y_UP else model, self.reference('g'),
                            100 / max(h - l for l, h in zip(*self.reference('g').box())) if suffix == '3mf' else 1.0, what=suffix)

    def test_3mf_is_printable(self):
        """Closed, outward, on the bed, as large as asked for."""
        post('bumpy', 'print', '--solid', '--faces', 3000, '--texture-size', 64, '--size-mm', 80, suffixes=('3mf', 'glb'))
        model = foreign.model_of_3mf(self.path('print.3mf'))
        reference = foreign.model_of_glb(self.path('print.glb')).z_up()
        low, high = model.box()
        self.assertTrue(model.closed)
        self.assertLess(max(map(abs, low)), 1e-5)
        self.assertAlmostEqual(max(high), 80, delta=1e-4)
        scale = 80 / max(h - l for l, h in zip(*reference.box()))
        self.assertAlmostEqual(model.volume() / (reference.volume() * scale ** 3), 1, delta=1e-5)
        self.assertGreater(model.volume(), 0.1 * 80 ** 3)

    def test_the_readers_notice(self):
        """A reader that accepted everything would prove nothing."""
        model = foreign.model_of_obj(self.path('x.obj'))
        with self.assertRaises(AssertionError):
            self.same_faces(model, self.reference('x'))                                       # y up for z up
        model.z_up()
        mirrored = [[(-x, y, z) for x, y, z in face] for face in model.faces]
        with self.assertRaises(AssertionError):
            self.colors_tell_places(model, mirrored)
        model.uvs = [[(u, 1 - v) for u, v in face] for face in model.uvs]
        with self.assertRaises(AssertionError):
            self.colors_tell_places(model, model.faces)
        text, parts = foreign.open_usdz(self.path('x.usdz'))
        for old, new in (('@textures/0.png@', '@textures/7.png@'), ('/BaseColor.outputs:rgb>', '/BaseColour.outputs:rgb>'),
                         ('outputs:result>', 'outputs:results>'), ('Material_0>', 'Material_1>')):
            self.assertIn(old, text)
            with self.assertRaises(AssertionError):
                foreign.Stage(text.replace(old, new)).check_references(parts)
        with self.assertRaises(AssertionError):
            foreign.Stage(text.replace('upAxis = "Y"\n)', 'upAxis = "Y"\n'))


class Assimp(Files):
    """Debian package assimp-utils: every format through its importer, out of its OBJ exporter."""

    def setUp(self):
        if not shutil.which('assimp'):
            self.skipTest('the command assimp is not installed (Debian package assimp-utils)')

    def through(self, name, picture=None):
        copy = self.path(name.replace('.', '_') + '_assimp.obj')
        r = run('assimp', 'export', name, copy, cwd=self.dir)
        self.assertTrue(os.path.exists(copy), r.stdout.decode())
        return foreign.model_of_obj(copy, picture)

    def test_shapes(self):
        for name in 'xcgp':
            reference = self.reference(name)
            for suffix in ('glb', 'gltf', 'obj', 'ply', 'stl', '3mf'):
                model = self.through('%s.%s' % (name, suffix), self.path('x_0_color.png'))
                model = model.z_up() if suffix in Y_UP else model
                sides = [h - l for l, h in zip(*reference.box())]
                self.same_faces(model, reference, 100 / max(sides) if suffix == '3mf' else 1.0, what=(name, suffix))

    def test_textures(self):
        for name, check in (('x', self.colors_tell_places), ('p', self.red_above_blue)):
            for suffix in ('glb', 'gltf', 'obj'):
                embedded = None
                if suffix == 'glb':
                    run('assimp', 'extract', name + '.glb', self.path('embedded.png'), '-t0', cwd=self.dir)
                    embedded = self.path('embedded_img0.png') if os.path.exists(self.path('embedded_img0.png')) else self.path('embedded.png')
                model = self.through('%s.%s' % (name, suffix), embedded)
                self.assertIsNotNone(model.picture)
                check(model, model.z_up().faces, what=(name, suffix))

    def test_colors_of_vertices(self):
        for suffix in ('glb', 'obj', 'ply'):
            model = self.through('c.' + suffix)
            self.assertIsNotNone(model.colors, suffix)
            if suffix == 'glb':                                   # assimp hands on what glTF has: light
                model.colors = [[[foreign.encode_srgb(v) for v in c] for c in face] for face in model.colors]
            self.colors_tell_places(model, (model.z_up() if suffix in Y_UP else model).faces, what=suffix)


class Blender(Files):
    """Debian package blender (3.4; built without USD). Nothing installs it: it is large."""

    def test_everything(self):
        if not shutil.which('blender'):
            self.skipTest('Blender is not installed')
        files = [self.path('%s.%s' % (name, suffix)) for name in 'xcgp' for suffix in ('glb', 'gltf', 'obj', 'ply', 'stl', 'usdz')]
        r = run('blender', '-b', '--factory-startup', '--python-exit-code', '3', '--python',
                os.path.join(SOURCE, 'tests', 'cli', 'reimport_blender.py'), '--', self.path('blender.json'), *files, cwd=self.dir,
                env=environment(HOME=self.dir))
        self.assertEqual(r.returncode, 0, r.stdout.decode()[-3000:])
        found = json.loads(read(self.path('blender.json')))
        print('Blender %s' % found['version'])
        for file in files:
            name, suffix = os.path.basename(file).split('.')
            if found[file] is None:
                self.assertEqual(suffix, 'usdz')
                continue
            model = foreign.Model()
            model.faces = found[file]['faces']
            self.same_faces(model, self.reference(name), what=(name, suffix))                  # z up, whatever the file has
            colors = found[file]['colors']
            if name == 'g' or suffix == 'stl':
                self.assertIsNone(colors)
                continue
            self.assertIsNotNone(colors, (name, suffix))
            check = self.red_above_blue if name == 'p' else self.colors_tell_places
            check(colors, model.faces, what=(name, suffix))


class TinyUsdz(Files):
    """npm package tinyusdz, an implementation of USD that shares nothing with Pixar's: tools/deps.sh validator installs it. It knows no
    colours of vertices (UsdPrimvarReader_float3) and would refuse the file."""

    def test_usdz(self):
        files = [self.path(name + '.usdz') for name in 'xgp']
        try:
            r = run('node', os.path.join(SOURCE, 'tests', 'cli', 'reimport_usdz.mjs'), self.path('usdz.json'), *files, cwd=self.dir,
                    env=npm_environment())
        except FileNotFoundError:
            self.skipTest('node is not installed')
        if r.returncode == 77:
            self.skipTest(r.stdout.decode().strip())
        self.assertEqual(r.returncode, 0, r.stdout.decode()[-2000:])
        found = json.loads(read(self.path('usdz.json')))
        for file, name in zip(files, 'xgp'):
            mesh = found[file]
            points = foreign.threes(mesh['points'])
            model = foreign.Model()
            self.assertEqual(set(mesh['counts']), {3})
            model.faces = foreign.threes([points[i] for i in mesh['indices']])
            self.same_faces(model.z_up(), self.reference(name), what=name)
            self.assertEqual(sorted(mesh['textures']), {'x': ['diffuseColor', 'metallic', 'normal', 'occlusion', 'roughness'],
                                                        'p': ['diffuseColor', 'metallic', 'roughness']}.get(name, []))
            if not mesh['textures']:
                continue
            self.assertEqual(mesh['textures']['diffuseColor']['space'], 'srgb')
            self.assertNotEqual(mesh['textures']['roughness']['space'], 'srgb')
            model.uvs = foreign.threes([mesh['uvs'][2 * i:2 * i + 2] for i in mesh['indices']])
            model.picture = foreign.Picture(base64.b64decode(mesh['textures']['diffuseColor']['bytes']))
            check = self.red_above_blue if name == 'p' else self.colors_tell_places
            check(model, model.faces, what=name)
