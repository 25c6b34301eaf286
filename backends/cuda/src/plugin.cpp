// The plugin's entry: its note and its table, which the SDK's functions fill.
#include "backend.hpp"

#include "quern/sdk/asynchronous.hpp"

#define QUERN_CUDA_DEPENDENCIES "libcuda.so.1=nvidia-driver-libs;libnvrtc.so.13=libnvrtc13"
QUERN_PLUGIN_NOTE("cuda", QUERN_CUDA_VERSION, QUERN_DEVICE_DISCRETE, 0, QUERN_CUDA_DEPENDENCIES);
QUERN_PLUGIN_ENTRY(quern::sdk::Asynchronous<quern::cuda::Backend>::table("cuda", QUERN_CUDA_VERSION, QUERN_CUDA_BUILD))
