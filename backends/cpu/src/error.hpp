// How an error leaves the plugin: an exception inside, a status and the caller's detail struct at the C boundary.
#pragma once

#include "quern/base/concat.hpp"
#include "quern/quern_abi.h"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace quern::cpu {

class Error : public std::runtime_error {
 public:
  Error(quern_status code, const std::string& text, std::uint32_t node = QUERN_NONE, std::uint32_t slot = QUERN_NONE)
      : std::runtime_error(text), code_(code), node_(node), slot_(slot) {}
  quern_status code() const noexcept { return code_; }
  std::uint32_t node() const noexcept { return node_; }
  std::uint32_t slot() const noexcept { return slot_; }

 private:
  quern_status code_;
  std::uint32_t node_, slot_;
};

using quern::concat;

/// Fills the caller's struct (which may be null, or older and shorter) and returns the code.
quern_status report(quern_error* error, quern_status code, const char* text, std::uint32_t node = QUERN_NONE,
                    std::uint32_t slot = QUERN_NONE) noexcept;

/// Runs the body of a C function: its return value, or the status of what it throws. No exception leaves it.
template <typename Body>
quern_status guarded(quern_error* error, const Body& body) noexcept {
  try {
    return body();
  } catch (const Error& e) { return report(error, e.code(), e.what(), e.node(), e.slot()); } catch (const std::bad_alloc&) {
    return report(error, QUERN_HOST_OUT_OF_MEMORY, "the host has no memory for the cpu plugin's own tables");
  } catch (const std::exception& e) { return report(error, QUERN_INTERNAL, e.what()); } catch (...) {
    return report(error, QUERN_INTERNAL, "an exception of unknown type");
  }
}

}  // namespace quern::cpu
