// Q4_Z32: codes of four bits with a zero point, 32 a block.
#pragma once
#include "zero_points.cuh"

template <> struct Format<Q4_Z32> : ZeroPointNibbles<32> {};
