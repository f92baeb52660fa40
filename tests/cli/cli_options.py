# SPDX-License-Identifier: MIT
#
# Options, good and bad, and output files that cannot be written: everything that must be found before any work.
import os

from support import (DEVICE, INPUT, MICRO, MICRO_PICTURE, MODEL, OUTPUT, RESOURCE, USAGE, CommandTest, environment, read, settings,
                     write)


class BadOptions(CommandTest):
    def bad(self, *args, says=()):
        says = [says] if isinstance(says, str) else list(says)
        self.fail_with(USAGE, *args, says=says + ["--help'"])
        self.assertEqual(self.files(), [])

    def test_commands(self):
        self.bad('frobnicate', says="unknown command 'frobnicate'")
        self.bad('--frobnicate', says="unknown option '--frobnicate'")
        r = self.run_raw()
        self.assertEqual(r.code, USAGE)
        self.assertIn('usage: espalier COMMAND', r.err)
        self.assertEqual(r.out, '')

    def test_unknown_options(self):
        for command in ('generate', 'post', 'voxelize', 'mesh', 'render', 'inspect', 'devices'):
            self.bad(command, '--frobnicate', says="'--frobnicate'")
            self.bad(command, '--frobnicate=3', says="'--frobnicate'")
            self.bad(command, '-q', says="'-q'")
            self.bad(command, '--quiet=3', says="'--quiet' takes no value")
            self.bad(command, '--json=yes', says="'--json' takes no value")
        self.bad('generate', '--m', 'x', says="unknown or ambiguous option '--m'")

    def test_missing_and_empty_values(self):
        for option in ('-i', '-o', '-m', '-s', '--image', '--output', '--models', '--seed', '--res', '--pipeline', '--set', '--steps', '--gss',
                       '--gsh', '--max-tokens', '--dump-post', '--report', '--weights', '--matte', '--threads', '--cpu-level', '--mem-budget'):
            self.bad('generate', 'a.png', option, says=["'%s'" % option, 'needs a value'])
            self.bad('generate', option, '', 'a.png', says=["'%s'" % option, 'empty value'])
        self.bad('generate', 'a.png', '--seed=', says=["'--seed'", 'empty value'])

    def test_numbers(self):
        cases = {'--seed': ('abc', '1.5', '9223372036854775808', '12x', ' 3', '0x10', '1e3'),
                 '--threads': ('0', '-1', 'two', '1025', '1.5'),
                 '--mem-budget': ('x', '-1', '5Q', '1000GG', 'nan', 'inf', '12', '6Gx', '1e30'),
                 '--steps': ('0', '-3', '1001', 'many', '2.5'),
                 '--max-tokens': ('0', '-1', 'x', '16777217'),
                 '--gss': ('abc', '-1', 'nan', 'inf', '1001', '7.5x'),
                 '--gsh': ('', '-0.5', '1e9')[1:],
                 '--res': ('777', 'abc', '0', '512x', '1024_cascade'),
                 '--pipeline': ('777', 'default', '512_cascade', '1024_CASCADE'),
                 '--cpu-level': ('sse', 'AVX2', '2'),
                 '--matte': ('birefnets', 'Auto', 'None')}
        for option, values in cases.items():
            for value in values:
                self.bad('generate', MICRO_PICTURE, '-o', 'x.glb', option, value, says=[option, "'%s'" % value])
                self.bad('generate', MICRO_PICTURE, '-o', 'x.glb', option + '=' + value, says=option)

    def test_settings(self):
        for text in ('nonsense', 'ss', 'ss.', 'ss.steps', 'ss.steps=', 'ss.steps=0', 'ss.steps=1001', 'ss.steps=1.5', 'ss.steps=x', 'sss.steps=3',
                     '.steps=3', 'ss=3.steps', 'ss.guidance=3', 'ss.guidance_strength=', 'ss.guidance_strength=nan', 'shape.guidance_rescale=1.5',
                     'tex.rescale_t=0', 'tex.rescale_t=-1', 'tex.sigma_min=0.6', 'ss.interval_low=-5', 'ss.interval_high=inf', 'SS.steps=3',
                     'ss.step=3', 'ss.stepss=3', 's.steps=3'):
            self.bad('generate', MICRO_PICTURE, '-o', 'x.glb', '--set', text, says=["--set '%s'" % text])
        many = [x for i in range(65) for x in ('--set', 'ss.steps=2')]
        self.bad('generate', MICRO_PICTURE, '-o', 'x.glb', *many, says='more than 64')

    def test_weights(self):
        for text in ('x', '=x', 'x=', '='):
            self.bad('generate', MICRO_PICTURE, '-o', 'x.glb', '--weights', text, says='ROLE=FILE')
        self.fail_with(USAGE, *self.micro('-o', 'x.glb', '--weights', 'teapot=/dev/null'), says=["unknown role 'teapot'", 'tex_slat_decoder'])
        self.bad('generate', MICRO_PICTURE, '-o', 'x.glb', *[x for i in range(17) for x in ('--weights', 'a=b')], says='more than 16')
        self.bad('generate', MICRO_PICTURE, '-o', 'x.glb', '--weights', 'a=' + 5000 * 'b', says='too long')

    def test_pictures_and_outputs(self):
        self.bad('generate', says='name a picture')
        self.bad('generate', '-o', 'x.glb', says='name a picture')
        self.bad('generate', 'a.png', 'b.png', '-o', 'x.glb', says='more than one picture')
        self.bad('generate', '-i', 'a.png', 'b.png', '-o', 'x.glb', says='more than one picture')
        self.bad('generate', '-i', 'a.png', '-i', 'b.png', '-o', 'x.glb', says='more than one picture')
        self.bad('generate', 'a.png', says=['-o FILE.glb', '--dump-post'])
        self.bad('generate', 'a.png', '--report', 'r.json', says='-o FILE.glb')
        for name in ('x.doc', 'x', 'x.glb.gz', 'x.fbx'):
            self.bad('generate', 'a.png', '-o', name, says='ends in none of .glb')
        self.bad('generate', 'a.png', '-o', 'x.glb', '--dump-post', 'x.glb', says='overwritten')
        self.bad('generate', 'a.png', '--dump-post', 'x', '--report', 'x', says='overwritten')
        self.bad('generate', 'a.png', '--dump-post', 'a.png', says='overwritten')
        self.bad('inspect', says='name a file')
        self.bad('devices', 'gpu', says="unexpected argument 'gpu'")

    def test_links_to_the_picture_are_seen(self):
        write(self.path('a.png'), read(MICRO_PICTURE))
        os.symlink('a.png', self.path('b'))
        self.fail_with(USAGE, 'generate', 'a.png', '--dump-post', 'b', says='overwritten')
        self.assertEqual(read(self.path('a.png')), read(MICRO_PICTURE))

    def test_level_that_is_not_here(self):
        listed = self.succeed('devices').out.splitlines()[0]
        missing = [level for level in ('avx2', 'avx512', 'neon') if level not in listed.split('supported:')[1].rstrip(')\n').split()]
        self.assertTrue(missing)
        self.fail_with(DEVICE, *self.micro('-o', 'x.glb', '--cpu-level', missing[0]), says=missing[0])

    def test_device_that_is_not_here(self):
        for name in ('no such device', 'vulkan:63', 'vulkan:x'):
            self.fail_with(DEVICE, *self.micro('-o', 'x.glb', '--device', name))
        self.succeed(*self.micro('-o', 'cpu.glb', '--device', 'cpu', '--report', 'r.json'))
        self.assertIn('"device": "cpu"', read(self.path('r.json')).decode())

    def test_no_driver(self):
        none = environment(VK_DRIVER_FILES='/nonexistent', VK_ICD_FILENAMES='/nonexistent')
        self.fail_with(DEVICE, *self.micro('-o', 'x.glb', '--device', 'vulkan'), says='Vulkan', env=none)
        self.assertEqual(self.files(), [])
        r = self.succeed(*self.micro('-o', 'auto.glb', '--device', 'auto', '--pipeline', '512', '--steps', '1', '--report', 'r.json', '--force'),
                         env=none)
        self.assertIn('networks run on the CPU', r.out)
        self.assertIn('"device": "cpu"', read(self.path('r.json')).decode())

    def test_budget_that_is_too_small(self):
        self.fail_with(RESOURCE, *self.micro('-o', 'x.glb', '--mem-budget', '20K', '--quiet'), says='budget')
        self.assertEqual(self.files(), [])


