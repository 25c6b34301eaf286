// What a script case (the ABI group, fused graphs) is given: an open device, and a way to say what it found.
//
// A script runs in the device process, drives the ABI as it likes and judges itself. A check that fails is recorded and the script
// goes on; require() ends it. A script that checked nothing is `unknown`.
#pragma once

#include "judge/verdict.hpp"
#include "quern/loader/loader.hpp"

#include <memory>
#include <stdexcept>
#include <string>

namespace quern::conformance {

class ScriptContext {
 public:
  ScriptContext(const loader::Device& device, std::string case_name) : device_(device), name_(std::move(case_name)) {}

  const loader::Device& device() const noexcept { return device_; }
  const quern_plugin_api& api() const noexcept { return device_.api(); }
  const std::string& case_name() const noexcept { return name_; }  // with "#N" behind it under --seed N: seeds what the script draws

  /// Records the outcome of one check, whether others failed before; `claim` says what should hold.
  void check(bool holds, const std::string& claim);
  /// Same, and ends the script if it does not hold.
  void require(bool holds, const std::string& claim);
  /// The plugin does not offer what is tested (a null function, no capability): ends the script as unsupported.
  [[noreturn]] void unsupported(const std::string& reason);
  /// The ABI lets a plugin do without what is tested, and this one says so: `capability` is its flag or null function. Ends the script as
  /// waived, unless a check failed before.
  [[noreturn]] void waive(const std::string& capability, const std::string& reason);
  /// The machine is too small for it: ends the script as resource.
  [[noreturn]] void resource(const std::string& reason);
  /// Takes the verdict of a judged output as one check.
  void merge(const Verdict& verdict);

  struct Ended {};  // thrown by the above; run_script() stops it
  /// With all claims that do not hold, "; nor: " between, of many the first.
  Verdict verdict() const;

 private:
  const loader::Device& device_;
  std::string name_;
  static constexpr std::uint64_t most_told = 12;  // claims beside the first
  std::uint64_t told_ = 0;
  Verdict verdict_{Status::pass, {}, 0, 0, {}};
};

/// Runs the script, which is told `seeded_name` as its name, and returns its verdict; what it throws is a failure with its text.
Verdict run_script(const loader::Device& device, const struct Case& c, const std::string& seeded_name);

}  // namespace quern::conformance
