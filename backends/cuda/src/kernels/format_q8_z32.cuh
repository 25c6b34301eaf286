// Q8_Z32: codes of eight bits with a zero point, 32 a block.
#pragma once
#include "zero_points.cuh"

template <> struct Format<Q8_Z32> : ZeroPointBytes<32> {};
