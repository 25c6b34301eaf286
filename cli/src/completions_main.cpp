// quern-completions FOLDER: writes quern.bash, _quern and quern.fish there. Runs while Quern is built; it is not installed.
#include "completions.hpp"
#include "output.hpp"

#include "quern/base/files.hpp"

#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    quern::cli::write_error_line("usage: quern-completions FOLDER");
    return 2;
  }
  const auto write = [&](const char* name, const std::string& text) {
    const quern::base::FileProblem problem = quern::base::write_file(std::string(argv[1]) + "/" + name, text);
    if (problem) quern::cli::write_error_line("quern-completions: " + problem.text);
    return !problem;
  };
  return write("quern.bash", quern::cli::bash_completions()) && write("_quern", quern::cli::zsh_completions()) &&
                 write("quern.fish", quern::cli::fish_completions())
             ? 0
             : 1;
}
