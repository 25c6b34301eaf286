// compile_kernel NVRTC ARCH SOURCE OUT.cubin [HEADER...] [--define=NAME] [--report=FILE | --verbose]: one kernel file to a cubin, at build time,
// without a GPU.
//
// ptxas's report of registers and spills goes into FILE, or with --verbose to standard error. Fails on an error and, but for --verbose, on a
// warning, since a warning of a kernel is a bug sooner or later.
#include "nvrtc.hpp"
#include "compile_options.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
  return text.str();
}

/// False, and said so, where it cannot be.
bool write(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
  return static_cast<bool>(out);
}

std::string base(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

int main(int count, char** words) {
  if (count < 5) {
    std::fputs("usage: compile_kernel NVRTC ARCH SOURCE OUT.cubin [HEADER...] [--define=NAME] [--report=FILE | --verbose]\n", stderr);
    return 2;
  }
  std::string reason;
  const auto nvrtc = quern::cuda::Nvrtc::open({words[1]}, reason);
  if (nvrtc == nullptr) {
    std::fprintf(stderr, "compile_kernel: %s\n", reason.c_str());
    return 1;
  }
  std::vector<std::string> names, texts, options = quern::cuda::compile_options();
  std::string report;
  bool verbose = false;
  for (int i = 5; i < count; ++i) {
    if (std::strcmp(words[i], "--verbose") == 0) {
      verbose = true;
      continue;
    }
    if (std::strncmp(words[i], "--define=", 9) == 0) {
      options.push_back(std::string("-D") + (words[i] + 9));
      continue;
    }
    if (std::strncmp(words[i], "--report=", 9) == 0) {
      report = words[i] + 9;
      continue;
    }
    names.push_back(base(words[i]));
    texts.push_back(read(words[i]));
  }
  if (verbose || !report.empty()) options.push_back("--ptxas-options=--verbose");
  std::vector<quern::cuda::SourceFile> headers;
  for (std::size_t i = 0; i < names.size(); ++i) headers.push_back({names[i], texts[i]});
  const std::string name = base(words[3]), text = read(words[3]);
  std::string log;
  const std::string cubin = nvrtc->compile({name, text}, headers, words[2], options, log);
  const bool good = !cubin.empty() && (verbose || log.find("warning") == std::string::npos);
  if (!log.empty() && (report.empty() || !good)) std::fprintf(stderr, "%s\n", log.c_str());
  return good && write(words[4], cubin) && (report.empty() || write(report, log)) ? 0 : 1;
}
