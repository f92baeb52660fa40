# SPDX-License-Identifier: MIT
#
# Every example picture of the embedded model: a sane report, and the share of boundary edges that the model's README gives for the reference code.
import json
import os
import re

from support import TINY, CommandTest, read


class Examples(CommandTest):
    def table(self):
        text = read(os.path.join(TINY, 'README.md')).decode()
        rows = re.findall(r'^\| (\w+_\d) \| [\d.]+ \| [\d.]+ \| [\d.]+ \| ([\d.]+) % \|$', text, re.M)
        return {name: float(share) for name, share in rows}

    def test_all(self):
        table = self.table()
        self.assertEqual(len(table), 16)
        for name, boundary in sorted(table.items()):
            picture = os.path.join(TINY, 'examples', name + '.png')
            self.succeed('generate', picture, '-m', TINY, '-o', 'x.glb', '--report', 'r.json', '--quiet')
            report = json.loads(read(self.path('r.json')))
            mesh = report['raw_mesh']
            self.assertAlmostEqual(100 * mesh['boundary_edges'] / mesh['edges'], boundary, delta=0.06, msg=name)
            self.assertTrue(all(g['passed'] for g in report['gates']), name)
            self.assertGreater(mesh['largest_component_share'], 0.6, name)
            self.assertEqual(sum(s['nan'] + s['inf'] for s in report['stages']), 0, name)
            self.assertEqual(report['result']['resolution'], 64)
            for d in report['decisions']:
                self.assertLess(d['within_1e-3'], 1 + d['count'] / 1000, (name, d))
                self.assertTrue(0.02 < d['yes_share'] < 0.9, (name, d))
