// Products of up to 64 rows with weights of Q5_1 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q5_1, Q5_1, Q5_1)
