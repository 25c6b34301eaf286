// Products of up to 64 rows with weights of Q5_0 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q5_0, Q5_0, Q5_0)
