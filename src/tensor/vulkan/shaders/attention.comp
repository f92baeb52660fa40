#version 450
// SPDX-License-Identifier: MIT
//
// attention.comp: softmax attention with tiles of 64 queries: 30 KiB of shared memory.
#extension GL_GOOGLE_include_directive : require
#define ROWS 8
#define DIMS 32u
#include "attention.glsl"
