// Products of up to 64 rows with weights of Q4_0 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q4_0, Q4_0, Q4_0)
