#version 460
// A grid for an indirect dispatch: nothing where a predicate is 0.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
PUSHED(PredicateParams)

void main() {
  if (gl_GlobalInvocationID.x != 0u) return;
  const bool live = Int(p.predicate).v != 0;
  Uint(p.grid).v = live ? p.x : 0u;
  Uint(p.grid + 4ul).v = p.y;
  Uint(p.grid + 8ul).v = p.z;
}
