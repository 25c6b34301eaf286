// Products of up to 64 rows with weights of Q4_1 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q4_1, Q4_1, Q4_1)
