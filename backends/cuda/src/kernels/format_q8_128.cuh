// Q8_128: an f32 and signed codes of eight bits.
#pragma once
#include "whole_scales.cuh"

template <> struct Format<Q8_128> : SignedBytes {};
