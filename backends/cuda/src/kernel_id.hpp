// A kernel as the host names it: the unit that it is compiled in, its name there, and the type of its parameters.
//
// The build writes kernel_ids.hpp, with one for each kernel of kernels/*.cu. So a name that is none, and parameters of another kernel, do not
// compile.
#pragma once

#include <string_view>

namespace quern::cuda {

struct KernelName {
  std::string_view unit, name;
};

template <class Params>
struct KernelId : KernelName {
  constexpr KernelId(std::string_view its_unit, std::string_view its_name) : KernelName{its_unit, its_name} {}
};

}  // namespace quern::cuda
