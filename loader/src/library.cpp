// S1: the only file that knows Boost.DLL.
//
// Its cautions: the default is lazy binding (an undefined symbol would show at the first call), a bare name
// is looked for in the current directory, the error code is not the reason (dlerror() is, and only until the
// next call), and the destructor unloads. So: rtld_now, an absolute path, dlerror() at once, and a holder
// that is never destroyed.
#define BOOST_DLL_USE_STD_FS
#include "library.hpp"

#include "link_error.hpp"
#include "quern/graph/error.hpp"

#include <boost/dll/shared_library.hpp>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <new>

#include <pthread.h>

namespace quern::loader {
namespace {

/// Every library ever loaded, by real path; reachable and never freed.
struct Holder {
  std::recursive_mutex mutex;  // a library's constructors may fork while it is loaded
  std::map<std::string, boost::dll::shared_library> libraries;
};

/// A fork waits until no other thread loads a library, so that the child may load its own.
Holder& holder() {
  static Holder* const leaked = [] {
    static Holder* made;
    made = new Holder;
    pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); },
                   [] { new (&made->mutex) std::recursive_mutex; });  // the lock's owner has another number in the child
    return made;
  }();
  return *leaked;
}

}  // namespace

Verdict load_library(const std::string& path, const Inspection& found, LoadedLibrary& loaded) {
  if (path.empty() || path.front() != '/')
    return {code::load_other, concat("'", path, "' is not an absolute path"), "give the whole path of the plugin", {}};
  Holder& all = holder();
  const std::lock_guard lock(all.mutex);
  boost::dll::shared_library& library = all.libraries[path];
  if (!library.is_loaded()) {
    std::error_code ec;
    ::dlerror();
    library.load(path, ec, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
    if (ec || !library.is_loaded()) {
      const char* said = ::dlerror();
      const std::string raw = said ? said : ec.message();
      all.libraries.erase(path);
      return explain_link_error(path, raw, found);
    }
  }
  std::error_code ec;
  if (!library.has(QUERN_PLUGIN_QUERY_NAME))
    return {code::no_entry,
            concat(path, ": does not export ", QUERN_PLUGIN_QUERY_NAME),
            "install the plugin again, or ask its author to export the entry",
            {}};
  // A C function: the type is what the contract says, no library can check it.
  loaded.entry = &library.get<quern_status(const quern_query*, quern_plugin_api*, quern_error*)>(QUERN_PLUGIN_QUERY_NAME);
  return {};
}

}  // namespace quern::loader
