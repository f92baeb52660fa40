# SPDX-License-Identifier: MIT
#
# Pictures of every kind, good and hostile, through `inspect` and `generate` with the micro model.
import base64
import json
import os
import struct
import zlib

from support import INPUT, MICRO_PICTURE, RESOURCE, CommandTest, blob, exif_chunk, png, png_chunk, read, write

# 24 x 16, the upper left quarter red, the rest green.
JPEG = base64.b64decode(
    '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODh'
    'MREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAQABgDASIAAhEBAxEB/8QAFwABAAMAAAAAAAAAAAAA'
    'AAAAAAECBf/EABUQAQEAAAAAAAAAAAAAAAAAAAAC/8QAFgEBAQEAAAAAAAAAAAAAAAAAAwQF/8QAHxEAAgECBwAAAAAAAAAAAAAAABEDAQIEBRMUIVFh/9oADAMBAAIRAx'
    'EAPwDGRSojtjVWJjc73UF0OmmuX6+gAUwT/9k=')
# 16 x 12, transparent with a red rectangle.
WEBP = base64.b64decode('UklGRiwAAABXRUJQVlA4TCAAAAAvD8ACEA8wPIM8PPMf8CDItpnB/C0PsZwhov8TQM6HBA==')


def jpeg_turned(orientation):
    exif = b'Exif\0\0' + exif_chunk(orientation)
    return JPEG[:2] + b'\xff\xe1' + struct.pack('>H', 2 + len(exif)) + exif + JPEG[2:]


def turned(width, height, rows, orientation):
    """RGBA rows of a picture stored for this orientation, upright: (width, height, rows)."""
    pixel = [[rows[4 * (y * width + x):4 * (y * width + x) + 4] for x in range(width)] for y in range(height)]
    if orientation == 3:
        out = [line[::-1] for line in pixel[::-1]]
    elif orientation == 6:                       # stored lying, to be turned clockwise
        out = [[pixel[height - 1 - x][y] for x in range(height)] for y in range(width)]
    elif orientation == 8:
        out = [[pixel[x][width - 1 - y] for x in range(height)] for y in range(width)]
    else:
        out = pixel
    return len(out[0]), len(out), b''.join(b''.join(line) for line in out)


