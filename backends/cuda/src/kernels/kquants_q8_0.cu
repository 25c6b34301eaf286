// Products of up to 64 rows with weights of Q8_0 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_q8_0, Q8_0, Q8_0)
