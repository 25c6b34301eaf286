#include "try_devices.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "tiny_model.hpp"
#include "where.hpp"

#include "quern/base/files.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace quern::cli {
namespace {

using OpTensor = Handle<quern_tensor, quern_tensor_release>;

/// A file in a folder of its own; both go with it.
class TinyModelFile {
 public:
  TinyModelFile() {
    const char* temporary = ::secure_getenv("TMPDIR");
    const std::string above = temporary != nullptr && *temporary == '/' ? temporary : "/tmp";
    folder_ = above + "/quern-try-XXXXXX";
    if (mkdtemp(folder_.data()) == nullptr)
      throw Failure(exit_refused, "doctor: --try needs a folder in " + above + ": " + std::generic_category().message(errno) +
                                      "; set TMPDIR to a folder that may be written");
    path_ = folder_ + "/tiny.gguf";
    if (const auto problem = base::write_file(path_, tiny_model_file())) {
      rmdir(folder_.c_str());
      throw Failure(exit_refused, "the model to try cannot be written: " + problem.text);
    }
  }
  ~TinyModelFile() {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  TinyModelFile(const TinyModelFile&) = delete;
  TinyModelFile& operator=(const TinyModelFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
};

OpTensor matrix_on(quern_runtime* runtime, const std::string& device, std::int64_t rows, std::int64_t columns,
                   const std::vector<float>& values) {
  const std::array<std::int64_t, 2> shape{rows, columns};
  quern_tensor* made = nullptr;
  check(quern_tensor_create(runtime, device.c_str(), QUERN_F32, shape.data(), 2, &made));
  OpTensor tensor(made);
  check(quern_tensor_write(made, 0, values.data(), values.size() * sizeof(float)));
  return tensor;
}

void try_product(quern_runtime* runtime, TriedDevice& tried) {
  const SmallProduct product = small_product();
  const OpTensor a = matrix_on(runtime, tried.device, SmallProduct::m, SmallProduct::k, product.a);
  const OpTensor b = matrix_on(runtime, tried.device, SmallProduct::n, SmallProduct::k, product.b);
  std::vector<float> found(product.y.size(), 0.0f);
  const OpTensor y = matrix_on(runtime, tried.device, SmallProduct::m, SmallProduct::n, found);
  const std::array<const quern_tensor*, 2> inputs{a.get(), b.get()};
  std::array<quern_tensor*, 1> outputs{y.get()};
  quern_op_call call{};
  call.struct_size = sizeof call;
  call.op = "matmul";
  call.inputs = inputs.data();
  call.input_count = inputs.size();
  call.outputs = outputs.data();
  call.output_count = outputs.size();
  quern_text* kernels = nullptr;
  check(quern_run_op(&call, &kernels));
  tried.kernel = view(Text(kernels));
  check(quern_tensor_read(y.get(), 0, found.data(), found.size() * sizeof(float)));
  tried.product_share = worst_share(product, found);
}

void try_model(quern_runtime* runtime, const std::string& path, TriedDevice& tried) {
  const Model model = load_model(
      runtime, {.path = path, .context = tiny_tokens, .activations = QUERN_ACTIVATIONS_F32, .kv = QUERN_KV_F32, .progress = false});
  tried.shared = placement_choice(model.get());
  const Session session = make<Session>(quern_session_create, model.get(), static_cast<const quern_session_options*>(nullptr));
  const std::vector<std::int32_t> ids = tiny_model_ids();
  const Evaluation evaluation = make<Evaluation>(quern_evaluate, session.get(), 0u, ids.data(), std::uint64_t{ids.size()}, 0u);
  const auto info = get<quern_evaluation_info>(quern_evaluation_get_info, static_cast<const quern_evaluation*>(evaluation.get()));
  tried.model_nats = worst_nll({info.nll, static_cast<std::size_t>(info.count)});
}

TriedDevice try_device(const Settings& settings, const quern_device_entry& entry, const std::string& model) {
  TriedDevice tried{entry.name, entry.description, {}, {}, {}, 0, 0};
  try {
    Settings here = settings;
    here.device = entry.name;
    const bool demanded = !settings.backend.empty() || ::secure_getenv("QUERN_BACKEND") != nullptr;
    if (!demanded && std::string_view(entry.backend) != "cpu") here.backend = std::string(entry.backend) + ",cpu";
    const Runtime runtime = open_runtime(here);
    try_product(runtime.get(), tried);
    try_model(runtime.get(), model, tried);
  } catch (const Failure& failure) { tried.trouble = failure.what(); }
  return tried;
}

}  // namespace

bool TriedDevice::right() const noexcept { return trouble.empty() && product_share <= 1 && model_nats <= tiny_model_tolerance; }

std::vector<TriedDevice> try_devices(const Settings& settings, const quern_device_list* devices) {
  const TinyModelFile model;
  std::vector<TriedDevice> tried;
  for (std::uint64_t at = 0; at < quern_device_list_count(devices); ++at) {
    const auto entry = get<quern_device_entry>(quern_device_list_entry, devices, at);
    if (entry.usable != 0) tried.push_back(try_device(settings, entry, model.path()));
  }
  return tried;
}

std::string tried_words(const std::vector<TriedDevice>& tried) {
  const auto right = static_cast<std::size_t>(std::ranges::count_if(tried, &TriedDevice::right));
  std::string text;
  if (tried.empty()) text = "[no] No device computes here: none can be used.\n";
  else if (right == tried.size())
    text = right == 1 ? "[ok] The device computes what it must.\n"
                      : "[ok] All " + std::to_string(right) + " devices compute what they must.\n";
  else
    text = "[no] " + std::to_string(tried.size() - right) + " of " + std::to_string(tried.size()) +
           (tried.size() == 1 ? " device does" : " devices do") + " not compute what they must.\n";
  for (const TriedDevice& one : tried) {
    text += (one.right() ? "[ok] " : "[no] ") + printable(one.device) + ": ";
    if (!one.trouble.empty()) {
      text += "did not run: " + printable(one.trouble) + "\n";
      continue;
    }
    text += "a product of 48 x 64 x 40 is off by " + fixed(one.product_share * 100, one.product_share < 0.1 ? 1 : 0) +
            " % of what f32 allows (" + printable(one.kernel) + "); a tiny model is off by " + fixed(one.model_nats, 7) + " nats of " +
            fixed(tiny_model_tolerance, 3) + " allowed" + (one.shared.empty() ? "" : "; " + printable(one.shared)) + "\n";
    if (!one.right()) text += "     What to do: leave it out with --backend-disable or --device, and report the card and its driver.\n";
  }
  return text;
}

Json tried_json(const std::vector<TriedDevice>& tried) {
  Json list = Json::array();
  for (const TriedDevice& one : tried) {
    const bool ran = one.trouble.empty();
    list.push_back({{"device", one.device},
                    {"right", one.right()},
                    {"trouble", ran ? Json(nullptr) : Json(one.trouble)},
                    {"product", {{"kernel", one.kernel}, {"share_of_bound", ran ? Json(one.product_share) : Json(nullptr)}}},
                    {"shared", one.shared.empty() ? Json(nullptr) : Json(one.shared)},
                    {"model", {{"nats_apart", ran ? Json(one.model_nats) : Json(nullptr)}, {"nats_allowed", tiny_model_tolerance}}}});
  }
  return list;
}

}  // namespace quern::cli
