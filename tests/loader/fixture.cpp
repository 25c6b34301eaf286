// A staged machine for loader tests.
#include "fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace quern::loader {

namespace fs = std::filesystem;

Folder::Folder() {
  std::string name = (fs::temp_directory_path() / "quern-loader-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder: " + name);
  path_ = fs::canonical(name).string();
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Machine::Machine() {
  fs::create_directories(root / "plugins");
  write_file(root / "proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
  fs::create_directories(root / "sys/bus/pci/devices");
  fs::create_directories(root / "dev");
  fs::create_directories(root / "etc");
}

void Machine::add(const std::vector<std::string>& ids, const std::string& folder) {
  fs::create_directories(root / folder);
  for (const std::string& id : ids)
    fs::copy_file(std::string(QUERN_ZOO) + "/libbackend_" + id + ".so", plugin(id, folder), fs::copy_options::overwrite_existing);
}

std::string Machine::plugin(const std::string& id, const std::string& folder) const {
  return root / (folder + "/libbackend_" + id + ".so");
}

void Machine::add_card(const std::string& address, const std::string& vendor, const std::string& device, const std::string& pci_class) {
  const std::string folder = root / ("sys/bus/pci/devices/" + address);
  write_file(folder + "/class", pci_class + "\n");
  write_file(folder + "/vendor", vendor + "\n");
  write_file(folder + "/device", device + "\n");
}

Settings Machine::settings() {
  Settings s;
  s.backend_path.set({root / "plugins"}, "QUERN_BACKEND_PATH");
  s.cache_directory.value = root / "cache";
  s.probe_program = QUERN_PROBE_PROGRAM;
  s.probe_limit = std::chrono::seconds(20);  // a loaded machine under a sanitizer is slow
  s.sys_root = root / "sys";
  s.dev_root = root / "dev";
  s.proc_root = root / "proc";
  s.etc_root = root / "etc";
  s.log = [this](std::uint32_t level, std::string_view component, std::string_view text) {
    const std::lock_guard lock(mutex_);
    log_.push_back(std::to_string(level) + " " + std::string(component) + ": " + std::string(text));
  };
  return s;
}

std::vector<std::string> Machine::log_lines() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

ReportEntry entry_of(const Report& report, const std::string& id) {
  for (const ReportEntry& e : report.entries)
    if (e.id == id || e.path.ends_with("/libbackend_" + id + ".so")) return e;
  ADD_FAILURE() << "no entry for " << id << " in\n" << to_words(report);
  return {};
}

ReportEntry entry_with(const Report& report, const std::string& code) {
  for (const ReportEntry& e : report.entries)
    if (e.code == code) return e;
  return {};
}

std::vector<std::string> labels(const Loader& loader) {
  std::vector<std::string> made;
  for (const Candidate& c : loader.candidates()) made.push_back(c.label);
  return made;
}

void expect_refused_beside_the_good_one(Loader& loader, const Refused& bad) {
  const ReportEntry entry = entry_of(loader.report(), bad.id);
  EXPECT_EQ(entry.code, bad.code) << to_words(loader.report());
  EXPECT_STREQ(stage_name(entry.stage), stage_name(bad.stage));
  EXPECT_EQ(entry.status, Status::refused);
  EXPECT_THAT(entry.cause, testing::HasSubstr(bad.cause));
  EXPECT_THAT(entry.remedy, testing::HasSubstr(bad.remedy));
  EXPECT_EQ(labels(loader), std::vector<std::string>{"good:0"});
  EXPECT_EQ(loader.open_best()->label(), "good:0");
}

}  // namespace quern::loader
