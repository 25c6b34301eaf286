// attention_mma.cuh for heads of up to 128 elements in f16.
#include "attention_mma.cuh"

KERNELS(f16_128, true, 128)
