// attention_mma.cuh for heads of up to 128 elements in bf16.
#include "attention_mma.cuh"

KERNELS(bf16_128, false, 128)
