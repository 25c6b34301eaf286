// abi: the scripts of all files of this folder.
#include "case_table/case_table.hpp"

namespace quern::conformance {

namespace abi {
#define QUERN_CONFORMANCE_ABI(name) void name##_scripts(CaseSink& sink);
#include "abi/groups.def"
#undef QUERN_CONFORMANCE_ABI
}  // namespace abi

namespace {

void generate(CaseSink& sink) {
#define QUERN_CONFORMANCE_ABI(name) abi::name##_scripts(sink);
#include "abi/groups.def"
#undef QUERN_CONFORMANCE_ABI
}

}  // namespace

extern const Family abi_family;
const Family abi_family = {"abi", generate};

}  // namespace quern::conformance
