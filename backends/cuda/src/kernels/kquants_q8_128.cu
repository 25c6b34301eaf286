// Products of up to 64 rows with weights of Q8_128 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q8_128, Q8_128, Q8_128)
