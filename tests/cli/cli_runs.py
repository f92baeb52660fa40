# SPDX-License-Identifier: MIT
#
# How a run looks from outside: progress on a pipe, on a terminal and as JSON lines, silence, and being told to stop.
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

from support import MICRO, MICRO_PICTURE, TINY, TINY_PICTURE, CommandTest, environment, read, settings

STAGES = ['preprocess', 'condition', 'structure', 'shape', 'texture', 'decode', 'finish']


class Progress(CommandTest):
    def test_pipe(self):
        out = self.succeed(*self.micro('-o', 'x.glb')).out
        lines = [line for line in out.splitlines() if line.startswith('[')]
        self.assertNotIn('\r', out)
        self.assertIn('seed: 42', out)
        self.assertIn('wrote x.glb', out)
        seen = []
        for line in lines:
            m = re.fullmatch(r'\[(\d)/7\] (\w+)(?: (\d+)/(\d+))?', line)
            self.assertTrue(m, line)
            self.assertEqual(STAGES[int(m.group(1)) - 1], m.group(2))
            if m.group(3):
                self.assertLessEqual(int(m.group(3)), int(m.group(4)))
            seen.append(int(m.group(1)))
        self.assertEqual(seen, sorted(seen))
        self.assertEqual(set(seen), set(range(1, 8)))

    def test_pipe_is_flushed(self):
        """Lines come while the run goes on, not at its end."""
        p = self.start('generate', TINY_PICTURE, '-m', TINY, '-o', 'x.glb', '--steps', '1000')
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stderr.close)
        for line in p.stdout:
            if line.startswith(b'[3/7] structure 2/'):
                break
        self.assertIsNone(p.poll())
        p.kill()
        p.wait()

    def test_json(self):
        out = self.succeed(*self.micro('-o', 'x.glb', '--report', 'r.json', '--json')).out
        events = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(events[0]['type'], 'start')
        self.assertEqual((events[0]['seed'], events[0]['pipeline']), (42, '512'))
        self.assertEqual({e['type'] for e in events}, {'start', 'notice', 'progress', 'done'})
        done = events[-1]
        self.assertEqual((done['type'], done['files'], done['resolution']), ('done', ['x.glb', 'r.json'], 64))
        report = json.loads(read(self.path('r.json')))
        self.assertEqual((done['raw_faces'], done['voxels']), (report['raw_mesh']['faces'], report['result']['voxels']))
        self.assertEqual(done['faces'], report['post']['steps'][-1]['mesh']['faces'])
        for e in events:
            if e['type'] == 'progress':
                self.assertEqual((STAGES[e['index'] - 1], e['stages']), (e['stage'], 7))
                self.assertLessEqual(e['done'], e['total'])
        # --quiet does not silence what was asked for as JSON.
        self.assertEqual(json.loads(self.succeed(*self.micro('-o', 'x.glb', '--json', '--quiet')).out.splitlines()[-1])['type'], 'done')

    def test_json_error(self):
        r = self.fail_with(4, *self.micro('-o', 'x.glb', '--json', '--res', '1024'), says='1024_cascade')
        last = json.loads(r.out.splitlines()[-1])
        self.assertEqual((last['type'], last['status']), ('error', 4))
        self.assertEqual('espalier: ' + last['message'], r.err.strip())

    def test_quiet(self):
        r = self.succeed(*self.micro('-o', 'x.glb', '--report', 'r.json', '--dump-post', 'd', '--quiet'))
        self.assertEqual((r.out, r.err), ('', ''))
        self.assertEqual(self.files(), ['d', 'r.json', 'x.glb'])

    def on_terminal(self, *args):
        try:
            master, slave = pty.openpty()
        except OSError as error:
            self.skipTest(f'no pseudo-terminal to be had: {error}')
        p = self.start(*args, stdout=slave)
        os.close(slave)
        text = b''
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:                          # the other end is closed
                break
            if not piece:
                break
            text += piece
        os.close(master)
        err = p.stderr.read()
        p.stderr.close()
        return p.wait(), text.decode(), err.decode()

    def test_terminal(self):
        code, text, err = self.on_terminal(*self.micro('-o', 'x.glb', '--steps', '4'))
        self.assertEqual((code, err), (0, ''))
        self.assertRegex(text, r'\r\[3/7\] structure +\[#{8}\.{24}\] 1/4 +\d+ s left')
        self.assertRegex(text, r'\r\[3/7\] structure +\[#{32}\] 4/4 +\d+\.\d s')
        self.assertIn('wrote x.glb', text)
        code, text, err = self.on_terminal(*self.micro('-o', 'x.glb', '--quiet'))
        self.assertEqual((code, text, err), (0, '', ''))
        code, text, err = self.on_terminal(*self.micro('-o', 'x.glb', '--json'))
        self.assertEqual(json.loads(text.splitlines()[-1])['type'], 'done')
        self.assertNotIn('#', text)

    def test_terminal_error_starts_a_line(self):
        code, text, err = self.on_terminal(*self.micro('--dump-post', '/dev/full'))
        self.assertEqual(code, 7)
        self.assertEqual(len(err.splitlines()), 1)


