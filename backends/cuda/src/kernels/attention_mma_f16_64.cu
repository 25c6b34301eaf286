// attention_mma.cuh for heads of up to 64 elements in f16.
#include "attention_mma.cuh"

KERNELS(f16_64, true, 64)
