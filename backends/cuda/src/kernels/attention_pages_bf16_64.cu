// attention_pages.cuh for heads of 64 elements in a cache of bf16.
#include "attention_pages.cuh"

KERNELS(bf16_64, BF16, 64)