class Stopping(CommandTest):
    """SIGINT: 130, SIGTERM: 143, within a second, and no file."""

    def stop(self, number, code, args, after, limit=None):
        limit = limit or (10 if settings['sanitized'] else 1)
        for attempt in range(3):                     # a machine that is busy with other things gets more chances
            p = self.start(*args)
            out = b''
            for line in p.stdout:
                out += line
                if line.startswith(after):
                    break
            sent = time.monotonic()
            p.send_signal(number)
            rest, err = p.communicate(timeout=60)
            took = time.monotonic() - sent
            self.assertEqual(p.returncode, code, (out[-500:], rest, err))
            self.assertEqual(err, b'espalier: cancelled\n')
            self.assertEqual(self.files(), [])
            if took < limit:
                return (out + rest).decode()
        self.fail('took %.2f s' % took)

    def tiny(self, *args):
        return ['generate', TINY_PICTURE, '-m', TINY, '-o', 'x.glb', '--dump-post', 'x.espd', '--report', 'x.json', *args]

    def test_interrupt(self):
        self.stop(signal.SIGINT, 130, self.tiny('--steps', '1000'), b'[3/7] structure 1/')
        self.stop(signal.SIGINT, 130, self.tiny('--set', 'shape.steps=1000', '--set', 'ss.steps=1'), b'[4/7] shape 1/')
        self.stop(signal.SIGINT, 130, self.tiny('--set', 'tex.steps=1000', '--set', 'ss.steps=1', '--set', 'shape.steps=1'), b'[5/7] texture 1/')

    def test_terminate(self):
        self.stop(signal.SIGTERM, 143, self.tiny('--steps', '1000'), b'[3/7] structure 1/')

    def test_json(self):
        out = self.stop(signal.SIGTERM, 143, self.tiny('--steps', '1000', '--json'), b'{"type": "progress", "stage": "structure"')
        last = json.loads(out.splitlines()[-1])
        self.assertEqual((last['type'], last['status'], last['message']), ('error', 143, 'cancelled'))

    def test_at_any_moment(self):
        """Wherever the signal falls: cancelled without a file, or done with all of them."""
        for i in range(24):
            p = self.start(*self.micro('-o', 'x.glb', '--dump-post', 'x.espd', '--report', 'x.json', '--quiet'))
            time.sleep(0.002 * i)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=60)
            if p.returncode == 0:
                self.assertEqual(self.files(), ['x.espd', 'x.glb', 'x.json'])
            else:
                self.assertIn(p.returncode, (130, -signal.SIGINT))
                self.assertIn(err, (b'espalier: cancelled\n', b''))
                self.assertEqual(self.files(), [], i)
            for name in self.files():
                os.unlink(self.path(name))

    def test_reader_goes_away(self):
        """`espalier generate ... | head -1` still writes its result."""
        p = self.start(*self.micro('-o', 'x.glb'))
        p.stdout.readline()
        p.stdout.close()
        err = p.stderr.read()
        p.stderr.close()
        self.assertEqual((p.wait(), err), (0, b''))
        self.assertEqual(self.files(), ['x.glb'])
