// SPDX-License-Identifier: MIT
//
// Runs the Khronos glTF validator over GLB and glTF files: node gltf_validate.mjs FILE...
// Prints one line per file and every message; exit status 1 on any error or warning. The validator is an npm package and optional: where
// it is not installed (`npm install gltf-validator` in the current directory or in $GLTF_VALIDATOR_DIR) the test says SKIPPED and exits
// with 77.
import { createRequire } from 'node:module';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

function load() {
    const places = [process.env.GLTF_VALIDATOR_DIR, process.cwd(), dirname(fileURLToPath(import.meta.url))];
    for (const place of places) {
        if (!place) continue;
        try {
            return createRequire(place + '/')('gltf-validator');
        } catch (error) {
            if (error.code !== 'MODULE_NOT_FOUND') throw error;
        }
    }
    return null;
}

const validator = load();
if (!validator) {
    console.log('SKIPPED: npm package gltf-validator is not installed; set GLTF_VALIDATOR_DIR to where it is');
    process.exit(77);
}
const files = process.argv.slice(2);
if (files.length === 0) {
    console.error('usage: node gltf_validate.mjs FILE...');
    process.exit(2);
}
let failed = 0;
for (const file of files) {
    const report = await validator.validateBytes(new Uint8Array(await readFile(file)), {
        uri: file, format: file.endsWith('.gltf') ? 'gltf' : 'glb',
        externalResourceFunction: async uri => new Uint8Array(await readFile(join(dirname(file), decodeURIComponent(uri)))),
    });
    const { numErrors, numWarnings, numInfos, numHints, messages } = report.issues;
    console.log(`${file}: ${numErrors} errors, ${numWarnings} warnings, ${numInfos} infos, ${numHints} hints; ` +
                `${report.info.totalVertexCount} vertices, ${report.info.totalTriangleCount} triangles`);
    for (const m of messages) console.log(`  severity ${m.severity} ${m.code} ${m.pointer ?? ''}: ${m.message}`);
    if (numErrors > 0 || numWarnings > 0) failed++;
}
console.log(`gltf-validator: ${files.length - failed} of ${files.length} files clean`);
process.exit(failed > 0 ? 1 : 0);
