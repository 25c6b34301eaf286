// Q4_Z128: codes of four bits with a zero point, 128 a block.
#pragma once
#include "zero_points.cuh"

template <> struct Format<Q4_Z128> : ZeroPointNibbles<128> {};
