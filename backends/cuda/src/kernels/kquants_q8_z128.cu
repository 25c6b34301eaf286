// Products of up to 64 rows with weights of Q8_Z128 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q8_z128, Q8_Z128, Q8_Z128)
