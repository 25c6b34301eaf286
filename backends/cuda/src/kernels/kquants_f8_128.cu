// Products of up to 64 rows with weights of F8_128 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_f8_128, F8_128, F8_128)
