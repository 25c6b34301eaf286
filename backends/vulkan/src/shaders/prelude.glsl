// What all kernels share: parameters, and what memory.glsl has.
//
// A kernel is one file with one main(); its workgroup's size is constant 0. It includes this file first, then says where its parameters
// lie: PUSHED(Params) where they fit 128 bytes, else STORED(Params); they are `p` in both cases.
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "params.h"
