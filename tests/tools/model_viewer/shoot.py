# SPDX-License-Identifier: MIT
#
# shoot.py NODE_MODULES IN.glb RENDER.png OUT.png: how <model-viewer> in headless Chromium shows IN.glb, from the four sides of
# `espalier render IN.glb -o RENDER.png --size N`, beside that picture; prints how well the two agree. See README.md. Standard library only.
import base64
import http.server
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'cli'))
sys.dont_write_bytecode = True

import foreign  # noqa: E402
import support  # noqa: E402

# espalier render: from where (z up), half the angle of view, room around the object. As in src/mesh/render.c.
FROM = (('three quarters', 0.6, -1.0, 0.5), ('back', -0.6, 1.0, 0.5), ('side', 1.0, 0.0, 0.0), ('top', 0.0, 0.0, 1.0))
TANGENT, MARGIN = 0.35, 1.03

PAGE = '''<!doctype html><meta charset="utf-8"><title>model-viewer</title>
<style>model-viewer { width: %(size)dpx; height: %(size)dpx; outline: none }</style>
<script src="viewer.js"></script>
<model-viewer id="one" src="model.glb" camera-orbit="0deg 90deg %(distance).6fm" field-of-view="%(angle).4fdeg" loading="eager"
min-camera-orbit="-Infinity 0deg 0m" max-camera-orbit="Infinity 180deg 100m" min-field-of-view="5deg" max-field-of-view="90deg"
interaction-prompt="none"></model-viewer>
<script>
const one = document.getElementById('one');
const pause = time => new Promise(done => setTimeout(done, time));
customElements.get('model-viewer').minimumRenderScale = 1;
one.addEventListener('load', async () => {
    const pictures = [];
    await pause(2000);
    const orbits = %(orbits)s;
    for (const orbit of [orbits[0], orbits[0], ...orbits]) {
        one.cameraOrbit = orbit;
        one.jumpCameraToGoal();
        await one.updateComplete;
        await pause(1000);
        pictures.push(one.toDataURL('image/png'));
    }
    // The first two: it fades in, and jumps only once it has.
    fetch('done', { method: 'POST', body: JSON.stringify(pictures.slice(2)) });
}, { once: true });
one.addEventListener('error', event => fetch('done', { method: 'POST', body: JSON.stringify(String(event.detail?.type)) }));
</script>'''


def page(glb, size):
    corners = {p for face in foreign.model_of_glb(glb).faces for p in face}
    low, high = [min(p[k] for p in corners) for k in range(3)], [max(p[k] for p in corners) for k in range(3)]
    centre = [(a + b) / 2 for a, b in zip(low, high)]
    distance = MARGIN * max(math.dist(p, centre) for p in corners) * math.hypot(1, TANGENT) / TANGENT
    orbits = []
    for _, x, y, z in FROM:
        # The file is y up; model-viewer counts angles around y from z, and from above.
        right, up, front = x, z, 0.0 - y
        theta, phi = math.degrees(math.atan2(right, front)), math.degrees(math.acos(up / math.hypot(x, y, z)))
        orbits.append('%.4fdeg %.4fdeg %.6fm' % (theta, phi, distance))
    return PAGE % {'size': size, 'distance': distance, 'angle': 2 * math.degrees(math.atan(TANGENT)), 'orbits': orbits}


class Handler(http.server.BaseHTTPRequestHandler):
    files, answer, done = {}, None, threading.Event()

    def do_GET(self):
        kind, data = self.files.get(self.path, ('text/plain', None))
        self.send_response(404 if data is None else 200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(data or b'')))
        self.end_headers()
        self.wfile.write(data or b'')

    def do_POST(self):
        Handler.answer = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self.send_response(204)
        self.end_headers()
        self.done.set()

    def log_message(self, *args):
        pass


def shoot(modules, glb, size):
    """Four pictures; the page is served to this machine alone."""
    browser = shutil.which('chromium') or shutil.which('google-chrome') or sys.exit('Chromium is not installed')
    viewer = os.path.join(modules, '@google', 'model-viewer', 'dist', 'model-viewer-umd.min.js')
    Handler.files = {'/': ('text/html', page(glb, size).encode()), '/viewer.js': ('text/javascript', support.read(viewer)),
                     '/model.glb': ('model/gltf-binary', support.read(glb))}
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix='espalier-viewer-', ignore_cleanup_errors=True) as directory:
        process = subprocess.Popen([browser, '--headless=new', '--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader',
                                    '--enable-unsafe-swiftshader', '--force-device-scale-factor=1', '--user-data-dir=' + directory,
                                    '--window-size=%d,%d' % (size + 100, size + 200), 'http://127.0.0.1:%d/' % server.server_port],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            arrived = Handler.done.wait(300)
        finally:
            process.terminate()
            process.wait()
            server.shutdown()
    if not arrived or isinstance(Handler.answer, str):
        sys.exit('model-viewer showed nothing: %s' % Handler.answer)
    return [foreign.Picture(base64.b64decode(url.partition(',')[2])) for url in Handler.answer]


def on_white(picture):
    """Rows of RGB; alpha is multiplied into the colours of a canvas' picture or not, which is the same over pure white edges."""
    rows = []
    for row in picture.rows:
        n = picture.channels
        if n == 3:
            rows.append(row)
            continue
        out = bytearray()
        for i in range(0, len(row), n):
            a = row[i + 3]
            out += bytes((c * a + 255 * (255 - a) + 127) // 255 for c in row[i:i + 3])
        rows.append(bytes(out))
    return rows


def agreement(ours, theirs, size):
    """Per view: overlap of the silhouettes (intersection over union), the same with one of them mirrored, mean colours."""
    def covered(row, x):
        return min(row[3 * x:3 * x + 3]) < 245

    for (name, *_), a, b in zip(FROM, ours, theirs):
        counts, sums = [0, 0, 0, 0], [0] * 6
        for p, q in zip(a, b):
            for x in range(size):
                here, there, mirrored = covered(p, x), covered(q, x), covered(q, size - 1 - x)
                counts = [c + v for c, v in zip(counts, (here and there, here or there, here and mirrored, here or mirrored))]
                if here and there:
                    sums = [s + v for s, v in zip(sums, p[3 * x:3 * x + 3] + q[3 * x:3 * x + 3])]
        means = [s / max(counts[0], 1) for s in sums]
        print('%-14s overlap %.4f, if mirrored %.4f; mean colour (%3.0f %3.0f %3.0f) in ours, (%3.0f %3.0f %3.0f) in model-viewer' % (
            name, counts[0] / counts[1], counts[2] / counts[3], *means))


def main():
    if len(sys.argv) != 5:
        sys.exit('usage: shoot.py NODE_MODULES IN.glb RENDER.png OUT.png')
    modules, glb, render, out = sys.argv[1:]
    rows = on_white(foreign.Picture(support.read(render)))
    size = len(rows) // 2
    theirs = [on_white(p) for p in shoot(modules, glb, size)]
    assert all(len(p) == size and len(p[0]) == 3 * size for p in theirs)
    ours = [[row[3 * size * (i % 2):3 * size * (i % 2 + 1)] for row in rows[size * (i // 2):size * (i // 2 + 1)]] for i in range(4)]
    pages = [left[i] + right[i] for left, right in ((theirs[0], theirs[1]), (theirs[2], theirs[3])) for i in range(size)]
    support.write(out, support.png(4 * size, 2 * size, 2, b''.join(a + b for a, b in zip(rows, pages))))
    agreement(ours, theirs, size)


main()
