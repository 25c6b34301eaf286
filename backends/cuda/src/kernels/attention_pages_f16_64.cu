// attention_pages.cuh for heads of 64 elements in a cache of f16.
#include "attention_pages.cuh"

KERNELS(f16_64, F16, 64)
