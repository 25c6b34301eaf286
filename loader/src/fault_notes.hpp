// What is kept of a call into a plugin that ended a program, for the next program: one small file a plugin, beside its probe results.
#pragma once

#include "quern/loader/plugin_call.hpp"

#include <optional>
#include <string>

namespace quern::loader {

/// A fault as a handler has it.
struct Fault {
  const char* identity;  // of the plugin's file
  const char* device;    // "" for the plugin as a whole
  const char* call;
  FaultKind kind;
  int signal;  // of a crash, else 0
};

/// Writes it. False where it cannot be written. Safe in a signal handler.
bool write_fault(const char* file, const Fault& fault) noexcept;

struct KeptFault {
  std::string device;
  std::string call;
  FaultKind kind = FaultKind::crashed;
  int signal = 0;

  /// "cpu:0 crashed in submit with signal 11 (Segmentation fault)"; `backend` where no device is known.
  std::string words(const std::string& backend) const;
  /// Whether it ended the program by itself: such a plugin is ranked behind the others.
  bool ended_the_program() const { return kind == FaultKind::crashed || kind == FaultKind::exited; }
};

/// The fault kept in `file`, if it is of a plugin with this identity. `problem`: why the file is not believed.
std::optional<KeptFault> find_fault(const std::string& file, const std::string& identity, std::string& problem);

/// What a file is: another one at the same path has another identity. "-" if there is none.
std::string file_identity(const std::string& path);

/// What calls into a plugin as a whole are about. Without a file for a fault.
CallTexts texts_of_plugin(const std::string& id, const std::string& path);

/// A call of this name is to be noticed when it returns from `target`: it is the one that failed in an earlier program.
void suspect_call(const CallTarget& target, const std::string& name);
/// Forgets the kept fault of a plugin's file whose suspect call has returned since.
void forget_passed_fault(const std::string& path) noexcept;

}  // namespace quern::loader
