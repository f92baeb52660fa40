// SPDX-License-Identifier: MIT
// One run of an ONNX model on onnxruntime-node. Usage: check_real_weights.mjs MODULES MODEL SIDE INPUT OUTPUT (fp32, 3 x SIDE x SIDE ->
// SIDE x SIDE; the model's first output is taken).
import { createRequire } from 'node:module';
import fs from 'node:fs';

const [modules, model, side, input, output] = process.argv.slice(2);
const ort = createRequire(modules + '/')('onnxruntime-node');
const bytes = fs.readFileSync(input);
const pixels = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1 });
const feeds = { [session.inputNames[0]]: new ort.Tensor('float32', pixels, [1, 3, Number(side), Number(side)]) };
const result = (await session.run(feeds, [session.outputNames[0]]))[session.outputNames[0]];
if (result.type !== 'float32' || result.data.length !== side * side) throw new Error(`${result.type} ${result.dims}`);
fs.writeFileSync(output, Buffer.from(result.data.buffer, result.data.byteOffset, result.data.byteLength));
