// The file that --trace names.
#pragma once

#include "engine.hpp"
#include "output.hpp"

#include "quern/base/files.hpp"

#include <string>

namespace quern::cli {

/// Opens the file before anything is computed, so that a wrong path costs nothing.
class NewTrace {
 public:
  explicit NewTrace(const std::string& path) { check_written(base::NewFile::create(path, file_)); }
  void write(const Text& json) {
    check_written(file_.append(view(json)));
    check_written(file_.append("\n"));
    check_written(file_.commit());
  }

 private:
  static void check_written(const base::FileProblem& problem) {
    if (problem) throw Failure(exit_refused, "the trace cannot be written: " + problem.text);
  }
  base::NewFile file_;
};

}  // namespace quern::cli
