// Q4_Z64: codes of four bits with a zero point, 64 a block.
#pragma once
#include "zero_points.cuh"

template <> struct Format<Q4_Z64> : ZeroPointNibbles<64> {};
