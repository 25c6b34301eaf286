// usage: quern_write_directory GGUF FOLDER [FILES]
#include "written_directory.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int count, char** words) {
  if (count < 3 || count > 4) return 2;
  try {
    quern::test::DirectoryForm form;
    if (count == 4) form.files = static_cast<std::uint32_t>(std::atoi(words[3]));
    quern::test::write_directory(quern::gguf::File::open(words[1]), words[2], form);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
