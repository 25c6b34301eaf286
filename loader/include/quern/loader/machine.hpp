// What is on the machine for backends to use, whatever they made of it: cards with the verdicts on them, drivers, libraries.
//
// Read from files alone: nothing is loaded and no device is opened. For `quern doctor`; opening a model does not need it.
#pragma once

#include "quern/loader/report.hpp"
#include "quern/loader/settings.hpp"

#include <string>
#include <vector>

namespace quern::loader {

/// What one backend made of a card or of the processor.
struct CardVerdict {
  std::string backend;
  std::string label;  // "cuda:0"; empty where the backend lists no such device
  bool used = false;
  std::string code;
  std::string reason;
};

/// A processor or a graphics card, once however many backends see it.
struct PhysicalDevice {
  std::string name;     // "NVIDIA card 10de:2331", or the processor's
  std::string address;  // on the PCI bus; empty for the processor
  std::string driver;   // of the kernel; empty if it has none
  std::vector<CardVerdict> verdicts;
};

struct MachineLibrary {
  std::string soname;
  std::string path;     // empty: not installed
  std::string version;  // empty: unknown
  bool usable = false;
};

struct VulkanDriver {
  std::string manifest;
  std::string library;       // as the manifest names it
  std::string library_path;  // where that is found; empty: nowhere
  std::string api_version;
  std::string code = "QUERN-L-0000";
  std::string cause;
  std::string remedy;
};

struct MachineFacts {
  std::vector<PhysicalDevice> devices;
  std::string nvidia_driver;  // version in the kernel; empty if it is not there
  std::vector<MachineLibrary> libraries;
  std::vector<VulkanDriver> vulkan_drivers;
};

/// Reads the machine, and adds what is wrong with it to the report's entries (codes QUERN-L-071x), with commands.
MachineFacts examine_machine(const Settings& settings, Report& report);

/// to_words() of the report, with the machine.
std::string to_words(const Report& report, const MachineFacts& machine);

}  // namespace quern::loader
