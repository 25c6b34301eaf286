// See run_once.hpp.
#include "run_once.hpp"

namespace quern::vulkan {

void run_once(Gpu& gpu, const std::function<void(Launcher&)>& launch) {
  Launcher dry(gpu, {});
  launch(dry);
  gpu.pipelines().make(dry.wanted(), 1);
  Memory parameters;
  if (dry.parameter_bytes() > 0) parameters = gpu.take_shared(dry.parameter_bytes(), "the parameters of a run");
  gpu.once([&](VkCommandBuffer commands) {
    Launcher::Target place;
    place.commands = commands;
    if (dry.parameter_bytes() > 0) {
      place.parameters = parameters.mapped();
      place.parameters_address = parameters.address();
      place.parameters_bytes = parameters.bytes();
    }
    Launcher launcher(gpu, place);
    launch(launcher);
  });
}

}  // namespace quern::vulkan
