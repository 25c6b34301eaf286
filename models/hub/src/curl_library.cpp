// See curl_library.hpp.
#include "curl_library.hpp"

#include "quern/graph/error.hpp"

#include <dlfcn.h>

#include <string>

namespace quern::hub {
namespace {

void* open_any() {
  std::string reasons;
  // The second is Debian's flavour with GnuTLS; both have one interface.
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = ::dlerror();
    reasons += concat(reasons.empty() ? "" : "; ", reason == nullptr ? name : reason);
  }
  throw Error(QUERN_DEPENDENCY_MISSING,
              concat("getting a model needs libcurl, which cannot be opened (", reasons,
                     "); install it (apt install libcurl4, dnf install libcurl), or fetch the file by other means "
                     "and name its path"));
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw Error(QUERN_DEPENDENCY_MISSING, concat("the installed libcurl has no ", name, "; 7.63 or newer is needed"));
}

CurlLibrary open() {
  void* library = open_any();
  CurlLibrary curl{};
  find(library, "curl_easy_init", curl.easy_init);
  find(library, "curl_easy_cleanup", curl.easy_cleanup);
  find(library, "curl_easy_reset", curl.easy_reset);
  find(library, "curl_easy_setopt", curl.easy_setopt);
  find(library, "curl_easy_perform", curl.easy_perform);
  find(library, "curl_easy_strerror", curl.easy_strerror);
  find(library, "curl_slist_append", curl.slist_append);
  find(library, "curl_slist_free_all", curl.slist_free_all);
  find(library, "curl_url", curl.url);
  find(library, "curl_url_cleanup", curl.url_cleanup);
  find(library, "curl_url_set", curl.url_set);
  find(library, "curl_url_get", curl.url_get);
  find(library, "curl_free", curl.free);
  find(library, "curl_getdate", curl.getdate);
  decltype(&curl_global_init) global_init = nullptr;
  find(library, "curl_global_init", global_init);
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw Error(QUERN_DEPENDENCY_MISSING, "the installed libcurl does not start");
  return curl;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = open();  // tried again where it threw
  return library;
}

}  // namespace quern::hub
