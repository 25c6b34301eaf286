// NF4_64: an f32 and codes of four bits that stand for numbers of a table.
#pragma once
#include "whole_scales.cuh"

template <> struct Format<NF4_64> : TableNibbles<64, nf4_values> {};
