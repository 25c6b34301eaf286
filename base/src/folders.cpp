// Makes folders. Not std::filesystem's function, which allocates where it may not throw.
#include "quern/base/files.hpp"

#include <cerrno>

namespace quern::base {

FileProblem make_folders(const std::string& folder) {
  if (folder.empty()) return {FileFault::not_found, ENOENT, "the path of a folder is empty"};
  for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string above = folder.substr(0, end);
    struct stat info {};
    if (::mkdir(above.c_str(), 0777) != 0) {
      const int error = errno;
      // What may not be made may be there all the same: EROFS and EACCES are said of those, too.
      if (::stat(above.c_str(), &info) != 0) {
        FileProblem problem = file_problem(above, "made", error == EEXIST ? ENOENT : error);
        if (error == ENOENT || error == ENOTDIR) problem.text = above + ": the folder cannot be made";
        return problem;
      }
      if (!S_ISDIR(info.st_mode)) {
        const char* kind = S_ISREG(info.st_mode) ? "a file" : kind_of_file(info.st_mode);
        return {FileFault::wrong_kind, ENOTDIR, above + ": is " + kind + ", not a folder"};
      }
    }
    if (end == std::string::npos) return {};
  }
}

}  // namespace quern::base