class BadOutputs(CommandTest):
    def test_found_before_any_work(self):
        # The model does not exist: the output is looked at first.
        os.mkdir(self.path('folder.glb'))
        for option, suffix in (('-o', '.glb'), ('--dump-post', '.bin'), ('--report', '.json')):
            more = [] if option != '--report' else ['-o', 'x.glb']
            base = ['generate', 'missing.png', '-m', '/nonexistent', *more, option]
            self.fail_with(OUTPUT, *base, 'nowhere/x' + suffix, says='no such directory')
            self.fail_with(OUTPUT, *base, '/nonexistent/x' + suffix, says='/nonexistent')
            self.fail_with(OUTPUT, *base, MICRO_PICTURE + '/x' + suffix, says='no such directory')
            self.fail_with(OUTPUT, *base, 'folder.glb', says='is a directory')
            self.fail_with(OUTPUT, *base, 'n' * 300 + suffix, says='too long')
        self.fail_with(OUTPUT, 'generate', 'missing.png', '--dump-post', 'folder.glb/', says='is a directory')
        self.fail_with(OUTPUT, 'generate', 'missing.png', '--dump-post', './' * 4000 + 'x', says='too long')
        self.assertEqual(self.files(), ['folder.glb'])

    def test_not_writable(self):
        if os.geteuid() == 0:
            self.skipTest('the super-user may write everywhere')
        os.mkdir(self.path('locked'), 0o555)
        write(self.path('old.glb'), b'old')
        os.chmod(self.path('old.glb'), 0o444)
        self.fail_with(OUTPUT, 'generate', 'missing.png', '-o', 'locked/x.glb', says='locked')
        self.fail_with(OUTPUT, 'generate', 'missing.png', '-o', 'old.glb', says='old.glb')
        self.assertEqual(read(self.path('old.glb')), b'old')

    def test_disk_full(self):
        self.fail_with(OUTPUT, *self.micro('--dump-post', '/dev/full'), says=['/dev/full', 'no space'])
        self.fail_with(OUTPUT, *self.micro('--dump-post', 'd.espd', '--report', '/dev/full'), says=['/dev/full', 'no space'])
        self.assertEqual(self.files(), ['d.espd'])           # whole: it was finished before
        self.succeed('inspect', 'd.espd')
        for kind in ('espd', 'qtm3d', 'glb', 'bin'):
            os.symlink('/dev/full', self.path('full.' + kind))
            self.fail_with(OUTPUT, *self.micro('-o' if kind == 'glb' else '--dump-post', 'full.' + kind), says='no space')
            self.assertTrue(os.path.islink(self.path('full.' + kind)))
        self.assertEqual([f for f in self.files() if 'tmp' in f], [])

    def test_standard_output_full(self):
        for args in (['devices'], ['devices', '--json'], ['--version'], ['--help'], ['generate', '--help'], ['inspect', MICRO_PICTURE]):
            with open('/dev/full', 'wb') as full:
                self.fail_with(OUTPUT, *args, stdout=full, says='standard output')
        with open('/dev/full', 'wb') as full:               # what generate prints is news, not its result
            self.succeed(*self.micro('-o', 'x.glb'), stdout=full)
        self.assertEqual(self.files(), ['x.glb'])

    def test_old_file_survives_a_failure(self):
        write(self.path('x.glb'), b'old')
        self.fail_with(INPUT, 'generate', 'missing.png', '-m', MICRO, '-o', 'x.glb', says='missing.png')
        self.fail_with(MODEL, 'generate', MICRO_PICTURE, '-m', '/nonexistent', '-o', 'x.glb', says='/nonexistent')
        self.assertEqual(read(self.path('x.glb')), b'old')
        self.assertEqual(self.files(), ['x.glb'])


