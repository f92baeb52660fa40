# SPDX-License-Identifier: MIT
#
# Model directories: damaged in every way we can think of, unsound, and the one that is used when none is named.
import json
import os
import random
import shutil
import struct

from support import (INPUT, MICRO, MICRO_PICTURE, MODEL, PARTS, TINY, TINY_PICTURE, UNSOUND, CommandTest, MicroCopy, environment, read,
                     tensor_put, tensor_values, tensors_bytes, tensors_read, write)


class ModelTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.model = MicroCopy(self.path('model'))

    def generate(self, *args):
        return self.micro('-o', 'out.glb', '--quiet', *args, model=self.model.dir)

    def damaged(self, *says, code=MODEL):
        r = self.fail_with(code, *self.generate(), says=says)
        self.assertFalse(os.path.exists(self.path('out.glb')))
        return r


class DamagedDirectories(ModelTest):
    def test_directory(self):
        self.fail_with(MODEL, *self.micro('-o', 'x.glb', model='nowhere'), says=['nowhere', 'no such model directory'])
        os.mkdir(self.path('void'))
        self.fail_with(MODEL, *self.micro('-o', 'x.glb', model='void'), says=['void', 'pipeline.json'])
        write(self.path('file'), b'x')
        self.fail_with(MODEL, *self.micro('-o', 'x.glb', model='file'), says=['file', 'directory'])

    def test_pipeline_json(self):
        text = read(self.model.pipeline)
        for data in (b'', b'{', text[:-3], text[:200], b'[]', b'7', b'null', b'"x"', b'\xff\xfe{}', b'{"a": 1, "a": 2}', b'{"args": {}}',
                     b'{"args": {"models": []}}', b'{"args": {"models": "x"}}', b'{"args": 3}', b'[' * 100000, b'{"a":' * 5000, text + b'x'):
            self.model.replace(self.model.pipeline, data)
            self.damaged(self.model.pipeline)
        os.unlink(self.model.pipeline)
        os.mkdir(self.model.pipeline)
        self.damaged(self.model.dir)

    def test_wrong_types_in_pipeline_json(self):
        text = read(self.model.pipeline)

        def bad(change, *says):
            self.model.replace(self.model.pipeline, text)
            self.model.edit_json(self.model.pipeline, change)
            self.damaged(self.model.pipeline, *says)

        def setting(*path, value):
            def change(root):
                for key in path[:-1]:
                    root = root[key]
                root[path[-1]] = value
            return change

        sampler = ('args', 'sparse_structure_sampler')
        bad(setting(*sampler, value=[]), 'sparse_structure_sampler')
        bad(setting(*sampler, 'name', value='DdimSampler'), 'DdimSampler')
        bad(setting(*sampler, 'name', value=7), 'sparse_structure_sampler')
        for value in ('12', 0, 2000, -1, 2.5, [12], 1e300, True):
            bad(setting(*sampler, 'params', 'steps', value=value), 'steps')
        for value in ('x', -1, 1e9, {}):
            bad(setting(*sampler, 'params', 'guidance_strength', value=value), 'guidance_strength')
        for value in (7, [0.5], [0.5, 'x'], [0, 1, 2], [0, 99], None, {}):
            bad(setting(*sampler, 'params', 'guidance_interval', value=value), 'interval')
        bad(setting(*sampler, 'params', 'rescale_t', value=0), 'rescale_t')
        bad(setting(*sampler, 'args', 'sigma_min', value=0.9), 'sigma_min')
        norm = ('args', 'shape_slat_normalization')
        bad(setting(*norm, value=[]), 'shape_slat_normalization')
        bad(setting(*norm, 'mean', value=[0.0] * 31), 'shape_slat_normalization')
        bad(setting(*norm, 'mean', value=[0.0] * 31 + ['x']), 'shape_slat_normalization[31]')
        bad(setting(*norm, 'std', value=[1.0] * 31 + [0]), 'shape_slat_normalization[31]')
        bad(setting(*norm, 'std', value=[1.0] * 31 + [1e300]), 'shape_slat_normalization[31]')
        for value in (0, -5, 'x', 1e12, 3.5):
            for key in ('image_size', 'ss_grid', 'resolution'):
                bad(setting('args', 'espalier', key, value=value), key)
        bad(setting('args', 'espalier', 'resolution', value=63), 'resolution')
        for value in ('513', 'default', 512, ['512'], {}):
            bad(setting('args', 'default_pipeline_type', value=value), 'default_pipeline_type')

    def test_sizes_that_do_not_fit_the_networks(self):
        text = read(self.model.pipeline)
        for key, value, part in (('image_size', 33, 'encoder'), ('ss_grid', 7, 'shape_dec'), ('resolution', 128, 'shape_dec')):
            self.model.replace(self.model.pipeline, text)
            self.model.edit_json(self.model.pipeline, lambda p: p['args']['espalier'].update({key: value}) or
                                 (p['args']['espalier'].update({'resolution': 56}) if key == 'ss_grid' else None))
            self.damaged(PARTS[part] if key != 'ss_grid' else '')

    def test_missing_files(self):
        for part in PARTS:
            model = MicroCopy(self.path('model-' + part))
            model.remove(part)
            wanted = 'dinov3' if part == 'encoder' else PARTS[part] + '.safetensors'
            self.fail_with(MODEL, *self.micro('-o', 'x.glb', model=model.dir), says=[model.dir, wanted, '--weights'])
            if part in ('tex_flow', 'tex_dec'):
                self.succeed(*self.micro('-o', 'x.glb', '--no-texture', model=model.dir))
        self.fail_with(MODEL, *self.micro('-o', 'x.glb', '--res', '1024'), says=['1024_cascade', 'shape_slat_flow_model_1024'])
        self.fail_with(MODEL, *self.micro('-o', 'x.glb', '--pipeline', '1024'), says=['tex_slat_flow_model_1024'])

    def test_weights_option(self):
        moved = self.path('moved.safetensors')
        shutil.copy(os.path.realpath(self.model.file('tex_dec')), moved)
        shutil.copy(os.path.realpath(self.model.config('tex_dec')), self.path('moved.json'))
        self.model.remove('tex_dec')
        self.damaged('tex_slat_decoder')
        self.succeed(*self.generate('--weights', 'tex_slat_decoder=' + moved))
        with_option = read(self.path('out.glb'))
        self.succeed(*self.micro('-o', 'out.glb'))
        self.assertEqual(with_option, read(self.path('out.glb')))
        self.fail_with(MODEL, *self.generate('--weights', 'tex_slat_decoder=nowhere'), says=['nowhere', 'tex_slat_decoder'])
        self.fail_with(MODEL, *self.generate('--weights', 'tex_slat_decoder=' + self.model.file('shape_dec')), says=PARTS['shape_dec'])


