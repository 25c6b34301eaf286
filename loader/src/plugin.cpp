// Plugin and Device: the owners of C handles.
#include "negotiate.hpp"
#include "plugin_parts.hpp"
#include "quern/graph/error.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

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
    : plugin_(std::move(plugin)), handle_(handle), info_(std::move(info)), label_(std::move(label)), index_(index), process_(::getpid()) {
  CallTexts texts = *plugin_->parts_->target;
  texts.device = label_;
  target_ = &call_target(texts);
  if (const auto& fault = plugin_->parts_->kept_fault; fault && fault->device == label_) suspect_call(*target_, fault->call);
}

Device::~Device() {
  if (handle_ == nullptr || process_ != ::getpid()) return;  // after fork only destroy works
  try {
    ErrorBuffer error;
    const quern_status status = call<&quern_plugin_api::device_close>(handle_, error.get());
    if (status != QUERN_OK) log_error(concat(label_, ": could not be closed: ", error.words(status)));
  } catch (...) {  // no memory for the message
  }
}

void Device::lose(std::shared_ptr<const Device> self) const noexcept {
  static std::atomic<const Device*> all{nullptr};  // so that a search for leaks finds them
  if (lost_.exchange(true)) return;
  self_ = std::move(self);
  next_lost_ = all.load();
  while (!all.compare_exchange_weak(next_lost_, this)) {}
}

void Device::log_error(const std::string& text) const noexcept {
  const quern_host* host = plugin_->parts_->host->table();
  host->log(host->context, QUERN_LOG_ERROR, {"loader", 6}, {text.data(), text.size()});
}

void Device::report_thrown(const char* name, const std::string& thrown, quern_error* error) const noexcept {
  keep_fault(*target_, name, FaultKind::threw, 0);
  try {
    const std::string text = concat("the plugin let an exception out of ", name, ": ", thrown);
    if (error == nullptr) return log_error(concat(label_, ": ", text));
    error->text_size = std::min<std::uint64_t>(text.size(), error->text_capacity);
    if (error->text != nullptr) std::memcpy(error->text, text.data(), error->text_size);
  } catch (...) {  // no memory for the message
  }
}

}  // namespace quern::loader
