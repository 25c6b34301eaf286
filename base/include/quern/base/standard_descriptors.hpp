// Standard input, output and error of a program, which whoever starts it may have closed.
#pragma once

namespace quern {

/// Keeps the descriptors 0, 1 and 2 from a file that the program opens later, which its messages would be written into. Where one is closed
/// at the start, it becomes one that answers reads and writes with EBADF, as before. First thing in main().
void hold_standard_descriptors() noexcept;

}  // namespace quern
