#version 450
// SPDX-License-Identifier: MIT
//
// attention_small.comp: softmax attention with tiles of 32 queries: 15.5 KiB of shared memory.
#extension GL_GOOGLE_include_directive : require
#define ROWS 4
#define DIMS 16u
#include "attention.glsl"
