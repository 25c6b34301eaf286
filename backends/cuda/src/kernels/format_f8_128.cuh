// F8_128: an f32 and numbers of eight bits.
#pragma once
#include "whole_scales.cuh"

template <> struct Format<F8_128> : SmallFloats {};
