# SPDX-License-Identifier: MIT
#
# Cutting objects out: `espalier matte`, and `generate` on pictures without transparency. Pictures are drawn here, so that their mattes are
# known; networks are those of nets.py, which cut out what is red, and the tiny BiRefNet of the golden cases.
import json
import os
import struct

import nets
from support import (DEVICE, INPUT, MICRO, MODEL, RESOURCE, SOURCE, USAGE, CommandTest, MicroCopy, exif_chunk, glb_read, png, png_chunk,
                     png_read, read, schema_errors, settings, write)

RED, GRAY, WHITE = (200, 40, 40), (128, 128, 128), (255, 255, 255)


def paint(width, height, color):
    """color(x, y) -> bytes of a pixel; rows of all of them."""
    return b''.join(bytes(color(x, y)) for y in range(height) for x in range(width))


def in_box(x, y, box):
    return box[0] <= x < box[2] and box[1] <= y < box[3]


def boxed(width, height, box, inside=RED, outside=GRAY):
    return png(width, height, 2, paint(width, height, lambda x, y: inside if in_box(x, y, box) else outside))


def alpha_of(path):
    width, height, channels, pixels = png_read(path)
    assert channels == 4
    return width, height, pixels[3::4]


class MatteTest(CommandTest):
    def make(self, name, data):
        return write(self.path(name), data)

    def net(self, name, kind=None, **options):
        return self.make(name, nets.red_net(kind or name.split('.')[0], **options))

    def json(self, *args, **options):
        """All lines of one run."""
        return [json.loads(line) for line in self.succeed('matte', *args, '--json', **options).out.splitlines()]

    def facts(self, *args, **options):
        """What is said about the only picture."""
        lines = [line for line in self.json(*args, **options) if line['type'] == 'matte']
        self.assertEqual(len(lines), 1)
        return lines[0]

    def agreement(self, path, truth):
        """Intersection over union of the alpha at 128 and truth(x, y)."""
        width, height, alpha = alpha_of(path)
        both = either = 0
        for i, a in enumerate(alpha):
            mine, right = a >= 128, bool(truth(i % width, i // width))
            both += mine and right
            either += mine or right
        return both / either


class KnownMistakes(MatteTest):
    """Pictures that other programs got wrong."""

    def test_subject_on_a_gray_frame(self):
        """A subject of 22..32 % without a network: nothing is guessed. With one: exactly the subject."""
        for side in (47, 50, 56):
            box = (20, 22, 20 + side, 22 + side)
            picture = self.make('gray%d.png' % side, boxed(100, 100, box))
            says = [picture, 'no transparency', 'birefnet.gguf', 'isnet.safetensors', 'u2net.safetensors', 'u2netp.safetensors', self.path('m'),
                    '--matte none']
            self.fail_with(INPUT, 'matte', picture, '-m', self.path('m'), '-o', 'out.png', says=says)
            self.fail_with(INPUT, *self.micro('-o', 'out.glb', picture=picture), says=[*says[:6], MICRO, '--matte none'])
            self.fail_with(INPUT, 'matte', picture, '-o', 'out.png', '--matte', 'threshold', says=[picture, 'no white backdrop', '232'])
            self.assertEqual([name for name in self.files() if name.startswith('out')], [])
            facts = self.facts(picture, '-o', 'cut.png', '--matte-model', self.net('u2netp.safetensors'))
            self.assertEqual(self.agreement(self.path('cut.png'), lambda x, y: in_box(x, y, box)), 1)
            self.assertAlmostEqual(facts['coverage'], side * side / 1e4, places=6)
            self.assertEqual((facts['used'], facts['border'], facts['parts'], facts['warnings']), ('u2netp', 0, 1, []))

    def test_matte_that_keeps_the_wall(self):
        """The failure itself, from a network that calls all but white the object: loud, with numbers."""
        picture = self.make('p.png', png(100, 100, 2, paint(100, 100, lambda x, y: WHITE if x < 5 and y < 5 else GRAY)))
        net = self.net('u2netp.safetensors', gain=-30, level=2.25, scale=(1, 0, 0))     # white is 2.25 in units of the network
        r = self.succeed('matte', picture, '-o', 'cut.png', '--matte-model', net, warnings=2)
        self.assertIn('covers 99.8', r.err)
        self.assertIn('of the frame (more than 90 %)', r.err)
        self.assertIn('of the border (more than 25 %)', r.err)

    def test_glossy_ball_on_white(self):
        """Highlights inside stay, also those as white as the backdrop."""
        def color(x, y):
            if (2 * x - 79) ** 2 + (2 * y - 79) ** 2 > 60 ** 2:
                return WHITE
            if (x - 32) ** 2 + (y - 30) ** 2 <= 36 or 46 <= x < 52 and 40 <= y < 44:
                return (255, 255, 255) if x % 2 else (240, 236, 232)
            return (24, 20, 30)
        picture = self.make('ball.png', png(80, 80, 2, paint(80, 80, color)))
        facts = self.facts(picture, '-o', 'cut.png', '--matte', 'threshold')
        self.assertEqual(self.agreement(self.path('cut.png'), lambda x, y: (2 * x - 79) ** 2 + (2 * y - 79) ** 2 <= 60 ** 2), 1)
        self.assertEqual((facts['used'], facts['reason'], facts['warnings']), ('threshold', 'as asked for', []))
        self.assertEqual(set(alpha_of(self.path('cut.png'))[2]), {0, 255})
        # Without being asked for, a white backdrop is not taken away either.
        self.fail_with(INPUT, 'matte', picture, '-o', 'x.png', says='no transparency')

    def test_no_foreground(self):
        for name, alpha in (('clear.png', 0), ('faint.png', 204)):
            picture = self.make(name, png(16, 12, 6, bytes((200, 100, 50, alpha)) * 192))
            self.fail_with(INPUT, 'matte', picture, '-o', 'out.png', says=[picture, 'no foreground', '204'])
            self.fail_with(INPUT, *self.micro('-o', 'out.glb', picture=picture), says=[picture, 'no foreground', '204'])
        blank = self.make('blank.png', png(16, 12, 2, b'\xff' * 576))
        self.fail_with(INPUT, 'matte', blank, '-o', 'out.png', '--matte', 'threshold', says=[blank, 'no foreground'])
        gray = self.make('gray.png', boxed(40, 40, (0, 0, 0, 0)))            # nothing red: the map has no contrast
        self.fail_with(INPUT, 'matte', gray, '-o', 'out.png', '--matte-model', self.net('u2netp.safetensors'), says=[gray, 'no foreground'])
        self.assertFalse(os.path.exists(self.path('out.png')))

    def test_inverted_alpha(self):
        rows = paint(60, 60, lambda x, y: (*RED, 0 if in_box(x, y, (15, 15, 45, 45)) else 255))
        picture = self.make('inverted.png', png(60, 60, 6, rows))
        r = self.succeed('matte', picture, '-o', 'cut.png', warnings=2)
        self.assertIn('touches 100.0 % of the border', r.err)
        self.assertIn('looks inverted: 100.0 % of the border and 0.0 % of the centre', r.err)
        r = self.succeed(*self.micro('-o', 'out.glb', '--report', 'r.json', picture=picture), warnings=2)
        self.assertEqual([w['name'] for w in json.loads(read(self.path('r.json')))['matte']['warnings']], ['touches_border', 'inverted'])

    def test_memory_that_is_short(self):
        """Any budget: the same bytes, or one line that names picture and network."""
        picture, net = self.make('p.png', boxed(60, 60, (20, 20, 40, 40))), self.net('u2netp.safetensors')
        self.succeed('matte', picture, '-o', 'whole.png', '--matte-model', net)
        done = refused = 0
        for budget in ('100K', '300K', '1M', '2M', '4M', '8M', '16M', '64M', '1G'):
            r = self.run_raw('matte', picture, '-o', 'cut.png', '--matte-model', net, '--mem-budget', budget)
            if r.code == 0:
                done += 1
                self.assertEqual(read(self.path('cut.png')), read(self.path('whole.png')), r)
                os.remove(self.path('cut.png'))
            else:
                refused += 1
                self.assertEqual(r.code, RESOURCE, r)
                self.assertEqual(len(r.err.splitlines()), 1, r)
                self.assertFalse(os.path.exists(self.path('cut.png')))
        self.assertGreaterEqual(done, 3)
        self.assertGreaterEqual(refused, 1)
        r = self.run_raw('matte', picture, '-o', 'cut.png', '--matte-model', net, '--mem-budget', '1M')
        self.assertIn('%s: matting with U2-NetP: ' % picture, r.err)

    def test_device(self):
        if settings['sanitized']:
            self.skipTest('the Vulkan driver leaks')
        devices = json.loads(self.succeed('devices', '--json').out)['devices']
        if not any(d['device'].startswith('vulkan') and d.get('usable') for d in devices):
            self.skipTest('no usable Vulkan device')
        picture, net = self.make('p.png', boxed(60, 60, (20, 20, 40, 40))), self.net('u2netp.safetensors')
        self.succeed('matte', picture, '-o', 'cpu.png', '--matte-model', net)
        self.succeed('matte', picture, '-o', 'gpu.png', '--matte-model', net, '--device', 'vulkan')
        self.assertEqual(read(self.path('cpu.png')), read(self.path('gpu.png')))

    def test_device_that_is_not_there(self):
        if settings['sanitized']:
            self.skipTest('the Vulkan driver leaks')
        picture = self.make('p.png', boxed(60, 60, (20, 20, 40, 40)))
        self.fail_with(DEVICE, 'matte', picture, '-o', 'x.png', '--device', 'nosuchthing', says='nosuchthing')


class Kinds(MatteTest):
    """Files of every kind come out upright, in 8 bits, whole."""

    def cut(self, name, *args, **options):
        self.succeed('matte', self.path(name), '-o', 'cut.png', *args, **options)
        return png_read(self.path('cut.png'))

    def test_depth_and_color(self):
        rows = paint(24, 16, lambda x, y: (*RED, 255) if in_box(x, y, (6, 4, 18, 12)) else (0, 0, 0, 0))
        self.make('rgba.png', png(24, 16, 6, rows))
        self.assertEqual(self.cut('rgba.png'), (24, 16, 4, rows))
        self.make('deep.png', png(24, 16, 6, b''.join(bytes([b, 0x77]) for b in rows), depth=16))
        self.assertEqual(self.cut('deep.png'), (24, 16, 4, rows))
        colors = [(0, 0, 0, 0), (*RED, 255)]
        tables = png_chunk(b'PLTE', b''.join(bytes(c[:3]) for c in colors)) + png_chunk(b'tRNS', bytes(c[3] for c in colors))
        self.make('palette.png', png(24, 16, 3, bytes(rows[3::4]).replace(b'\xff', b'\x01'), before=tables))
        self.assertEqual(self.cut('palette.png'), (24, 16, 4, rows))
        gray = paint(24, 16, lambda x, y: (90,) if in_box(x, y, (6, 4, 18, 12)) else (250,))
        self.make('gray.png', png(24, 16, 0, gray))
        want = b''.join(bytes((g, g, g, 255 if g == 90 else 0)) for g in gray)
        self.assertEqual(self.cut('gray.png', '--matte', 'threshold'), (24, 16, 4, want))

    def test_orientation(self):
        color = lambda x, y: RED if in_box(x, y, (2, 2, 6, 14)) else WHITE         # noqa: E731
        stored = png(24, 16, 2, paint(24, 16, color), before=png_chunk(b'eXIf', exif_chunk(6)))
        self.make('turned.png', stored)
        upright = paint(16, 24, lambda x, y: color(y, 15 - x))
        self.make('upright.png', png(16, 24, 2, upright))
        a, b = self.cut('turned.png', '--matte', 'threshold'), self.cut('upright.png', '--matte', 'threshold')
        self.assertEqual(a[:3], (16, 24, 4))
        self.assertEqual(a, b)

    def test_sizes(self):
        self.make('one.png', png(1, 1, 6, b'\xff\0\0\xfe'))
        self.assertEqual(self.cut('one.png', warnings=2), (1, 1, 4, b'\xff\0\0\xfe'))
        self.make('dot.png', png(1, 1, 2, b'\xff\0\0'))
        self.fail_with(INPUT, 'matte', 'dot.png', '-o', 'x.png', '--matte', 'threshold', says='no white backdrop')
        line = b'\xff\xff\xff' * 100 + b'\xff\0\0' * 8000 + b'\xff\xff\xff' * 8284
        self.make('line.png', png(16384, 1, 2, line))
        self.assertEqual(self.cut('line.png', '--matte', 'threshold', warnings=1)[:2], (16384, 1))
        self.make('huge.png', png(20000, 2, 6, bytes(160000)))
        self.fail_with(RESOURCE, 'matte', 'huge.png', '-o', 'x.png', says='16384')
        self.make('thin.png', boxed(2000, 1, (500, 0, 1500, 1)))
        self.succeed('matte', 'thin.png', '-o', 'thin_cut.png', '--matte-model', self.net('isnet.safetensors'), warnings=1)

    def test_other_formats(self):
        for data in (b'GIF89a' + 100 * b'\0', b'BM' + 100 * b'\0', b'', b'text\n' * 30):
            picture = self.make('p.png', data)
            self.fail_with(INPUT, 'matte', picture, '-o', 'x.png', says=picture)
        # WebP in and out, lossless.
        rows = paint(20, 20, lambda x, y: (*RED, 255) if in_box(x, y, (5, 5, 15, 15)) else (9, 8, 7, 0))
        self.make('p.png', png(20, 20, 6, rows))
        self.succeed('matte', 'p.png', '-o', 'p.webp')
        self.assertEqual(read(self.path('p.webp'))[8:12], b'WEBP')
        self.assertEqual(self.cut('p.webp'), (20, 20, 4, rows))
        # Of an animation the first frame.
        frame = read(self.path('p.webp'))[12:]
        still = frame if frame[:4] == b'VP8L' else frame[8 + struct.unpack('<I', frame[4:8])[0]:]
        place = b'\0\0\0' + b'\0\0\0' + struct.pack('<I', 19)[:3] * 2 + b'\x64\0\0' + b'\0'
        moving = b''
        for picture in (still, still):
            moving += b'ANMF' + struct.pack('<I', len(place + picture)) + place + picture
        head = b'VP8X' + struct.pack('<I', 10) + b'\x12\0\0\0' + struct.pack('<I', 19)[:3] * 2
        body = b'WEBP' + head + b'ANIM' + struct.pack('<I', 6) + bytes(6) + moving
        self.make('moving.webp', b'RIFF' + struct.pack('<I', len(body)) + body)
        self.assertEqual(self.cut('moving.webp'), (20, 20, 4, rows))


class Outputs(MatteTest):
    def setUp(self):
        super().setUp()
        self.rows = paint(40, 40, lambda x, y: (*RED, min(255, 16 * x)) if in_box(x, y, (3, 8, 32, 32)) else (10, 20, 30, 0))
        self.make('p.png', png(40, 40, 6, self.rows))

    def test_mask(self):
        self.succeed('matte', 'p.png', '-o', 'mask.png', '--mask-only', warnings=1)
        self.assertEqual(png_read(self.path('mask.png')), (40, 40, 1, self.rows[3::4]))
        self.succeed('matte', 'p.png', '-o', 'mask.webp', '--mask-only', warnings=1)
        self.make('white.png', png(40, 40, 2, b''.join(bytes([a] * 3) for a in self.rows[3::4])))
        self.assertEqual(self.hash('mask.webp'), self.hash('white.png'))

    def hash(self, name):
        return json.loads(self.succeed('inspect', '--json', name).out)['pixels_hash']

    def test_preview(self):
        self.succeed('matte', 'p.png', '-o', 'preview.png', '--preview', warnings=1)
        width, height, channels, pixels = png_read(self.path('preview.png'))
        self.assertEqual((width, height, channels), (40, 40, 3))
        for x, y in ((0, 0), (17, 0), (17, 17), (0, 39), (3, 8), (10, 20), (31, 31)):
            ground = 204 if (x // 16 + y // 16) % 2 else 255
            pixel = self.rows[4 * (40 * y + x):][:4]
            want = bytes((c * pixel[3] + ground * (255 - pixel[3]) + 127) // 255 for c in pixel[:3])
            self.assertEqual(pixels[3 * (40 * y + x):][:3], want, (x, y))

    def test_lines(self):
        """What people and programs read."""
        r = self.succeed('matte', 'p.png', '-o', 'a.png', warnings=1)
        self.assertIn('p.png: matte by alpha: the picture has transparency', r.out)
        self.assertRegex(r.out, r'wrote a\.png: the matte covers \d+\.\d % of the frame, \d+\.\d s')
        self.assertIn('half transparent in 41.4 % of its area (more than 20 %)', r.err)
        self.assertEqual(self.succeed('matte', 'p.png', '-o', 'a.png', '--quiet', warnings=1).out, '')
        lines = self.json('p.png', '-o', 'a.png', warnings=1)
        self.assertEqual([line['type'] for line in lines], ['progress', 'notice', 'matte', 'done'])
        self.assertEqual((lines[2]['input'], lines[2]['output'], lines[2]['warnings']), ('p.png', 'a.png', ['soft']))
        self.assertEqual({k: lines[3][k] for k in ('pictures', 'written', 'failed', 'left_out')},
                         {'pictures': 1, 'written': 1, 'failed': 0, 'left_out': 0})

    def test_keep_largest(self):
        boxes = ((4, 4, 24, 24), (30, 30, 38, 38), (30, 2, 34, 6))
        rows = paint(40, 40, lambda x, y: (*RED, 255 if any(in_box(x, y, b) for b in boxes) else 0))
        self.make('parts.png', png(40, 40, 6, rows))
        r = self.succeed('matte', 'parts.png', '-o', 'all.png', '--json', warnings=1)
        self.assertIn('has 2 separate large parts, the largest 83.3 % of it; all are kept', r.err)
        self.assertEqual(png_read(self.path('all.png')), (40, 40, 4, rows))
        facts = self.facts('parts.png', '-o', 'one.png', '--keep-largest')
        self.assertEqual((facts['parts'], facts['large_parts'], facts['dropped_parts'], facts['warnings']), (1, 1, 2, []))
        self.assertAlmostEqual(facts['dropped'], 80 / 480, places=6)
        self.assertEqual(self.agreement(self.path('one.png'), lambda x, y: in_box(x, y, boxes[0])), 1)


class Generate(MatteTest):
    def setUp(self):
        super().setUp()
        self.model = self.path('model')
        os.mkdir(self.model)
        MicroCopy(self.model)
        self.picture = self.make('red.png', boxed(90, 70, (20, 15, 65, 55)))

    def report(self):
        report = json.loads(read(self.path('r.json')))
        with open(os.path.join(SOURCE, 'docs', 'report.schema.json')) as f:
            self.assertEqual(schema_errors(json.load(f), report), [])
        return report['matte']

    def test_by_itself(self):
        """A picture without transparency goes through the network in the model directory, and gives what its cut-out gives."""
        net = write(os.path.join(self.model, 'u2netp.safetensors'), nets.red_net('u2netp'))
        r = self.succeed('generate', self.picture, '-m', self.model, '-o', 'a.glb', '--report', 'r.json')
        self.assertIn('%s: matte by u2netp (%s): the picture has no transparency, and this is the best network found' % (self.picture, net), r.out)
        listed = json.loads(self.succeed('inspect', '--json', self.model).out)['matting']
        self.assertEqual([m.get('path') for m in listed], [None, None, None, net])
        matte = self.report()
        self.assertEqual((matte['used'], matte['network_file'], matte['warnings']), ('u2netp', net, []))
        self.assertAlmostEqual(matte['coverage'], 45 * 40 / 6300, delta=0.003)
        self.succeed('matte', self.picture, '-m', self.model, '-o', 'cut.png')
        self.succeed('generate', 'cut.png', '-m', self.model, '-o', 'b.glb', '--report', 'r.json')
        self.assertEqual(read(self.path('a.glb')), read(self.path('b.glb')))
        self.assertEqual((self.report()['used'], 'network_file' in self.report()), ('alpha', False))
        self.assertGreater(glb_read(self.path('a.glb'))[0]['accessors'][0]['count'], 0)

    def test_birefnet(self):
        write(os.path.join(self.model, 'u2netp.safetensors'), nets.red_net('u2netp'))
        os.mkdir(os.path.join(self.model, 'BiRefNet'))
        net = write(os.path.join(self.model, 'BiRefNet', 'model.safetensors'), nets.golden_net('birefnet_tiny'))
        r = self.run_raw('generate', self.picture, '-m', self.model, '-o', 'a.glb', '--report', 'r.json', '--threads', '2')
        self.assertEqual(r.code, 0, r)
        self.assertEqual((self.report()['used'], self.report()['network_file']), ('birefnet', net))

    def test_options(self):
        write(os.path.join(self.model, 'u2netp.safetensors'), nets.red_net('u2netp'))
        base = ['generate', self.picture, '-m', self.model, '-o', 'x.glb', '--report', 'r.json']
        self.succeed(*base, '--matte', 'none')
        self.assertEqual((self.report()['used'], self.report()['coverage'], self.report()['warnings']), ('none', 1, []))
        self.fail_with(INPUT, *base, '--matte', 'alpha', says='no transparency')
        self.fail_with(MODEL, *base, '--matte', 'birefnet', says=[self.model, 'birefnet.gguf', 'BiRefNet/model.safetensors', '--matte-model'])
        self.fail_with(USAGE, *base, '--matte', 'alpha', '--matte-over-alpha', says='--matte-over-alpha')
        self.fail_with(USAGE, *base, '--matte', 'threshold', '--matte-model', 'x', says='--matte-model')
        # An alpha of its own that is wrong, and set aside.
        whole = self.make('whole.png', png(90, 70, 6, paint(90, 70, lambda x, y: (
            *(RED if in_box(x, y, (20, 15, 65, 55)) else GRAY), 254 if y else 255))))
        self.succeed('generate', whole, '-m', self.model, '-o', 'x.glb', warnings=2)
        self.succeed('generate', whole, '-m', self.model, '-o', 'a.glb', '--matte-over-alpha', '--report', 'r.json')
        self.assertIn('set aside', self.report()['reason'])
        self.succeed('generate', self.picture, '-m', self.model, '-o', 'b.glb')
        self.assertEqual(read(self.path('a.glb')), read(self.path('b.glb')))
