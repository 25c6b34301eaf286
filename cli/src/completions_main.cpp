// quern-completions FOLDER: writes quern.bash, _quern and quern.fish there. Runs while Quern is built; it is not installed.
#include "completions.hpp"

#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: quern-completions FOLDER\n";
    return 2;
  }
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream file(std::string(argv[1]) + "/" + name, std::ios::binary);
    file << text;
    file.close();
    if (file.good()) return true;
    std::cerr << "quern-completions: " << argv[1] << "/" << name << ": cannot be written\n";
    return false;
  };
  return write("quern.bash", quern::cli::bash_completions()) && write("_quern", quern::cli::zsh_completions()) &&
                 write("quern.fish", quern::cli::fish_completions())
             ? 0
             : 1;
}
