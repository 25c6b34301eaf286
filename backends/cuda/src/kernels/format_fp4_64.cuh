// FP4_64: an f32 and codes of four bits that stand for numbers of a table.
#pragma once
#include "whole_scales.cuh"

template <> struct Format<FP4_64> : TableNibbles<64, fp4_values> {};
