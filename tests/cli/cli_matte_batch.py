# SPDX-License-Identifier: MIT
#
# `espalier matte`: which network is taken, weights that are missing or wrong, many pictures at once, outputs that must not be touched.
import json
import os
import signal
import struct
import time

import nets
from cli_matte import GRAY, RED, WHITE, MatteTest, boxed, paint
from support import INPUT, MODEL, OUTPUT, USAGE, environment, png, png_read, read, settings, tensors_bytes, tensors_read, write

FAILED_PARTLY = 10


class Choosing(MatteTest):
    def setUp(self):
        super().setUp()
        self.picture = self.make('p.png', boxed(40, 40, (10, 10, 30, 30)))
        self.models = self.path('models', 'TRELLIS.2-4B')
        os.makedirs(self.models)

    def put(self, path, kind):
        path = os.path.join(self.models, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return write(path, nets.red_net(kind))

    def used(self, *args, models=None, **options):
        facts = self.facts(self.picture, '-o', 'x.png', '-m', models or self.models, *args, **options)
        return facts['used'], os.path.relpath(facts.get('network_file', self.models), self.models)

    def test_order(self):
        """Each file that is added is better than those before; only one is opened."""
        for path, kind in (('u2netp/model.safetensors', 'u2netp'), ('u2netp.safetensors', 'u2netp'), ('u2net.safetensors', 'u2net'),
                           ('isnet-general-use.safetensors', 'isnet'), ('isnet.safetensors', 'isnet')):
            self.put(path, kind)
            self.assertEqual(self.used(), (kind, path))
        for kind in ('u2net', 'u2netp', 'isnet'):
            self.assertEqual(self.used('--matte', kind), (kind, kind + '.safetensors'))
        write(os.path.join(self.models, 'u2net.safetensors'), b'damaged')
        self.assertEqual(self.used()[0], 'isnet')

    def test_places_of_birefnet(self):
        """Found, not run: the file is damaged, and the message names it. Nothing else is taken instead."""
        self.put('u2netp.safetensors', 'u2netp')
        for path in ('../../models/models--ZhengPeng7--BiRefNet/snapshots/abc/model.safetensors', '../RMBG-2.0/model.safetensors',
                     '../ZhengPeng7/BiRefNet/model.safetensors', '../BiRefNet/BiRefNet-F16.gguf', '../BiRefNet/model.safetensors',
                     'BiRefNet/model.safetensors', 'birefnet.safetensors', 'birefnet.gguf'):
            full = os.path.join(self.models, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            write(full, b'not weights at all')
            self.fail_with(MODEL, 'matte', self.picture, '-o', 'x.png', '-m', self.models,
                           says=[os.path.basename(path), 'neither a safetensors nor a GGUF file'])
            if not path.startswith('..'):
                os.remove(full)
        # From the directory around it.
        self.put('birefnet.gguf', 'u2netp')
        self.fail_with(MODEL, 'matte', self.picture, '-o', 'x.png', '-m', self.path('models'),
                       says=['TRELLIS.2-4B/birefnet.gguf', 'holds U2-NetP, not the birefnet'])
        self.assertFalse(os.path.exists(self.path('x.png')))

    def test_own_models(self):
        """Without -m the user's own directory is looked in, whether or not the rest of a model is there."""
        own = self.path('data', 'espalier', 'models')
        env = environment(XDG_DATA_HOME=self.path('data'))
        self.fail_with(INPUT, 'matte', self.picture, '-o', 'x.png', env=env, says=['to %s,' % own])
        os.makedirs(own)
        net = write(os.path.join(own, 'u2netp.safetensors'), nets.red_net('u2netp'))
        self.assertEqual(self.facts(self.picture, '-o', 'x.png', env=env)['network_file'], net)
        self.assertEqual(self.facts(self.picture, '-o', 'x.png', '-m', self.models, env=env)['network_file'], net)
        self.put('u2netp.safetensors', 'u2netp')
        self.assertEqual(self.used(env=env), ('u2netp', 'u2netp.safetensors'))

    def test_alpha_wins(self):
        self.put('u2netp.safetensors', 'u2netp')
        rows = paint(40, 40, lambda x, y: (*(RED if 10 <= x < 30 and 10 <= y < 30 else GRAY), 255 if x < 20 else 254))
        self.picture = self.make('alpha.png', png(40, 40, 6, rows))
        for matte in ('auto', 'alpha', 'none', 'threshold', 'u2netp'):
            self.assertEqual(self.used('--matte', matte, warnings=2)[0], 'alpha')
            self.assertEqual(png_read(self.path('x.png')), (40, 40, 4, rows))
        facts = self.facts(self.picture, '-o', 'x.png', '-m', self.models, '--matte', 'u2netp', warnings=2)
        self.assertEqual(facts['reason'], 'the picture has transparency, which wins unless --matte-over-alpha is given')
        self.assertEqual(self.used('--matte-over-alpha')[0], 'u2netp')
        self.assertEqual(self.used('--matte-over-alpha', '--matte', 'u2netp')[0], 'u2netp')
        self.assertEqual(self.agreement(self.path('x.png'), lambda x, y: 10 <= x < 30 and 10 <= y < 30), 1)
        self.assertEqual(self.used('--matte-over-alpha', '--matte', 'none')[0], 'none')
        self.assertEqual(set(png_read(self.path('x.png'))[3][3::4]), {255})
        os.remove(os.path.join(self.models, 'u2netp.safetensors'))
        self.fail_with(INPUT, 'matte', self.picture, '-o', 'y.png', '-m', self.models, '--matte-over-alpha', says='set aside')

    def test_bad_options(self):
        base = ['matte', self.picture, '-o', 'x.png']
        for args, says in ((['--matte', 'rembg'], "--matte 'rembg'"), (['--matte', 'alpha', '--matte-over-alpha'], '--matte-over-alpha'),
                           (['--matte', 'none', '--matte-model', 'f'], '--matte-model'), (['--mask-only', '--preview'], '--preview'),
                           (['--format', 'jpeg'], "'jpeg'"), (['--format', 'webp'], 'directory'), (['-o', 'y.png'], 'y.png'),
                           (['--matte-model', ''], 'empty')):
            self.fail_with(USAGE, *base, *args, says=[says, '--help'])
        self.fail_with(USAGE, 'matte', '-o', 'x.png', says='name a picture')
        self.fail_with(USAGE, 'matte', self.picture, says='name the result')
        for name in ('x.jpg', 'x', 'png', '.png'):
            self.fail_with(USAGE, 'matte', self.picture, '-o', name, says="'%s'" % name)
        self.assertNotIn('x.png', self.files())

    def test_bad_weights(self):
        whole = nets.red_net('u2netp')
        header, data = tensors_read(self.make('good.safetensors', whole))

        def refused(content, says, *args, code=MODEL):
            net = self.make('net.safetensors', content)
            self.fail_with(code, 'matte', self.picture, '-o', 'x.png', '--matte-model', net, *args, says=[net, *says])
            self.assertFalse(os.path.exists(self.path('x.png')))

        self.fail_with(MODEL, 'matte', self.picture, '-o', 'x.png', '--matte-model', 'missing.gguf', says=['missing.gguf', 'no such file'])
        self.fail_with(MODEL, 'matte', self.picture, '-o', 'x.png', '--matte-model', self.models, says=[self.models, 'directory'])
        refused(b'', [])
        refused(b'PK\x03\x04' + bytes(200), ['neither a safetensors nor a GGUF', 'PyTorch checkpoint'])
        onnx = self.make('u2net.onnx', b'\x08\x07\x12\x07pytorch' + bytes(200))
        self.fail_with(MODEL, 'matte', self.picture, '-o', 'x.png', '--matte-model', onnx, says=[onnx, 'docs/matting.md'])
        for n in (4, 100, len(whole) // 2, len(whole) - 4):
            refused(whole[:n], [])
        refused(tensors_bytes({k: v for k, v in header.items() if k != 'stage3.rebnconv2.conv_s1.weight'}, data), ['stage3.rebnconv2'])
        refused(tensors_bytes({'x': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}, bytes(4)), ['no matting network'])
        refused(whole, ['holds U2-NetP, not the birefnet'], '--matte', 'birefnet')
        refused(whole, ['holds U2-NetP, not the u2net'], '--matte', 'u2net')
        refused(nets.red_net('isnet'), ['holds IS-Net, not the u2netp'], '--matte', 'u2netp')
        begin = header['side1.bias']['data_offsets'][0]
        nan = self.make('nan.safetensors', tensors_bytes(header, data[:begin] + struct.pack('<f', float('nan')) + data[begin + 4:]))
        self.fail_with(MODEL, 'matte', self.picture, '-o', 'x.png', '--matte-model', nan, says=['matting with U2-NetP', 'side1.bias'])


class Batch(MatteTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path('in'))
        for i, side in enumerate((10, 14, 18)):
            write(self.path('in', 'p%d.png' % i), boxed(40, 40, (10, 10, 10 + side, 10 + side)))
        write(self.path('in', 'notes.txt'), b'no picture')
        write(self.path('in', '._p0.png'), b'of some file manager')
        os.mkdir(self.path('in', 'deeper.png'))
        self.weights = self.net('u2netp.safetensors')
        self.base = ['matte', '--matte-model', self.weights]

    def out(self):
        return sorted(os.listdir(self.path('out')))

    def test_directory(self):
        r = self.succeed(*self.base, 'in', '-o', 'out')
        self.assertEqual(self.out(), ['p0.png', 'p1.png', 'p2.png'])
        self.assertRegex(r.out.splitlines()[-1], r'^3 pictures: 3 written, 0 failed, 0 left out, \d+\.\d s$')
        self.assertIn('[2/3] in/p1.png', r.out)
        for i, side in enumerate((10, 14, 18)):
            self.succeed(*self.base, self.path('in', 'p%d.png' % i), '-o', 'single.png')
            self.assertEqual(read(self.path('single.png')), read(self.path('out', 'p%d.png' % i)))      # a batch is its single runs
        self.succeed(*self.base, 'in/p0.png', 'in/p2.png', '-o', 'two/', '--format', 'webp')
        self.assertEqual(sorted(os.listdir(self.path('two'))), ['p0.webp', 'p2.webp'])
        self.succeed(*self.base, 'in/p0.png', '-o', 'two')                  # one picture into a directory that is there
        self.assertEqual(sorted(os.listdir(self.path('two'))), ['p0.png', 'p0.webp', 'p2.webp'])

    def test_progress(self):
        lines = self.json('in', '-o', 'out', '--matte-model', self.weights)
        self.assertEqual([line['type'] for line in lines], 3 * ['progress', 'notice', 'matte'] + ['done'])
        self.assertEqual([(line['done'], line['total']) for line in lines if line['type'] == 'progress'], [(0, 3), (1, 3), (2, 3)])
        self.assertEqual({k: lines[-1][k] for k in ('pictures', 'written', 'failed', 'left_out')},
                         {'pictures': 3, 'written': 3, 'failed': 0, 'left_out': 0})

    def test_some_fail(self):
        write(self.path('in', 'p1.png'), read(self.path('in', 'p1.png'))[:80])
        write(self.path('in', 'q.png'), boxed(20, 20, (0, 0, 0, 0)))
        r = self.run_raw(*self.base, 'in', 'missing.jpg', '-o', 'out')
        self.assertEqual(r.code, FAILED_PARTLY, r)
        self.assertEqual(self.out(), ['p0.png', 'p2.png'])
        errors = r.err.splitlines()
        self.assertEqual(len(errors), 3, r)
        for line, name in zip(errors, ('in/p1.png', 'in/q.png', 'missing.jpg')):
            self.assertTrue(line.startswith('espalier: %s: ' % name), r)
        self.assertRegex(r.out.splitlines()[-1], '^5 pictures: 2 written, 3 failed, 0 left out')
        r = self.run_raw(*self.base, 'in', 'missing.jpg', '-o', 'out', '--json')
        lines = [json.loads(line) for line in r.out.splitlines()]
        self.assertEqual([line['status'] for line in lines if line['type'] == 'error'], [INPUT, INPUT, INPUT])
        self.assertEqual((r.code, lines[-1]['failed']), (FAILED_PARTLY, 3))

    def test_weights_end_it(self):
        """What no picture can do without is told once."""
        os.rename(self.weights, self.path('birefnet.gguf'))
        r = self.fail_with(MODEL, 'matte', 'in', '-m', self.dir, '-o', 'out', says=['birefnet.gguf', 'holds U2-NetP'])
        self.assertRegex(r.out.splitlines()[-1], '^3 pictures: 0 written, 1 failed, 2 left out')

    def test_names(self):
        write(self.path('in', 'p1.jpg'), b'x')
        self.fail_with(USAGE, *self.base, 'in', '-o', 'out', says=['in/p1.jpg', 'in/p1.png', 'would both become', 'out/p1.png'])
        self.fail_with(USAGE, *self.base, 'in/p0.png', 'in/p0.png', '-o', 'out', says='would both become')
        os.mkdir(self.path('other'))
        write(self.path('other', 'p0.webp'), b'x')
        self.fail_with(USAGE, *self.base, 'in/p0.png', 'other', '-o', 'out', says=['in/p0.png', 'other/p0.webp'])
        self.assertFalse(os.path.exists(self.path('out')))

    def test_inputs_stay(self):
        before = {name: read(self.path('in', name)) for name in ('p0.png', 'p1.png', 'p2.png')}
        os.symlink(self.path('in', 'p0.png'), self.path('link.png'))
        os.link(self.path('in', 'p0.png'), self.path('hard.png'))
        os.symlink('in', self.path('same'))
        for args in (['in', '-o', 'in'], ['in', '-o', 'same'], ['in/p0.png', '-o', 'in/p0.png'], ['in/p0.png', '-o', './in/../in/p0.png'],
                     ['in/p0.png', '-o', 'link.png'], ['in/p0.png', '-o', 'hard.png'], ['in/p0.png', 'link.png', '-o', 'in'],
                     ['in/p0.png', 'in/p1.png', '-o', 'in/']):
            self.fail_with(USAGE, *self.base, *args, says='would be overwritten')
        self.assertEqual(before, {name: read(self.path('in', name)) for name in before})

    def test_outputs(self):
        os.mkdir(self.path('empty'))
        self.fail_with(INPUT, *self.base, 'empty', '-o', 'out', says=['empty', 'no pictures'])
        self.fail_with(INPUT, *self.base, 'in/p0.png', 'empty', '-o', 'out', says=['empty', 'no pictures'])
        self.assertFalse(os.path.exists(self.path('out')))
        write(self.path('file'), b'mine')
        self.fail_with(OUTPUT, *self.base, 'in', '-o', 'file', says=['file', 'not a directory'])
        self.fail_with(OUTPUT, *self.base, 'in', '-o', 'no/such/out', says='no/such/out')
        self.fail_with(OUTPUT, *self.base, 'in/p0.png', '-o', 'no/x.png', says='no such directory')
        self.fail_with(OUTPUT, *self.base, 'in/p0.png', '-o', 'file/x.png', says='no such directory')
        self.assertEqual(read(self.path('file')), b'mine')
        # A name that is taken by a directory fails alone.
        os.makedirs(self.path('out', 'p1.png'))
        r = self.run_raw(*self.base, 'in', '-o', 'out')
        self.assertEqual(r.code, FAILED_PARTLY, r)
        self.assertIn('out/p1.png', r.err)
        self.assertEqual(self.out(), ['p0.png', 'p1.png', 'p2.png'])
        if os.geteuid() != 0:
            os.mkdir(self.path('locked'), 0o555)
            self.fail_with(OUTPUT, *self.base, 'in', '-o', 'locked', says='locked')

    def test_full_disk(self):
        if not os.path.exists('/dev/full'):
            self.skipTest('no /dev/full')
        os.symlink('/dev/full', self.path('full.png'))
        r = self.run_raw(*self.base, 'in/p0.png', '-o', 'full.png')
        self.assertEqual((r.code, len(r.err.splitlines())), (OUTPUT, 1), r)
        os.makedirs(self.path('out'))
        os.symlink('/dev/full', self.path('out', 'p1.png'))
        r = self.run_raw(*self.base, 'in', '-o', 'out')
        self.assertEqual(r.code, FAILED_PARTLY, r)
        self.assertEqual(self.out(), ['p0.png', 'p1.png', 'p2.png'])
        self.assertEqual(png_read(self.path('out', 'p2.png'))[:3], (40, 40, 4))

    def test_stopping(self):
        """A signal at any moment: what was finished is whole, nothing else is there."""
        for i in range(3, 12):
            write(self.path('in', 'p%d.png' % i), boxed(40, 40, (10, 10, 30, 30)))
        for delay in (0.05, 0.3, 0.8, 1.5):
            p = self.start(*self.base, 'in', '-o', 'out')
            time.sleep(delay * (4 if settings['sanitized'] else 1))
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=60)
            if p.returncode == -signal.SIGINT:           # before the command could catch it
                continue
            self.assertIn(p.returncode, (0, 130), err)
            if p.returncode == 130:
                self.assertEqual(err, b'espalier: cancelled\n')
                self.assertIn(b'left out', out)
            for name in self.out():
                self.assertEqual(name[-4:], '.png')
                self.assertEqual(png_read(self.path('out', name))[:3], (40, 40, 4))


class Threshold(MatteTest):
    def test_batch_of_mixed_pictures(self):
        """Each picture goes its own way, and says so."""
        os.mkdir(self.path('in'))
        write(self.path('in', 'a.png'), boxed(30, 30, (8, 8, 22, 22), outside=WHITE))
        write(self.path('in', 'b.png'), png(30, 30, 6, paint(30, 30, lambda x, y: (*RED, 255 if 8 <= x < 22 and 8 <= y < 22 else 0))))
        lines = [line for line in self.json('in', '-o', 'out', '--matte', 'threshold') if line['type'] == 'matte']
        self.assertEqual([line['used'] for line in lines], ['threshold', 'alpha'])
        self.assertEqual(png_read(self.path('out', 'a.png'))[3][3::4], png_read(self.path('out', 'b.png'))[3][3::4])
