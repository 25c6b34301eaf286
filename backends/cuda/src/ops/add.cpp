// y = a + alpha b, b broadcast. Kernel: binary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_add(const Call& call, Launcher& launcher) { launch_binary(call, static_cast<float>(call.real(QUERN_KEY_ALPHA)), launcher); }

}  // namespace

const Op add_op{QUERN_OP_ADD, "add.cuda", nullptr, emit_add};

}  // namespace quern::cuda
