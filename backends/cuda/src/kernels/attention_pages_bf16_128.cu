// attention_pages.cuh for heads of 128 elements in a cache of bf16.
#include "attention_pages.cuh"

KERNELS(bf16_128, BF16, 128)
