// Products of up to 64 rows with weights of FP4_64 (kquants_rows.cuh).
#include "kquants_rows.cuh"

KQUANTS_KERNELS(_fp4_64, FP4_64, FP4_64)