class GoodOptions(CommandTest):
    def test_help_and_version(self):
        version = self.succeed('--version').out
        self.assertRegex(version, r'^espalier \d+\.\d+\.\d+\n$')
        for args in (['-h'], ['--help'], ['help'], *[[c, o] for c in ('generate', 'inspect', 'devices') for o in ('-h', '--help')]):
            self.assertTrue(self.succeed(*args).out.startswith('usage: espalier '))
        for command in ('generate', 'post', 'voxelize', 'mesh', 'render', 'inspect', 'devices'):
            self.assertEqual(self.succeed(command, '--version').out, version)
        help_text = self.succeed('generate', '--help').out
        for option in ('--image', '--output', '--models', '--seed', '--res', '--pipeline', '--set', '--steps', '--gss', '--gsh', '--max-tokens',
                       '--threads', '--cpu-level', '--mem-budget', '--no-texture', '--dump-post', '--report', '--quiet', '--json', '--force',
                       '--matte', '--allow-opaque', '--weights', '--version'):
            self.assertIn(option, help_text)
        self.assertIn('130/143', help_text)

    def report(self, *args):
        import json
        self.succeed(*self.micro('-o', 'x.glb', '--report', 'r.json', *args))
        return json.loads(read(self.path('r.json')))

    def test_values_arrive(self):
        run = self.report()['run']
        self.assertEqual((run['seed'], run['max_tokens'], run['pipeline'], run['texture'], run['memory_budget']), (42, 49152, '512', True, 0))
        before = run['sampler']
        run = self.report('--seed', '-7', '--threads', '1', '--cpu-level', 'generic', '--mem-budget', '64M', '--max-tokens', '77', '--res', '1024',
                          '--pipeline', '512', '--steps', '3', '--gss', '2.5', '--gsh', '1.25', '--set', 'tex.steps=1', '--set',
                          'tex.guidance_strength=4', '--set', 'ss.guidance_rescale=0.25', '--set', 'shape.interval_low=0.125', '--set',
                          'shape.interval_high=0.875', '--set', 'ss.rescale_t=2', '--set', 'tex.sigma_min=0.001', '--no-texture')['run']
        self.assertEqual((run['seed'], run['threads'], run['cpu_level'], run['memory_budget']), (-7, 1, 'generic', 64 << 20))
        self.assertEqual((run['max_tokens'], run['pipeline'], run['texture']), (77, '512', False))
        s = run['sampler']
        self.assertEqual((s['structure']['steps'], s['shape']['steps'], s['texture']['steps']), (3, 3, 1))
        self.assertEqual((s['structure']['guidance_strength'], s['shape']['guidance_strength'], s['texture']['guidance_strength']), (2.5, 1.25, 4))
        self.assertEqual((s['structure']['guidance_rescale'], s['structure']['rescale_t'], s['texture']['sigma_min']), (0.25, 2, 0.001))
        self.assertEqual((s['shape']['interval_low'], s['shape']['interval_high']), (0.125, 0.875))
        self.assertEqual(s['structure']['interval_low'], before['structure']['interval_low'])
        # The last one wins.
        s = self.report('--gss', '2', '--set', 'ss.guidance_strength=3')['run']['sampler']
        self.assertEqual(s['structure']['guidance_strength'], 3)

    def test_forms(self):
        self.succeed('generate', '--image', MICRO_PICTURE, '--models=' + MICRO, '--output=a.glb', '-s7')
        self.succeed('generate', '-i', MICRO_PICTURE, '-m', MICRO, '-o', 'b.glb', '--seed=7')
        self.succeed('generate', '-m', MICRO, '-ob.glb', '--seed', '7', '--', MICRO_PICTURE)
        self.assertEqual(read(self.path('a.glb')), read(self.path('b.glb')))
        self.succeed(*self.micro('-o', 'c.glb', '--seed', '8'))
        self.assertNotEqual(read(self.path('a.glb')), read(self.path('c.glb')))

    def test_devices(self):
        import json
        text = self.succeed('devices').out
        self.assertRegex(text, r'^cpu: \d+ threads, kernels [a-z0-9-]+ \(supported: generic')
        cpu = json.loads(self.succeed('devices', '--json').out)['devices'][0]
        self.assertEqual(cpu['device'], 'cpu')
        self.assertTrue(cpu['levels']['generic'] and cpu['levels'][cpu['level']])
        self.assertGreaterEqual(cpu['threads'], 1)
        self.assertIn(cpu['level'], text)
