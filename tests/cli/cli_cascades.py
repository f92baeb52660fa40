# SPDX-License-Identifier: MIT
#
# All four pipelines with a random micro model of espalier-make-model, which has the 1024 networks too; GGUF files; the token budget.
import json
import os
import subprocess

from support import MODEL, SOURCE, CommandTest, read, schema_errors, settings


class Pipelines(CommandTest):
    @classmethod
    def setUpClass(cls):
        cls.maker = os.path.join(settings['build'], 'espalier-make-model')

    def setUp(self):
        super().setUp()
        if not os.path.exists(self.maker):
            self.skipTest('espalier-make-model is not built')
        self.model = self.make('hf')

    def make(self, layout):
        subprocess.run([self.maker, '--preset', 'micro', '--layout', layout, self.path(layout)], check=True, capture_output=True)
        return self.path(layout)

    def generate(self, *args, warnings=0):
        self.succeed(*self.micro('-o', 'x.glb', '--dump-post', 'x.espd', '--report', 'r.json', *args, model=self.model), warnings=warnings)
        report = json.loads(read(self.path('r.json')))
        with open(os.path.join(SOURCE, 'docs', 'report.schema.json')) as f:
            self.assertEqual(schema_errors(json.load(f), report), [])
        return report, (read(self.path('x.glb')), read(self.path('x.espd')))

    def test_all_four(self):
        seen = set()
        for name, resolution in (('512', 64), ('1024', 128), ('1024_cascade', 128), ('1536_cascade', 192)):
            report, files = self.generate('--pipeline', name)
            result = report['result']
            self.assertEqual((report['run']['pipeline'], result['resolution'], result['resolution_wanted']), (name, resolution, resolution))
            self.assertEqual(files, self.generate('--pipeline', name, '--threads', '1', '--cpu-level', 'generic')[1])
            for stage in report['stages']:
                if 'planned_bytes' in stage:
                    self.assertLessEqual(stage['peak_bytes'], stage['planned_bytes'], (name, stage))
            seen.add(files)
        self.assertEqual(len(seen), 4)

    def test_resolution_means_cascade(self):
        for option, name in (('512', '512'), ('1024', '1024_cascade'), ('1536', '1536_cascade')):
            report, _ = self.generate('--res', option, '--no-texture')
            self.assertEqual(report['run']['pipeline'], name)
        report, _ = self.generate('--res', '1536', '--pipeline', '1024', '--no-texture')
        self.assertEqual(report['run']['pipeline'], '1024')

    def test_token_budget(self):
        full, _ = self.generate('--res', '1536', '--no-texture')
        tokens = full['result']['shape_tokens']
        report, _ = self.generate('--res', '1536', '--no-texture', '--max-tokens', str(tokens), warnings=1)       # not below: stepped down
        self.assertLess(report['result']['resolution'], 192)
        self.assertEqual(report['result']['resolution_wanted'], 192)
        self.assertLess(report['result']['shape_tokens'], tokens)
        report, _ = self.generate('--res', '1536', '--no-texture', '--max-tokens', '1', warnings=2)
        self.assertEqual(report['result']['resolution'], 128)
        r = self.succeed(*self.micro('-o', 'x.glb', '--res', '1536', '--no-texture', '--max-tokens', '1', model=self.model), warnings=2)
        self.assertIn('more than the 1 asked for', r.err)

    def test_gguf_files(self):
        gguf = self.make('gguf')
        roles = {'dinov3': 'image_cond_model', 'ss_flow': 'sparse_structure_flow_model', 'ss_dec': 'sparse_structure_decoder',
                 'shape_flow_512': 'shape_slat_flow_model_512', 'shape_flow_1024': 'shape_slat_flow_model_1024',
                 'shape_dec': 'shape_slat_decoder', 'tex_flow_512': 'tex_slat_flow_model_512', 'tex_flow_1024': 'tex_slat_flow_model_1024',
                 'tex_dec': 'tex_slat_decoder'}
        weights = [x for name, role in roles.items() for x in ('--weights', '%s=%s' % (role, os.path.join(gguf, name + '.gguf')))]
        self.assertEqual(self.generate('--res', '1024', *weights)[1], self.generate('--res', '1024')[1])
        # Damaged ones.
        path = os.path.join(gguf, 'ss_dec.gguf')
        data = read(path)
        for n in (0, 3, 4, 8, 20, 100, len(data) // 2, len(data) - 64):        # the end is padding
            with open(path, 'wb') as f:
                f.write(data[:n])
            self.fail_with(MODEL, *self.micro('-o', 'y.glb', '--quiet', *weights, model=self.model), says='ss_dec.gguf')
        self.assertFalse(os.path.exists(self.path('y.glb')))

    def test_missing_1024_network(self):
        name = [n for n in os.listdir(os.path.join(self.model, 'ckpts')) if 'imgshape2tex' in n and '1024' in n and n.endswith('.safetensors')][0]
        os.unlink(os.path.join(self.model, 'ckpts', name))
        self.generate('--res', '512')
        self.generate('--res', '1024', '--no-texture')
        self.fail_with(MODEL, *self.micro('-o', 'y.glb', '--res', '1024', model=self.model), says=[name, 'tex_slat_flow_model_1024'])
