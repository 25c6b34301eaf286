// What a device process was about when it ended: the call of the plugin's table that was open, the last claim that a script checked, and the
// allocation that was refused. It lies in memory that the parent reads after the process is gone.
#pragma once

#include "quern/quern_plugin_api.h"

#include <cstdint>
#include <span>
#include <string>

namespace quern::conformance {

/// From now on this process writes it to `memory`, of breadcrumb_bytes at least. Before, it goes nowhere.
void leave_breadcrumbs_in(std::span<std::byte> memory) noexcept;
constexpr std::uint64_t breadcrumb_bytes = 4096;

/// Each function of the table tells when it is entered and left; null functions stay null. All tables of a process are of one plugin.
void trace_calls(quern_plugin_api& api) noexcept;

/// The table as the plugin filled it: where calls of `api` are traced, the functions behind the marks.
quern_plugin_api untraced(const quern_plugin_api& api) noexcept;

/// A script has checked this. Any thread; allocates nothing.
void crumb_of_claim(const std::string& claim) noexcept;
/// An allocation of this number is refused from now on; 0: none is.
void crumb_of_refusal(std::uint64_t allocation) noexcept;
/// A case begins: no claim and no refusal are left of the one before.
void clear_breadcrumbs() noexcept;

/// The parent's side: "in submit, after the claim '...', with allocation 17 refused"; empty where there is nothing to say.
std::string breadcrumb_words(std::span<const std::byte> memory);

}  // namespace quern::conformance
