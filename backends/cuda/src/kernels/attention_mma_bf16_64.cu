// attention_mma.cuh for heads of up to 64 elements in bf16.
#include "attention_mma.cuh"

KERNELS(bf16_64, false, 64)
