/* Runs one op on the best device: cc tensors.c $(pkg-config --cflags --libs quern) && ./a.out
 * What a plugin author calls to see one op of a backend at work: QUERN_BACKEND=cuda ./a.out. */
#include <quern.h>
#include <stdio.h>

int main(void) {
  const int64_t shape[2] = {2, 3};
  const float numbers[6] = {1, 2, 3, 4, 5, 6};
  const quern_op_attribute epsilon = {"epsilon", 1e-6};
  quern_runtime *runtime = NULL;
  quern_tensor *x = NULL, *y = NULL, *half = NULL;
  quern_text *kernels = NULL;
  quern_tensor_info info = {.struct_size = sizeof info};
  float result[6];

  quern_status status = quern_runtime_create(NULL, &runtime);
  if (!status) status = quern_tensor_create(runtime, NULL, QUERN_F32, shape, 2, &x);
  if (!status) status = quern_tensor_write(x, 0, numbers, sizeof numbers);
  const quern_tensor *inputs[2] = {x, NULL}; /* the weight is optional */
  quern_op_call call = {.struct_size = sizeof call, .op = "rms_norm", .inputs = inputs, .input_count = 2,
                        .outputs = &y, .output_count = 1, .attributes = &epsilon, .attribute_count = 1};
  if (!status) status = quern_run_op(&call, &kernels);
  if (!status) status = quern_tensor_read(y, 0, result, sizeof result);
  if (!status) status = quern_tensor_create(runtime, NULL, QUERN_F16, shape, 2, &half);
  if (!status) status = quern_tensor_copy(y, half); /* another dtype, and any device */
  if (!status) status = quern_tensor_get_info(half, &info);

  if (status) {
    fprintf(stderr, "%s: %s\n", quern_status_name(status), quern_last_error());
  } else {
    printf("%s on %s:", quern_text_data(kernels), info.device);
    for (int i = 0; i < 6; ++i) printf(" %.4f", result[i]);
    printf("\nas %s: %llu bytes\n", quern_dtype_name(info.dtype), (unsigned long long)info.bytes);
  }
  quern_text_release(kernels);
  quern_tensor_release(x);
  quern_tensor_release(y);
  quern_tensor_release(half);
  quern_runtime_release(runtime);
  return status != QUERN_OK;
}
