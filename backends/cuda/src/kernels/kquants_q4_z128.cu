// Products of up to 64 rows with weights of Q4_Z128 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q4_z128, Q4_Z128, Q4_Z128)
