// See nvrtc.hpp. Prototypes after the NVRTC manual; the library has kept them since CUDA 11.1.
#include "nvrtc.hpp"

#include <dlfcn.h>

namespace quern::cuda {

struct Nvrtc::Functions {
  int (*version)(int*, int*);
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(void*, int, const char* const*);
  int (*cubin_size)(void*, std::size_t*);
  int (*cubin)(void*, char*);
  int (*log_size)(void*, std::size_t*);
  int (*log)(void*, char*);
  int (*destroy)(void**);
  const char* (*error_string)(int);
};

std::unique_ptr<Nvrtc> Nvrtc::open(const std::vector<std::string>& paths, std::string& reason) {
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* words = dlerror();
      if (reason.empty()) reason = words != nullptr ? words : path + " does not load";
      continue;
    }
    std::unique_ptr<Nvrtc> nvrtc(new Nvrtc);
    nvrtc->library_ = library;
    nvrtc->functions_ = std::make_unique<Functions>();
    Functions& f = *nvrtc->functions_;
    bool complete = true;
    const auto find = [&](auto& to, const char* name) {
      to = reinterpret_cast<std::decay_t<decltype(to)>>(dlsym(library, name));
      if (to == nullptr) {
        complete = false;
        reason = path + " has no " + name + "; CUDA 11.2 or newer is needed";
      }
    };
    find(f.version, "nvrtcVersion");
    find(f.create, "nvrtcCreateProgram");
    find(f.compile, "nvrtcCompileProgram");
    find(f.cubin_size, "nvrtcGetCUBINSize");
    find(f.cubin, "nvrtcGetCUBIN");
    find(f.log_size, "nvrtcGetProgramLogSize");
    find(f.log, "nvrtcGetProgramLog");
    find(f.destroy, "nvrtcDestroyProgram");
    find(f.error_string, "nvrtcGetErrorString");
    if (!complete) continue;
    if (f.version(&nvrtc->major_, &nvrtc->minor_) != 0) {
      reason = path + " does not tell its version";
      continue;
    }
    return nvrtc;
  }
  return nullptr;
}

// The library stays loaded: its threads and caches outlive a handle.
Nvrtc::~Nvrtc() = default;

std::string Nvrtc::compile(const SourceFile& source, const std::vector<SourceFile>& headers, const std::string& architecture,
                           const std::vector<std::string>& options, std::string& log) const {
  std::vector<std::string> names, texts;
  for (const SourceFile& header : headers) {
    names.emplace_back(header.name);
    texts.emplace_back(header.text);
  }
  std::vector<const char*> name_pointers, text_pointers;
  for (std::size_t i = 0; i < names.size(); ++i) {
    name_pointers.push_back(names[i].c_str());
    text_pointers.push_back(texts[i].c_str());
  }
  const std::string text(source.text), name(source.name);
  void* program = nullptr;
  if (const int status = functions_->create(&program, text.c_str(), name.c_str(), static_cast<int>(names.size()), text_pointers.data(),
                                            name_pointers.data());
      status != 0) {
    log = functions_->error_string(status);
    return {};
  }
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> arguments{target.c_str()};
  for (const std::string& option : options) arguments.push_back(option.c_str());
  const int status = functions_->compile(program, static_cast<int>(arguments.size()), arguments.data());
  std::size_t size = 0;
  if (functions_->log_size(program, &size) == 0 && size > 1) {
    log.resize(size);
    functions_->log(program, log.data());
    log.resize(size - 1);
  }
  std::string cubin;
  if (status == 0 && functions_->cubin_size(program, &size) == 0 && size > 0) {
    cubin.resize(size);
    if (functions_->cubin(program, cubin.data()) != 0) cubin.clear();
  }
  if (cubin.empty() && log.empty())
    log = status != 0 ? functions_->error_string(status) : "no cubin came back; is the architecture a virtual one?";
  functions_->destroy(&program);
  return cubin;
}

}  // namespace quern::cuda
