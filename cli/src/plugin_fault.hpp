// Names the plugin whose call ended the program or hangs. The library keeps the record of open calls; the handlers are the program's.
#pragma once

namespace quern::cli {

/// From now on a sentence names the call into a plugin that crashed, let out an exception that nobody takes, or ended the program. The fault is
/// kept for the next load report. Ctrl-C names the open call where no InterruptGuard is in force. Called once, by main().
void watch_plugin_calls();

/// What is done about a call into a plugin that does not return for four seconds behind Ctrl-C.
enum class AtHang { end_the_program, name_it };

/// Begins behind Ctrl-C, and ends what is older. Both are safe in a signal handler.
void watch_for_hang(AtHang what) noexcept;
void end_hang_watch() noexcept;

}  // namespace quern::cli
