// The committed models; and a directory of a small one, which is read, and what opening it says after a change.
#pragma once

#include "written_directory.hpp"

#include "support/scratch_folder.hpp"

#include "quern/models/architecture.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/tokenizer.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace quern::test {

inline const std::string test_data = QUERN_SOURCE_DIR "/tests/data/";

inline std::vector<std::string> committed_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_data + "architecture"))
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// "llama-11.gguf" as a name of a test.
inline std::string test_name(const std::string& model) {
  std::string name = model.substr(0, model.find('.'));
  std::ranges::replace(name, '-', '_');
  return name;
}

class RefusableDirectory {
 public:
  explicit RefusableDirectory(std::uint32_t files) {
    DirectoryForm form;
    form.files = files;
    write_directory(gguf::File::open(test_data + "architecture/llama-11.gguf"), folder(), form);
  }
  std::string folder() const { return scratch_.path("m"); }
  std::string path(const std::string& name) const { return folder() + "/" + name; }

  struct Refusal {
    quern_status code = QUERN_OK;
    std::string text;
  };
  /// Opens it as a run does, and reads every tensor.
  Refusal refusal() const {
    try {
      const gguf::File file = models::open_model(folder());
      models::read_hyperparameters(file);
      tokenizer_from_gguf(file);
      for (const gguf::TensorInfo& tensor : file.tensors()) file.read(tensor);
    } catch (const Error& error) { return {error.code(), error.what()}; }
    return {};
  }

 private:
  ScratchFolder scratch_;
};

}  // namespace quern::test