class DamagedWeights(ModelTest):
    def test_truncated(self):
        for part in ('encoder', 'ss_dec'):
            data = original = read(self.model.file(part))
            header = 8 + struct.unpack('<Q', data[:8])[0]
            for n in (0, 1, 7, 8, 9, 100, header - 1, header, header + 1, len(data) // 2, len(data) - 1):
                self.model.replace_weights(part, data[:n])
                self.damaged(PARTS[part])
            self.model.replace_weights(part, original)

    def test_headers(self):
        def bad(change, *says):
            header, data = tensors_read(os.path.join(MICRO, PARTS['ss_dec'] + '.safetensors'))
            result = change(header, data)
            header, data = result if isinstance(result, tuple) else (header, data)
            self.model.replace_weights('ss_dec', tensors_bytes(header, data))
            return self.damaged(PARTS['ss_dec'], *says)

        data = read(self.model.file('ss_dec'))
        for length in (2 ** 63, 2 ** 64 - 1, 2 ** 63 - 1, 2 ** 32, 0, 1, 100000001, len(data)):
            self.model.replace_weights('ss_dec', struct.pack('<Q', length) + data[8:])
            self.damaged(PARTS['ss_dec'])
        bias = 'out_layer.2.bias'
        bad(lambda h, d: h[bias].update(data_offsets=h['out_layer.0.bias']['data_offsets']), bias)
        bad(lambda h, d: h[bias].update(data_offsets=[h[bias]['data_offsets'][0] - 2, h[bias]['data_offsets'][1] - 2]))
        for offsets in ([5, 3], [-4, 0], [0], [0, 4, 8], 'x', [2 ** 63, 2 ** 63 + 4], [0, 2 ** 70], [len(data), len(data) + 4], None, [0.5, 4.5]):
            bad(lambda h, d: h[bias].update(data_offsets=offsets))
        for shape in ([-1], [2 ** 62, 2 ** 62], ['x'], 7, [2], [0], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1], None, [1.5]):
            bad(lambda h, d: h[bias].update(shape=shape))
        for dtype in ('F31', 7, '', None, 'C64'):
            bad(lambda h, d: h[bias].update(dtype=dtype))
        bad(lambda h, d: h.update({bias: []}), bias)
        bad(lambda h, d: h[bias].pop('shape'))
        bad(lambda h, d: h[bias].pop('dtype'))
        bad(lambda h, d: h[bias].pop('data_offsets'))

    def test_bit_flips_never_crash(self):
        """Any outcome but a crash: a flip may hit a name, a number, padding, or the values of a tensor."""
        random.seed(7)
        path = os.path.join(MICRO, PARTS['ss_dec'] + '.safetensors')
        data = read(path)
        header = 8 + struct.unpack('<Q', data[:8])[0]
        codes = {}
        for i in range(60):
            flipped = bytearray(data)
            bit = random.randrange(8 * 8) if i < 12 else random.randrange(8 * header)
            flipped[bit // 8] ^= 1 << bit % 8
            self.model.replace_weights('ss_dec', bytes(flipped))
            r = self.run_raw(*self.generate())
            self.assertIn(r.code, (0, MODEL, UNSOUND), 'bit %d: %s' % (bit, r))
            if r.code:
                self.assertTrue(r.err.splitlines()[-1].startswith('espalier: '), r)
            codes[r.code] = codes.get(r.code, 0) + 1
        self.assertGreater(codes.get(MODEL, 0), 30, codes)

    def test_wrong_dtype_shape_and_names(self):
        name = 'out_layer.2.weight'

        def integers(header, data):
            begin, end = header[name]['data_offsets']
            header[name].update(dtype='I32')
            return header, data
        self.model.edit('ss_dec', integers)
        self.damaged(PARTS['ss_dec'], name)
        name = 'input_layer.weight'
        for shape in ([3, 3, 3, 8, 8], [4, 16, 3, 3, 3], [27, 8, 8, 1, 1], [1728]):
            self.model.replace_weights('ss_dec', read(os.path.join(MICRO, PARTS['ss_dec'] + '.safetensors')))
            self.model.edit('ss_dec', lambda h, d: (h[name].update(shape=shape), (h, d))[1])
            self.damaged(PARTS['ss_dec'], 'input_layer')
        for part in PARTS:
            header, _ = tensors_read(self.model.file(part))
            if part == 'ss_dec':
                self.model.replace_weights('ss_dec', read(os.path.join(MICRO, PARTS['ss_dec'] + '.safetensors')))
                header, _ = tensors_read(self.model.file(part))
            unused = ('mask_token', 'rope_phases', 'inv_freq')
            for lost in [n for n in sorted(header) if not any(u in n for u in unused)][::17]:
                model = MicroCopy(self.path('lost'))
                model.edit(part, lambda h, d: self.without(h, d, lost))
                self.fail_with(MODEL, *self.micro('-o', 'x.glb', model=model.dir), says=[PARTS[part]])
                shutil.rmtree(model.dir)

    @staticmethod
    def without(header, data, name):
        """Rename it: the space stays taken, so that only the name is missing."""
        return {('gone' if k == name else k): v for k, v in header.items()}, data

    def test_surplus_tensor_is_a_warning(self):
        def more(header, data):
            header['teapot'] = {'dtype': 'F32', 'shape': [2], 'data_offsets': [len(data), len(data) + 8]}
            return header, data + struct.pack('<2f', 1, 2)
        self.model.edit('ss_dec', more)
        r = self.succeed(*self.generate(), warnings=1)
        self.assertIn('teapot', r.err)
        self.assertIn(PARTS['ss_dec'], r.err)
        with_surplus = read(self.path('out.glb'))
        self.succeed(*self.micro('-o', 'out.glb'))
        self.assertEqual(with_surplus, read(self.path('out.glb')))

    def test_not_finite(self):
        for part, name in (('encoder', 'embeddings.cls_token'), ('ss_flow', 'out_layer.bias'), ('ss_dec', 'out_layer.2.bias'),
                           ('shape_flow', 'out_layer.weight'), ('shape_dec', 'output_layer.bias'), ('tex_flow', 'out_layer.bias'),
                           ('tex_dec', 'output_layer.weight')):
            for value in (float('nan'), float('inf'), -float('inf')):
                model = MicroCopy(self.path('m'))
                model.put(part, name, lambda v: v[:-1] + [value])
                for more in ([], ['--force']):
                    self.fail_with(MODEL, *self.micro('-o', 'x.glb', '--quiet', *more, model=model.dir), says=[PARTS[part], name, 'NaN'])
                shutil.rmtree(model.dir)
        self.assertEqual(self.files(), ['model'])

    def test_configs(self):
        for part in PARTS:
            for data in (b'', b'{', b'[]', b'7', b'{"name": 3}', b'{"name": "Teapot", "args": {}}'):
                model = MicroCopy(self.path('m'))
                model.replace(model.config(part), data)
                r = self.run_raw(*self.micro('-o', 'x.glb', '--quiet', model=model.dir))
                if r.code == 0 and part == 'encoder' and data.startswith(b'{"'):
                    pass                             # the encoder's config has other keys and may lack them
                else:
                    self.assertEqual(r.code, MODEL, '%s %r: %s' % (part, data, r))
                    self.assertIn(os.path.dirname(PARTS[part]), r.err)
                    self.assertEqual(len(r.err.splitlines()), 1, r)
                shutil.rmtree(model.dir)

    def test_parts_that_do_not_fit_together(self):
        swaps = (('ss_flow', 'shape_flow'), ('shape_flow', 'tex_flow'), ('shape_dec', 'tex_dec'), ('tex_dec', 'shape_dec'), ('ss_dec', 'shape_dec'),
                 ('shape_flow', 'ss_dec'), ('encoder', 'ss_flow'))
        for part, other in swaps:
            model = MicroCopy(self.path('m'))
            model.replace_weights(part, read(os.path.join(MICRO, PARTS[other] + '.safetensors')))
            model.replace(model.config(part), read(model.config(other)))
            self.fail_with(MODEL, *self.micro('-o', 'x.glb', '--quiet', model=model.dir), says=PARTS[part])
            shutil.rmtree(model.dir)
        tiny_encoder = os.path.join(TINY, 'dinov3-tiny', 'model.safetensors')
        self.fail_with(MODEL, *self.micro('-o', 'x.glb', '--weights', 'image_cond_model=' + tiny_encoder), says='condition of')


class Soundness(ModelTest):
    def unsound(self, *says, args=(), force_helps=False, gate, stage):
        """Exit 9 naming the stage, a report that tells, no asset; with --force the same or success."""
        r = self.fail_with(UNSOUND, *self.generate('--report', 'r.json', '--dump-post', 'd.espd', *args), says=[stage + ': ', *says])
        self.assertEqual('--force' in r.err, force_helps, r)
        self.assertEqual(self.files(), ['model', 'r.json'])
        report = json.loads(read(self.path('r.json')))
        self.assertEqual([(g['name'], g['stage']) for g in report['gates'] if not g['passed']], [(gate, stage)])
        self.assertEqual(report['stages'][-1]['name'], stage)
        os.unlink(self.path('r.json'))
        self.fail_with(UNSOUND, *self.generate('--json'), says=stage)
        return report

    def test_no_voxels(self):
        self.model.put('ss_dec', 'out_layer.2.bias', lambda v: [-1000.0])
        report = self.unsound('no voxels', gate='no_voxels', stage='structure')
        occupancy = [d for d in report['decisions'] if d['name'] == 'occupancy'][0]
        self.assertEqual(occupancy['yes_share'], 0)
        self.fail_with(UNSOUND, *self.generate('--force'), says='no voxels')
        self.assertEqual(self.files(), ['model'])

    def test_no_subdivision(self):
        names = [n for n in tensors_read(self.model.file('shape_dec'))[0] if 'subdiv' in n and n.endswith('bias')]
        self.assertTrue(names)
        for name in names[-1:]:
            self.model.put('shape_dec', name, lambda v: [-60000.0] * len(v))
        self.unsound('no voxels', gate='no_voxels', stage='decode')

    def test_no_faces(self):
        self.model.put('shape_dec', 'output_layer.bias', lambda v: v[:3] + [-60000.0] * 3 + v[6:])
        self.unsound('no faces', gate='largest_component', stage='finish')
        self.fail_with(UNSOUND, *self.generate('--force'), says='no faces')

    def test_overflow(self):
        for part, stage, option in (('ss_flow', 'structure', '--gss=1'), ('shape_flow', 'shape', '--gsh=1'),
                                    ('tex_flow', 'texture', '--set=tex.guidance_strength=1')):
            original = read(self.model.file(part))
            self.model.put(part, 'out_layer.bias', lambda v: [3e38] * len(v))
            report = self.unsound('NaN', args=[option], gate='nan', stage=stage, force_helps=True)
            self.assertGreater([s for s in report['stages'] if s['name'] == stage][0]['nan'], 0)
            # Forced on, NaN colours become black; where the shape is NaN, a later stage still has to stop.
            r = self.run_raw(*self.generate(option, '--force'))
            self.assertIn('going on as asked', r.err)
            if stage == 'texture':
                self.assertEqual(r.code, 0, r)
                os.unlink(self.path('out.glb'))
            else:
                self.assertEqual(r.code, UNSOUND, r)
            self.assertEqual(self.files(), ['model'])
            self.model.replace_weights(part, original)
        self.model.put('encoder', 'embeddings.cls_token', lambda v: [3e38] * len(v))
        self.unsound('NaN', gate='nan', stage='condition')

    def test_debris(self):
        """Every cell has one child, that child is whole, and all its edges are crossed: pieces of six quads, as many as there are cells."""
        source = os.path.join(TINY, 'ckpts', 'shape_dec_tiny_fp16')
        header, data = tensors_read(source + '.safetensors')
        first, second = sorted(name[:-len('.bias')] for name in header if name.endswith('to_subdiv.bias'))
        for layer, bias in ((first, [100] + [-100] * 7), (second, [100] * 8)):
            data = tensor_put(header, data, layer + '.weight', [0] * len(tensor_values(header, data, layer + '.weight')))
            data = tensor_put(header, data, layer + '.bias', bias)
        bias = tensor_values(header, data, 'output_layer.bias')
        data = tensor_put(header, data, 'output_layer.bias', bias[:3] + [1000] * 3 + bias[6:])
        write(self.path('debris.safetensors'), tensors_bytes(header, data))
        shutil.copy(source + '.json', self.path('debris.json'))
        command = ['generate', TINY_PICTURE, '-m', TINY, '--weights', 'shape_slat_decoder=debris.safetensors', '--steps', '4', '--no-texture',
                   '--quiet', '-o', 'out.glb', '--report', 'r.json']
        self.fail_with(UNSOUND, *command, says=['finish: ', 'largest', '--force'])
        self.assertFalse(os.path.exists(self.path('out.glb')))
        report = json.loads(read(self.path('r.json')))
        gate = [g for g in report['gates'] if not g['passed']]
        self.assertEqual([(g['name'], g['stage'], g['limit']) for g in gate], [('largest_component', 'finish', 0.05)])
        self.assertEqual(gate[0]['value'], report['raw_mesh']['largest_component_share'])
        self.assertEqual(report['raw_mesh']['faces'], 12 * report['raw_mesh']['components'])
        r = self.succeed(*command, '--force', warnings=1)
        self.assertIn('largest', r.err)
        self.succeed('inspect', 'out.glb')


class DefaultModel(ModelTest):
    """Which model is used when none is named, and that this is said."""

    def default(self, env, warnings=0, *args):
        return self.succeed('generate', MICRO_PICTURE, '-o', 'out.glb', '--steps', '1', *args, env=env, warnings=warnings)

    def setUp(self):
        super().setUp()
        os.makedirs(self.path('data', 'espalier'))
        self.env = environment(XDG_DATA_HOME=self.path('data'))

    def test_none(self):
        for env in (environment(), self.env, environment(XDG_DATA_HOME='relative'), environment(XDG_DATA_HOME='')):
            r = self.default(env)
            self.assertIn('models: ', r.out.splitlines()[0])
            self.assertIn('embedded', r.out.splitlines()[0])
            self.assertIn('tiny', r.out.splitlines()[0])
        start = json.loads(self.default(self.env, 0, '--json').out.splitlines()[0])
        self.assertEqual(start['type'], 'start')
        self.assertIn('embedded', start['models_are'])
        self.assertTrue(os.path.samefile(start['models'], TINY))

    def test_complete(self):
        os.symlink(MICRO, self.path('data', 'espalier', 'models'))
        r = self.default(self.env)
        self.assertIn("models: %s (the user's own models)" % self.path('data', 'espalier', 'models'), r.out)
        mine = read(self.path('out.glb'))
        self.succeed(*self.micro('-o', 'out.glb', '--steps', '1'))
        self.assertEqual(mine, read(self.path('out.glb')))
        os.makedirs(self.path('home', '.local', 'share'))
        os.symlink(self.path('data', 'espalier'), self.path('home', '.local', 'share', 'espalier'))
        self.assertIn("the user's own models", self.default(environment(HOME=self.path('home'))).out)
        # -m wins.
        self.assertIn('(as given)', self.succeed(*self.micro('-o', 'o.glb'), env=self.env).out)

    def test_incomplete(self):
        self.model.remove('tex_dec')
        os.symlink(self.model.dir, self.path('data', 'espalier', 'models'))
        r = self.default(self.env, 1)
        self.assertIn("user's own models are not used", r.err)
        self.assertIn(PARTS['tex_dec'], r.err)
        self.assertIn('embedded', r.out)
        # Without texture it is complete.
        self.assertIn("the user's own models", self.default(self.env, 0, '--no-texture').out)

    def test_damaged(self):
        self.model.replace(self.model.pipeline, b'{')
        os.symlink(self.model.dir, self.path('data', 'espalier', 'models'))
        r = self.default(self.env, 1)
        self.assertIn('pipeline.json', r.err)
        self.assertIn('embedded', r.out)
