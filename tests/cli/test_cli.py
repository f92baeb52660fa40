# SPDX-License-Identifier: MIT
#
# test_cli.py BUILD_DIR [MODULE...] [-v]: tests of the espalier command in BUILD_DIR, by default all but cli_examples, which takes its time.
# Standard library only.
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import support  # noqa: E402


def main():
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit('usage: test_cli.py BUILD_DIR [MODULE...] [-v]')
    support.use_build(sys.argv[1])
    modules = [name[:-3] for name in sorted(os.listdir(HERE)) if name.startswith('cli_') and name.endswith('.py')]
    named = [name for name in sys.argv[2:] if not name.startswith('-')]
    suite = unittest.defaultTestLoader.loadTestsFromNames(named or [m for m in modules if m != 'cli_examples'])
    result = unittest.TextTestRunner(verbosity=2 if '-v' in sys.argv else 1).run(suite)
    for test, reason in result.skipped:
        print('SKIPPED: %s: %s' % (test.id(), reason))
    print('cli: %d tests, %d failures, %d errors, %d skipped' % (result.testsRun, len(result.failures), len(result.errors), len(result.skipped)))
    sys.exit(0 if result.wasSuccessful() else 1)


main()
