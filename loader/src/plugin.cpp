// Plugin and Device: the owners of C handles.
#include "negotiate.hpp"
#include "plugin_parts.hpp"
#include "quern/graph/error.hpp"

#include <unistd.h>

namespace quern::loader {

Plugin::Plugin(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Plugin::~Plugin() = default;

const quern_plugin_api& Plugin::api() const noexcept { return parts_->api; }
quern_plugin* Plugin::handle() const noexcept { return parts_->handle; }
const std::string& Plugin::id() const noexcept { return parts_->id; }
const std::string& Plugin::version() const noexcept { return parts_->version; }
const std::string& Plugin::build() const noexcept { return parts_->build; }
const std::string& Plugin::path() const noexcept { return parts_->path; }
std::uint32_t Plugin::abi_minor() const noexcept { return parts_->api.abi_minor; }
AllocationStatistics Plugin::allocations() const { return parts_->host->total(); }
std::map<std::string, AllocationStatistics> Plugin::allocations_by_tag() const { return parts_->host->by_tag(); }

Device::Device(std::shared_ptr<const Plugin> plugin, quern_device* handle, DeviceInfo info, std::string label, std::uint32_t index)
    : plugin_(std::move(plugin)), handle_(handle), info_(std::move(info)), label_(std::move(label)), index_(index), process_(::getpid()) {}

Device::~Device() {
  if (handle_ == nullptr || process_ != ::getpid()) return;  // after fork only destroy works
  try {
    ErrorBuffer error;
    std::string thrown;
    const quern_status status = guarded([&] { return plugin_->api().device_close(handle_, error.get()); }, thrown);
    if (status == QUERN_OK) return;
    const std::string text = concat(label_, ": could not be closed: ", thrown.empty() ? error.words(status) : thrown);
    const quern_host* host = plugin_->parts_->host->table();
    host->log(host->context, QUERN_LOG_ERROR, {"loader", 6}, {text.data(), text.size()});
  } catch (...) {  // no memory for the message
  }
}

}  // namespace quern::loader
