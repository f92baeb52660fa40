// SPDX-License-Identifier: MIT
//
// node reimport_usdz.mjs OUT.json FILE.usdz...: what TinyUSDZ makes of files, one entry each: points, indices, texture coordinates of the one
// mesh and its material with the encoded base colour picture. TinyUSDZ is an npm package (WebAssembly) and optional: exit status 77 where
// it is not installed in the current directory or in $GLTF_VALIDATOR_DIR.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const places = [process.env.GLTF_VALIDATOR_DIR, process.cwd()].filter(Boolean).map(place => join(place, 'node_modules', 'tinyusdz'));
const home = places.find(existsSync);
if (!home) {
    console.log('SKIPPED: npm package tinyusdz is not installed; set GLTF_VALIDATOR_DIR to where it is');
    process.exit(77);
}
// The package is built for browsers only, yet all it wants of one is the name.
globalThis.window = globalThis;
Object.defineProperty(process, 'type', { value: 'renderer' });
const { default: start } = await import(pathToFileURL(join(home, 'tinyusdz.js')));
const library = await start({ wasmBinary: readFileSync(join(home, 'tinyusdz.wasm')) });

function load(file) {
    const scene = new library.TinyUSDZLoaderNative();
    if (!scene.loadFromBinary(new Uint8Array(readFileSync(file)), file)) throw new Error(`${file}: ${scene.error()}`);
    if (scene.numMeshes() !== 1) throw new Error(`${file}: ${scene.numMeshes()} meshes`);
    const mesh = scene.getMesh(0);
    const material = scene.getMaterial(mesh.materialId);
    const out = { counts: Array.from(mesh.faceVertexCounts), indices: Array.from(mesh.faceVertexIndices), points: Array.from(mesh.points) };
    if (mesh.texcoords) out.uvs = Array.from(mesh.texcoords);
    out.textures = {};
    for (const key of Object.keys(material).filter(name => name.endsWith('TextureId'))) {
        const texture = scene.getTexture(material[key]);
        const image = scene.getImage(texture.textureImageId);
        out.textures[key.slice(0, -'TextureId'.length)] = { wrapS: texture.wrapS, wrapT: texture.wrapT, uri: image.uri, space: image.usdColorSpace,
                                                            bytes: Buffer.from(image.data).toString('base64') };
    }
    return out;
}

const [out, ...files] = process.argv.slice(2);
writeFileSync(out, JSON.stringify(Object.fromEntries(files.map(file => [file, load(file)]))));
