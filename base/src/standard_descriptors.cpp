// See standard_descriptors.hpp.
#include "quern/base/standard_descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace quern {

void hold_standard_descriptors() noexcept {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(standard, F_GETFD) >= 0) continue;
    // The lowest free number is this one. Opened for the other direction, so that no byte is lost without an error.
    const int opened = open("/dev/null", standard == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != standard) close(opened);
  }
}

}  // namespace quern
