// A libnvrtc.so.13 for tests: compiles nothing. A "cubin" is the name of its unit; FAKE_NVRTC_LOG names a file that gets a line for each.
// FAKE_NVRTC_REFUSES is the name of a unit that does not compile. FAKE_NVRTC_MILLISECONDS is how much of a processor each takes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {
struct Program {
  std::string name, log;
};
Program& of(void* program) { return *static_cast<Program*>(program); }
}  // namespace

extern "C" {
#define FAKE [[gnu::visibility("default")]] int

FAKE nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
FAKE nvrtcCreateProgram(void** program, const char*, const char* name, int, const char* const*, const char* const*) {
  *program = new Program{name, ""};
  return 0;
}
FAKE nvrtcCompileProgram(void* program, int, const char* const*) {
  if (const char* file = std::getenv("FAKE_NVRTC_LOG"))
    if (std::FILE* log = std::fopen(file, "ae")) {
      std::fprintf(log, "%s\n", of(program).name.c_str());
      std::fclose(log);
    }
  if (const char* milliseconds = std::getenv("FAKE_NVRTC_MILLISECONDS"))
    for (const std::clock_t until = std::clock() + std::atoi(milliseconds) * (CLOCKS_PER_SEC / 1000); std::clock() < until;) {}
  const char* refused = std::getenv("FAKE_NVRTC_REFUSES");
  if (refused == nullptr || of(program).name != refused) return 0;
  of(program).log = "error: a brace is missing";
  return 6;
}
FAKE nvrtcGetCUBINSize(void* program, std::size_t* bytes) { return *bytes = of(program).name.size(), 0; }
FAKE nvrtcGetCUBIN(void* program, char* cubin) { return std::memcpy(cubin, of(program).name.data(), of(program).name.size()), 0; }
FAKE nvrtcGetProgramLogSize(void* program, std::size_t* bytes) { return *bytes = of(program).log.size() + 1, 0; }
FAKE nvrtcGetProgramLog(void* program, char* log) { return std::memcpy(log, of(program).log.c_str(), of(program).log.size() + 1), 0; }
FAKE nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
[[gnu::visibility("default")]] const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }
}
