// Q8_Z128: codes of eight bits with a zero point, 128 a block.
#pragma once
#include "zero_points.cuh"

template <> struct Format<Q8_Z128> : ZeroPointBytes<128> {};
