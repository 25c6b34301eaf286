// Tensors and single ops through the C API.
#include "api_support.hpp"

#include <cmath>
#include <cstring>
#include <thread>

namespace quern::test {
namespace {

struct TensorRelease {
  void operator()(quern_tensor* p) const { quern_tensor_release(p); }
};
using Tensor = std::unique_ptr<quern_tensor, TensorRelease>;

class Tensors : public testing::Test {
 protected:
  Tensor make(quern_dtype dtype, const std::vector<std::int64_t>& shape, const char* device = nullptr) {
    quern_tensor* tensor = nullptr;
    EXPECT_EQ(quern_tensor_create(runtime.get(), device, dtype, shape.data(), static_cast<std::uint32_t>(shape.size()), &tensor), QUERN_OK)
        << quern_last_error();
    return Tensor(tensor);
  }
  template <typename T>
  Tensor make(quern_dtype dtype, const std::vector<std::int64_t>& shape, const std::vector<T>& values) {
    Tensor tensor = make(dtype, shape);
    EXPECT_EQ(quern_tensor_write(tensor.get(), 0, values.data(), values.size() * sizeof(T)), QUERN_OK) << quern_last_error();
    return tensor;
  }
  static quern_tensor_info info(const quern_tensor* tensor) {
    quern_tensor_info i{};
    i.struct_size = sizeof i;
    EXPECT_EQ(quern_tensor_get_info(tensor, &i), QUERN_OK) << quern_last_error();
    return i;
  }
  template <typename T>
  static std::vector<T> values(const quern_tensor* tensor) {
    std::vector<T> list(info(tensor).bytes / sizeof(T));
    EXPECT_EQ(quern_tensor_read(tensor, 0, list.data(), list.size() * sizeof(T)), QUERN_OK) << quern_last_error();
    return list;
  }
  static quern_op_call call(const char* op, const std::vector<const quern_tensor*>& inputs, std::vector<quern_tensor*>& outputs,
                            const std::vector<quern_op_attribute>& attributes = {}) {
    quern_op_call c{};
    c.struct_size = sizeof c;
    c.op = op;
    c.inputs = inputs.data();
    c.input_count = inputs.size();
    c.outputs = outputs.data();
    c.output_count = outputs.size();
    c.attributes = attributes.data();
    c.attribute_count = attributes.size();
    return c;
  }
  /// One op with one new output.
  static Tensor run(const char* op, const std::vector<const quern_tensor*>& inputs,
                    const std::vector<quern_op_attribute>& attributes = {}) {
    std::vector<quern_tensor*> outputs{nullptr};
    const quern_op_call c = call(op, inputs, outputs, attributes);
    EXPECT_EQ(quern_run_op(&c, nullptr), QUERN_OK) << quern_last_error();
    return Tensor(outputs[0]);
  }
  static quern_status refused(const quern_op_call& c) { return quern_run_op(&c, nullptr); }

