# SPDX-License-Identifier: MIT
#
# espalier inspect on everything it knows, whole and damaged.
import json
import os
import struct

from support import INPUT, MICRO, MICRO_PICTURE, MODEL, PARTS, TINY, CommandTest, MicroCopy, read, write


class Inspect(CommandTest):
    def inspect(self, path):
        info = json.loads(self.succeed('inspect', '--json', path).out)
        text = self.succeed('inspect', path).out
        self.assertIn('kind: %s\n' % info['kind'], text)
        for key, value in info.items():
            if isinstance(value, (str, int)) and not isinstance(value, bool):
                self.assertIn('%s: %s\n' % (key, value), text)
        return info

    def test_picture(self):
        info = self.inspect(MICRO_PICTURE)
        self.assertEqual((info['kind'], info['format'], info['channels'], info['has_alpha']), ('picture', 'png', 4, True))
        self.assertGreater(info['transparent_share'], 0)
        self.assertGreater(info['foreground_share'], 0)

    def test_model(self):
        for directory in (MICRO, TINY):
            info = self.inspect(directory)
            self.assertEqual((info['kind'], info['layout'], info['default_pipeline']), ('model', 'huggingface', '512'))
            usable = {p['pipeline']: p['usable'] for p in info['pipelines']}
            self.assertEqual(usable, {'512': 'yes', '1024': 'no', '1024_cascade': 'no', '1536_cascade': 'no'})
            found = {r['role']: r['found'] for r in info['roles']}
            self.assertEqual(sum(found.values()), 7)
            self.assertFalse(found['shape_slat_flow_model_1024'])
            self.assertEqual([(m['network'], m['found']) for m in info['matting']],
                             [('birefnet', False), ('isnet', False), ('u2net', False), ('u2netp', False)])
            self.assertEqual(info['matting'][0]['wanted'], 'birefnet.gguf or BiRefNet/model.safetensors')
            for role in info['roles']:
                if role['found']:
                    self.assertGreater(role['parameters'], 1000)
                    text = ','.join('%s:%d' % item for item in role['dtypes'].items())
                    self.assertIn('  dtypes=' + text, self.succeed('inspect', directory).out)
        model = MicroCopy(self.path('m'))
        model.remove('tex_dec')
        info = self.inspect(model.dir)
        first = info['pipelines'][0]
        self.assertEqual(first['usable'], 'without texture')
        self.assertIn(PARTS['tex_dec'], first['missing'])
        model.remove('encoder')
        self.assertEqual(self.inspect(model.dir)['pipelines'][0]['usable'], 'no')

    def test_weights(self):
        path = os.path.join(MICRO, PARTS['ss_dec'] + '.safetensors')
        info = self.inspect(path)
        self.assertEqual((info['kind'], info['format'], info['tensors']), ('weights', 'safetensors', len(info['list'])))
        self.assertEqual(sum(info['dtypes'].values()), info['tensors'])
        self.assertIn({'name': 'out_layer.2.bias', 'dtype': 'F32', 'shape': '1'}, info['list'])
        gguf = [os.path.join(d, f) for d, _, names in os.walk(os.path.join(os.path.dirname(MICRO))) for f in names if f.endswith('.gguf')]
        self.assertTrue(gguf)
        info = self.inspect(gguf[0])
        self.assertEqual((info['kind'], info['format']), ('weights', 'gguf'))

    def test_results(self):
        self.succeed(*self.micro('--dump-post', 'x.espd'))
        report = json.loads(self.succeed(*self.micro('-o', 'x.glb', '--post', 'none', '--report', 'r.json', '--json')).out.splitlines()[-1])
        raw = json.loads(read(self.path('r.json')))['raw_mesh']
        info = self.inspect('x.glb')
        self.assertEqual((info['kind'], info['version'], info['triangles'], info['meshes']), ('glb', 2, report['faces'], 1))
        self.assertEqual(info['mesh']['soundness']['boundary_edges'], raw['boundary_edges'])
        self.assertEqual(info['mesh']['soundness']['nonmanifold_edges'], raw['nonmanifold_edges'])
        self.assertIn('espalier', info['generator'].lower())
        self.assertEqual(info['extras']['seed'], 42)
        self.succeed(*self.micro('--dump-post', 'x.qtm3d'))
        self.succeed(*self.micro('--dump-post', 'x.bin'))
        for name, logits in (('x.espd', True), ('x.qtm3d', False), ('x.bin', False)):
            info = self.inspect(name)
            self.assertEqual((info['kind'], info['vertices'], info['faces'], info['resolution'], info['has_materials'], info['has_logits']),
                             ('dump', raw['vertices'], report['raw_faces'], 64, True, logits))

    def test_several(self):
        r = self.run_raw('inspect', '--json', MICRO_PICTURE, 'missing', MICRO)
        self.assertEqual(r.code, INPUT)
        self.assertEqual(r.err.splitlines(), ['espalier: missing: no such file'] if 'no such file' in r.err else r.err.splitlines())
        self.assertEqual(len(r.err.splitlines()), 1)
        self.assertIn('"kind": "picture"', r.out)
        self.assertIn('"kind": "model"', r.out)

    def test_damaged(self):
        def bad(code, data, *says, name='f.bin'):
            path = write(self.path(name), data)
            for more in ([], ['--json']):
                r = self.fail_with(code, 'inspect', *more, path, says=[name, *says])
                self.assertEqual(r.out, '')
        bad(INPUT, b'', 'empty')
        bad(INPUT, b'hello\n' * 10)
        bad(INPUT, b'\0' * 64)
        bad(INPUT, b'\xff' * 200)
        bad(INPUT, b'\x89PNG\r\n\x1a\n' + b'\0' * 30)
        bad(INPUT, b'glTF' + b'\0' * 40)
        self.succeed(*self.micro('-o', 'x.glb', '--dump-post', 'x.espd'))
        glb = read(self.path('x.glb'))
        for n in (4, 11, 12, 19, 20, 30, len(glb) - 1):
            bad(INPUT, glb[:n])
        bad(INPUT, glb[:8] + struct.pack('<I', 40) + glb[12:40])
        bad(INPUT, glb[:12] + struct.pack('<I', 2 ** 32 - 1) + glb[16:])
        bad(INPUT, glb[:20] + b'{' * 50 + glb[70:])
        espd = read(self.path('x.espd'))
        for n in (1, 8, 9, 100, len(espd) // 2, len(espd) - 1):
            bad(INPUT, espd[:n], name='f.espd')
        for suffix in ('qtm3d', 'bin'):
            self.succeed(*self.micro('--dump-post', 'x.' + suffix))
            data = read(self.path('x.' + suffix))
            for n in (8, 16, 20, len(data) // 2, len(data) - 1):
                bad(INPUT, data[:n], name='f.' + suffix)
        weights = read(os.path.join(MICRO, PARTS['ss_dec'] + '.safetensors'))
        for n in (0, 7, 100, len(weights) - 1):
            bad(INPUT if n == 0 else MODEL, weights[:n], name='f.safetensors')
        bad(MODEL, b'GGUF' + b'\xff' * 40, name='f.gguf')
        self.fail_with(MODEL, 'inspect', self.dir, says='pipeline.json')
        self.fail_with(INPUT, 'inspect', '/dev/null')
