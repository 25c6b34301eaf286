// Products of up to 64 rows with weights of Q4_Z32 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q4_z32, Q4_Z32, Q4_Z32)