class Pictures(CommandTest):
    def make(self, name, data):
        return write(self.path(name), data)

    def inspect(self, path):
        return json.loads(self.succeed('inspect', '--json', path).out)

    def refused(self, data, says, code=INPUT, name='p.png', args=(), warnings=0):
        path = self.make(name, data)
        self.fail_with(code, *self.micro('-o', 'out.glb', *args, picture=path), warnings=warnings,
                       says=[path, *([says] if isinstance(says, str) else says)])
        self.assertFalse(os.path.exists(self.path('out.glb')))

    def test_no_picture_at_all(self):
        self.fail_with(INPUT, *self.micro('-o', 'x.glb', picture='missing.png'), says=['missing.png', 'no such file'])
        os.mkdir(self.path('d.png'))
        self.fail_with(INPUT, *self.micro('-o', 'x.glb', picture='d.png'), says=['d.png', 'directory'])
        self.refused(b'', 'empty')
        self.refused(b'This is a text.\n' * 20, 'not a PNG, JPEG or WebP')
        self.refused(b'GIF89a' + 100 * b'\0', 'not a PNG, JPEG or WebP')
        self.refused(b'\x89', 'not a PNG, JPEG or WebP')

    def test_truncated_and_damaged(self):
        whole = png(16, 12, 6, blob(16, 12))
        for n in (4, 8, 20, 33, 40, len(whole) // 2, len(whole) - 30):
            r = self.run_raw(*self.micro('-o', 'out.glb', picture=self.make('p.png', whole[:n])))
            self.assertEqual(r.code, INPUT, '%d bytes: %s' % (n, r))
            self.assertTrue(r.err.splitlines()[-1].startswith('espalier: ' + self.path('p.png')), r)
        for data, keep in ((JPEG, 100), (WEBP, 30)):
            self.refused(data[:keep], [], args=['--matte', 'none'])
        damaged = bytearray(whole)
        damaged[60] ^= 0x55
        r = self.run_raw(*self.micro('-o', 'out.glb', picture=self.make('p.png', bytes(damaged))))
        self.assertEqual(r.code, INPUT, r)
        lying = png_chunk(b'IHDR', struct.pack('>IIBBBBB', 0, 10, 8, 6, 0, 0, 0))
        self.refused(b'\x89PNG\r\n\x1a\n' + lying + png_chunk(b'IEND', b''), [])
        bomb = png_chunk(b'IHDR', struct.pack('>IIBBBBB', 2 ** 31 - 1, 2 ** 31 - 1, 8, 6, 0, 0, 0))
        self.refused(b'\x89PNG\r\n\x1a\n' + bomb + png_chunk(b'IDAT', zlib.compress(b'')) + png_chunk(b'IEND', b''), '16384', code=RESOURCE)

    def test_sizes(self):
        self.refused(png(1, 1, 6, b'\xff\0\0\xfe'), [], warnings=2)
        self.refused(png(1, 1, 6, b'\xff\0\0\0'), [])
        line = b'\xff\x80\x20\xff' * 16000 + b'\0\0\0\0' * 384
        self.refused(png(16384, 1, 6, line), [])
        self.assertEqual(self.inspect(self.path('p.png'))['width'], 16384)
        for width, height in ((16385, 1), (1, 16385), (100000, 1)):
            self.refused(png(width, height, 6, bytes(4 * width * height)), '16384', code=RESOURCE)
        self.make('long.png', png(2000, 40, 6, blob(2000, 40)))
        self.succeed(*self.micro('-o', 'long.glb', picture='long.png'))
        self.refused(png(2, 2, 6, b'\xff\0\0\xff' * 3 + b'\0\0\0\0'), 'less than three pixels', warnings=1)
        self.make('three.png', png(3, 3, 6, b'\xff\0\0\xff' * 8 + b'\0\0\0\0'))
        self.succeed(*self.micro('-o', 'three.glb', picture='three.png'), warnings=1)

    def test_transparency(self):
        self.refused(png(16, 12, 6, bytes(4 * 16 * 12)), 'no foreground')
        self.refused(png(16, 12, 6, b'\xff\xff\xff\x80' * (16 * 12)), 'no foreground')
        opaque = png(16, 12, 6, b'\x40\x80\xc0\xff' * (16 * 12))
        self.refused(opaque, ['no transparency', '--matte none'])
        self.refused(png(16, 12, 2, b'\x40\x80\xc0' * (16 * 12)), ['no transparency', '--matte none'])
        self.refused(JPEG, ['no transparency', '--matte none'], name='p.jpg')
        path = self.make('opaque.png', opaque)
        self.succeed(*self.micro('-o', 'a.glb', '--matte', 'none', picture=path))
        self.succeed(*self.micro('-o', 'b.glb', '--allow-opaque', picture=path))
        self.assertEqual(read(self.path('a.glb')), read(self.path('b.glb')))
        self.fail_with(INPUT, *self.micro('-o', 'c.glb', '--allow-opaque', '--matte', 'alpha', picture=path), says='no transparency')
        # Alpha that is there counts, whatever the matte.
        self.succeed(*self.micro('-o', 'd.glb'))
        self.succeed(*self.micro('-o', 'e.glb', '--matte=none'))
        self.assertEqual(read(self.path('d.glb')), read(self.path('e.glb')))

    def test_kinds(self):
        rows = blob(16, 12)
        rgba = self.inspect(self.make('rgba.png', png(16, 12, 6, rows)))
        self.assertEqual((rgba['kind'], rgba['format'], rgba['width'], rgba['height'], rgba['channels'], rgba['has_alpha']),
                         ('picture', 'png', 16, 12, 4, True))
        # 16 bits: the high byte counts.
        deep = self.inspect(self.make('deep.png', png(16, 12, 6, b''.join(bytes([b, 0x77]) for b in rows), depth=16)))
        self.assertEqual(deep['pixels_hash'], rgba['pixels_hash'])
        # A palette with tRNS.
        colors = sorted({rows[i:i + 4] for i in range(0, len(rows), 4)})
        index = bytes(colors.index(rows[i:i + 4]) for i in range(0, len(rows), 4))
        tables = png_chunk(b'PLTE', b''.join(c[:3] for c in colors)) + png_chunk(b'tRNS', bytes(c[3] for c in colors))
        palette = self.inspect(self.make('palette.png', png(16, 12, 3, index, before=tables)))
        self.assertEqual(palette['pixels_hash'], rgba['pixels_hash'])
        # Gray with alpha.
        gray_alpha = b''.join(bytes([rows[i], rows[i + 3]]) for i in range(0, len(rows), 4))
        gray = self.inspect(self.make('gray.png', png(16, 12, 4, gray_alpha)))
        spread = b''.join(bytes([rows[i]] * 3 + [rows[i + 3]]) for i in range(0, len(rows), 4))
        self.assertEqual(gray['pixels_hash'], self.inspect(self.make('spread.png', png(16, 12, 6, spread)))['pixels_hash'])
        webp = self.inspect(self.make('p.webp', WEBP))
        self.assertEqual((webp['format'], webp['width'], webp['height'], webp['channels'], webp['has_alpha']), ('webp', 16, 12, 4, True))
        jpeg = self.inspect(self.make('p.jpg', JPEG))
        self.assertEqual((jpeg['format'], jpeg['width'], jpeg['height'], jpeg['channels'], jpeg['has_alpha']), ('jpeg', 24, 16, 3, False))
        for name in ('rgba.png', 'deep.png', 'palette.png', 'gray.png', 'p.webp'):
            self.succeed(*self.micro('-o', name + '.glb', picture=name))
        for name in ('deep.png', 'palette.png'):
            self.assertEqual(read(self.path(name + '.glb')), read(self.path('rgba.png.glb')))
        self.succeed(*self.micro('-o', 'jpeg.glb', '--matte', 'none', picture='p.jpg'))

    def test_orientation(self):
        rows = blob(16, 12)
        glbs = set()
        for orientation in (1, 3, 6, 8):
            stored = png(16, 12, 6, rows, before=png_chunk(b'eXIf', exif_chunk(orientation)))
            upright = png(turned(16, 12, rows, orientation)[0], turned(16, 12, rows, orientation)[1], 6, turned(16, 12, rows, orientation)[2])
            a = self.inspect(self.make('stored.png', stored))
            b = self.inspect(self.make('upright.png', upright))
            self.assertEqual((a['width'], a['height'], a['pixels_hash']), (b['width'], b['height'], b['pixels_hash']), orientation)
            self.succeed(*self.micro('-o', 'a.glb', picture='stored.png'))
            self.succeed(*self.micro('-o', 'b.glb', picture='upright.png'))
            self.assertEqual(read(self.path('a.glb')), read(self.path('b.glb')))
            glbs.add(read(self.path('a.glb')))
            turned_jpeg = self.inspect(self.make('p.jpg', jpeg_turned(orientation)))
            self.assertEqual((turned_jpeg['width'], turned_jpeg['height']), (24, 16) if orientation < 5 else (16, 24))
        self.assertEqual(len(glbs), 4)

    def test_name_does_not_matter(self):
        self.make('picture.jpg', read(MICRO_PICTURE))
        self.make('ein Bild äöü "quoted".png', read(MICRO_PICTURE))
        self.succeed(*self.micro('-o', 'a.glb', picture='picture.jpg'))
        out = self.succeed(*self.micro('-o', 'ein Ergebnis "ü".glb', '--json', picture='ein Bild äöü "quoted".png')).out
        self.assertEqual(json.loads(out.splitlines()[-1])['files'], ['ein Ergebnis "ü".glb'])
        self.assertEqual(read(self.path('a.glb')), read(self.path('ein Ergebnis "ü".glb')))
