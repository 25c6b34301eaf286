// The plugin's entry: its note and its table, which the SDK's functions fill. OpenBLAS is opened at run time, if it is there.
#include "backend.hpp"

#include "quern/sdk/synchronous.hpp"

QUERN_PLUGIN_NOTE("cpu", QUERN_CPU_VERSION, QUERN_DEVICE_CPU, 0, "libopenblas.so.0=libopenblas0");
QUERN_PLUGIN_ENTRY(quern::sdk::Synchronous<quern::cpu::Backend>::table("cpu", QUERN_CPU_VERSION, QUERN_CPU_BUILD))
