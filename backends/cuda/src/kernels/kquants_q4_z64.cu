// Products of up to 64 rows with weights of Q4_Z64 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q4_z64, Q4_Z64, Q4_Z64)