  Handle<quern_runtime> runtime = make_runtime();
};

TEST_F(Tensors, StartAsZerosAndGiveBackWhatWasWritten) {
  const Tensor tensor = make(QUERN_F32, {2, 3});
  EXPECT_EQ(values<float>(tensor.get()), (std::vector<float>(6)));
  const std::vector<float> two{7, 8};
  ASSERT_EQ(quern_tensor_write(tensor.get(), 4, two.data(), 8), QUERN_OK);
  EXPECT_EQ(values<float>(tensor.get()), (std::vector<float>{0, 7, 8, 0, 0, 0}));
  const quern_tensor_info i = info(tensor.get());
  EXPECT_STREQ(i.device, "cpu:0");
  EXPECT_EQ(i.dtype, QUERN_F32);
  ASSERT_EQ(i.dims, 2u);
  EXPECT_EQ(i.shape[1], 3);
  EXPECT_EQ(i.elements, 6u);
  EXPECT_EQ(i.bytes, 24u);
}

TEST_F(Tensors, RefuseShapesAndRangesThatCannotBe) {
  quern_tensor* tensor = nullptr;
  const auto status = [&](quern_dtype dtype, std::vector<std::int64_t> shape, const char* device = nullptr) {
    return quern_tensor_create(runtime.get(), device, dtype, shape.data(), static_cast<std::uint32_t>(shape.size()), &tensor);
  };
  EXPECT_EQ(status(QUERN_F32, {}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(QUERN_F32, std::vector<std::int64_t>(QUERN_TENSOR_DIMS + 1, 1)), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(QUERN_F32, {-1}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(QUERN_F32, {INT64_MAX, 8}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(QUERN_Q4_0, {33}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(99, {1}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(QUERN_F32, {std::int64_t{1} << 58}), QUERN_OUT_OF_MEMORY);
  EXPECT_EQ(status(QUERN_F32, {1}, "cpu:7"), QUERN_NOT_FOUND);
  EXPECT_NE(std::strstr(quern_last_error(), "cpu:0"), nullptr) << quern_last_error();
  EXPECT_EQ(tensor, nullptr);
  const Tensor small = make(QUERN_F32, {2});
  float value = 0;
  EXPECT_EQ(quern_tensor_read(small.get(), 8, &value, 4), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_tensor_write(small.get(), UINT64_MAX, &value, 4), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_tensor_read(small.get(), 8, nullptr, 0), QUERN_OK);
}

TEST_F(Tensors, CountAgainstTheLimitOfTheirDevice) {
  quern_runtime_options options{};
  options.memory = "cpu=1M";
  const auto limited = make_runtime(options);
  const std::int64_t half = 512 << 10, more = half + 1;
  quern_tensor *first = nullptr, *second = nullptr;
  ASSERT_EQ(quern_tensor_create(limited.get(), "cpu:0", QUERN_U8, &half, 1, &first), QUERN_OK) << quern_last_error();
  const Tensor owner(first);
  EXPECT_EQ(quern_tensor_create(limited.get(), nullptr, QUERN_U8, &more, 1, &second), QUERN_OUT_OF_MEMORY);
}

TEST_F(Tensors, OutliveTheirRuntime) {
  Tensor x = make(QUERN_F32, {2}, std::vector<float>{1, -2});
  runtime.reset();
  EXPECT_EQ(values<float>(run("neg", {x.get()}).get()), (std::vector<float>{-1, 2}));
}

TEST_F(Tensors, EveryDtypeIsNamedAndFound) {
  for (quern_dtype dtype = 0; dtype < 64; ++dtype) {
    const char* name = quern_dtype_name(dtype);
    EXPECT_EQ(quern_dtype_from_name(name), *name == '\0' ? QUERN_DTYPE_NONE : dtype) << name;
  }
  EXPECT_STREQ(quern_dtype_name(QUERN_Q4_K), "q4_k");
  EXPECT_EQ(quern_dtype_from_name(nullptr), QUERN_DTYPE_NONE);
  EXPECT_EQ(quern_dtype_from_name("q4_1"), QUERN_Q4_1);
}

/// Values that each format holds within half a step of its codes: multiples of 1/8 up to 1.
TEST_F(Tensors, MoveBetweenEveryDtypeThatTheDeviceConverts) {
  std::vector<float> ramp(512);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i % 17) / 8.0f - 1.0f;
  const Tensor source = make(QUERN_F32, {2, 256}, ramp);
  struct Step {
    quern_dtype dtype;
    float error;  // half a step of codes over [-1, 1]: 0 where the values are exact
  };
  for (const auto& [dtype, error] :
       {Step{QUERN_F32, 0}, Step{QUERN_F16, 0}, Step{QUERN_BF16, 0}, Step{QUERN_Q8_0, 1.01f / 127 / 2 + 0x1p-11f},
        Step{QUERN_Q4_0, 1.01f / 8}, Step{QUERN_Q4_1, 1.01f / 15}, Step{QUERN_Q5_0, 1.01f / 16}, Step{QUERN_Q5_1, 1.01f / 31}}) {
    SCOPED_TRACE(quern_dtype_name(dtype));
    const Tensor there = make(dtype, {2, 256}), back = make(QUERN_F32, {2, 256});
    ASSERT_EQ(quern_tensor_copy(source.get(), there.get()), QUERN_OK) << quern_last_error();
    ASSERT_EQ(quern_tensor_copy(there.get(), back.get()), QUERN_OK) << quern_last_error();
    const std::vector<float> result = values<float>(back.get());
    for (std::size_t i = 0; i < ramp.size(); ++i) ASSERT_LE(std::abs(result[i] - ramp[i]), error) << i;
  }
  const Tensor other = make(QUERN_F32, {512});
  EXPECT_EQ(quern_tensor_copy(source.get(), other.get()), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_tensor_copy(source.get(), source.get() == nullptr ? nullptr : const_cast<quern_tensor*>(source.get())), QUERN_OK);
}

TEST_F(Tensors, RunAnOpAndNameItsKernel) {
  const Tensor a = make(QUERN_F32, {2, 2}, std::vector<float>{1, 2, 3, 4}),
               b = make(QUERN_F32, {3, 2}, std::vector<float>{1, 0, 0, 1, 1, 1});
  std::vector<quern_tensor*> outputs{nullptr};
  const std::vector<const quern_tensor*> inputs{a.get(), b.get()};
  const quern_op_call c = call("matmul", inputs, outputs);
  quern_text* kernels = nullptr;
  ASSERT_EQ(quern_run_op(&c, &kernels), QUERN_OK) << quern_last_error();
  const Handle<quern_text> text(kernels);
  const Tensor y(outputs[0]);
  EXPECT_EQ(values<float>(y.get()), (std::vector<float>{1, 2, 3, 3, 4, 7}));
  EXPECT_EQ(info(y.get()).shape[1], 3);
  EXPECT_NE(std::strstr(quern_text_data(kernels), "matmul"), nullptr) << quern_text_data(kernels);
}

TEST_F(Tensors, RunWithQuantisedWeightsAndAttributes) {
  const Tensor eye = make(QUERN_F32, {32, 32});
  for (int i = 0; i < 32; ++i) {
    const float one = 1;
    ASSERT_EQ(quern_tensor_write(eye.get(), static_cast<std::uint64_t>(i * 33) * 4, &one, 4), QUERN_OK);
  }
  const Tensor weights = make(QUERN_Q8_0, {32, 32});
  ASSERT_EQ(quern_tensor_copy(eye.get(), weights.get()), QUERN_OK) << quern_last_error();
  std::vector<float> row(32);
  for (std::size_t i = 0; i < 32; ++i) row[i] = static_cast<float>(i);
  const Tensor x = make(QUERN_F32, {1, 32}, row);
  const Tensor y = run("matmul", {x.get(), weights.get()}, {{"alpha", 2}});
  const std::vector<float> result = values<float>(y.get());
  // The scale 1 / 127 is an f16 with a relative error of 2^-11; the code 127 is exact.
  for (std::size_t i = 0; i < 32; ++i) EXPECT_NEAR(result[i], 2 * row[i], 2 * row[i] * 0x1p-11f) << i;
}

TEST_F(Tensors, RunInPlaceAndOnState) {
  const Tensor x = make(QUERN_F32, {2}, std::vector<float>{-1, 2});
  std::vector<quern_tensor*> outputs{x.get()};
  std::vector<const quern_tensor*> inputs{x.get()};
  quern_op_call c = call("relu", inputs, outputs);
  ASSERT_EQ(quern_run_op(&c, nullptr), QUERN_OK) << quern_last_error();
  EXPECT_EQ(values<float>(x.get()), (std::vector<float>{0, 2}));

  const Tensor table = make(QUERN_F32, {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}),
               rows = make(QUERN_F32, {1, 2}, std::vector<float>{8, 9});
  const Tensor index = make(QUERN_I32, {1}, std::vector<std::int32_t>{1});
  inputs = {rows.get(), index.get()};
  outputs = {table.get()};
  c = call("set_rows", inputs, outputs);
  ASSERT_EQ(quern_run_op(&c, nullptr), QUERN_OK) << quern_last_error();
  EXPECT_EQ(values<float>(table.get()), (std::vector<float>{1, 2, 8, 9, 5, 6}));
}

TEST_F(Tensors, AnAbsentOptionalInputAndADroppedOutput) {
  const Tensor x = make(QUERN_F32, {1, 2}, std::vector<float>{3, 4});
  const Tensor y = run("rms_norm", {x.get(), nullptr}, {{"epsilon", 1e-6}});
  const float root = std::sqrt(12.5f);
  EXPECT_NEAR(values<float>(y.get())[0], 3 / root, 4 * 0x1p-24f);  // square, sum, root, quotient: four roundings below 1
  const Tensor best = make(QUERN_F32, {1, 4}, std::vector<float>{1, 9, 3, 7});
  std::vector<quern_tensor*> one{nullptr};  // top_k also has the output `index`
  const std::vector<const quern_tensor*> inputs{best.get()};
  const std::vector<quern_op_attribute> attributes{{"k", 2}};
  const quern_op_call c = call("top_k", inputs, one, attributes);
  ASSERT_EQ(quern_run_op(&c, nullptr), QUERN_OK) << quern_last_error();
  const Tensor value(one[0]);
  EXPECT_EQ(values<float>(value.get()), (std::vector<float>{9, 7}));
}

TEST_F(Tensors, RefuseCallsByWhatIsWrongWithThem) {
  const Tensor x = make(QUERN_F32, {2}), y = make(QUERN_F32, {3}), half = make(QUERN_F16, {2});
  std::vector<quern_tensor*> none{nullptr};
  const auto expect = [&](quern_status status, const char* words, const char* op, const std::vector<const quern_tensor*>& inputs,
                          std::vector<quern_tensor*> outputs, const std::vector<quern_op_attribute>& attributes = {}) {
    EXPECT_EQ(refused(call(op, inputs, outputs, attributes)), status) << op;
    EXPECT_NE(std::strstr(quern_last_error(), words), nullptr) << quern_last_error();
  };
  expect(QUERN_NOT_FOUND, "no_such_op", "no_such_op", {x.get()}, none);
  expect(QUERN_NOT_FOUND, "no attribute 'epsilon'", "neg", {x.get()}, none, {{"epsilon", 1}});
  expect(QUERN_INVALID_ARGUMENT, "whole number", "top_k", {x.get()}, {nullptr, nullptr}, {{"k", 1.5}});
  expect(QUERN_INVALID_ARGUMENT, "[3]", "add", {x.get(), y.get()}, none);
  expect(QUERN_INVALID_ARGUMENT, "needs its input", "add", {x.get()}, none);
  expect(QUERN_INVALID_ARGUMENT, "[3]", "neg", {x.get()}, {y.get()});
  expect(QUERN_INVALID_ARGUMENT, "f16", "neg", {x.get()}, {half.get()});
  expect(QUERN_INVALID_ARGUMENT, "it has 1", "neg", {x.get()}, {nullptr, nullptr});
  expect(QUERN_INVALID_ARGUMENT, "no tensor", "fill", {}, none);
  expect(QUERN_UNSUPPORTED, "cpu:0", "all_reduce", {x.get()}, none);
  const auto other = make_runtime();
  const std::int64_t two = 2;
  quern_tensor* foreign = nullptr;
  ASSERT_EQ(quern_tensor_create(other.get(), nullptr, QUERN_F32, &two, 1, &foreign), QUERN_OK);
  const Tensor owner(foreign);
  expect(QUERN_INVALID_ARGUMENT, "two runtimes", "add", {x.get(), foreign}, none);
  EXPECT_EQ(quern_run_op(nullptr, nullptr), QUERN_INVALID_ARGUMENT);
}

TEST_F(Tensors, ASecondCallOnATensorIsBusyAndOtherTensorsAreFree) {
  // Many threads share one output; whoever gets it computes the whole answer, and the others are told so.
  const Tensor x = make(QUERN_F32, {1 << 16}), shared = make(QUERN_F32, {1 << 16});
  std::atomic<int> done{0}, busy{0}, other{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const std::int64_t size = 1 << 16;
      quern_tensor* own = nullptr;
      if (quern_tensor_create(runtime.get(), nullptr, QUERN_F32, &size, 1, &own) != QUERN_OK) return;
      const Tensor mine(own);
      for (int i = 0; i < 20; ++i) {
        std::vector<quern_tensor*> outputs{shared.get()};
        const std::vector<const quern_tensor*> inputs{own};
        const quern_op_call c = call("neg", inputs, outputs);
        const quern_status status = quern_run_op(&c, nullptr);
        ++(status == QUERN_OK ? done : status == QUERN_BUSY ? busy : other);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done + busy, 160);
  EXPECT_EQ(other, 0);
  EXPECT_GE(done, 1);
}

}  // namespace
}  // namespace quern::test
