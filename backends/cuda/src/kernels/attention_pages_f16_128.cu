// attention_pages.cuh for heads of 128 elements in a cache of f16.
#include "attention_pages.cuh"

KERNELS(f16_128, F16, 128)
