// The stable codes of the load report. Never renumbered or reused; loader/README.md lists them with their
// meaning.
#pragma once

namespace quern::loader::code {

inline constexpr const char* ok = "QUERN-L-0000";

// Search.
inline constexpr const char* directory_unreadable = "QUERN-L-0001";
inline constexpr const char* directory_writable = "QUERN-L-0002";
inline constexpr const char* directory_relative = "QUERN-L-0003";
inline constexpr const char* environment_ignored = "QUERN-L-0004";
inline constexpr const char* no_directory = "QUERN-L-0005";
inline constexpr const char* no_plugin = "QUERN-L-0006";
inline constexpr const char* shadowed = "QUERN-L-0007";
inline constexpr const char* same_file = "QUERN-L-0008";
inline constexpr const char* disabled = "QUERN-L-0009";
inline constexpr const char* not_demanded = "QUERN-L-0010";
inline constexpr const char* forced_cpu = "QUERN-L-0011";
inline constexpr const char* file_writable = "QUERN-L-0012";

// S0 inspect.
inline constexpr const char* file_unreadable = "QUERN-L-0101";
inline constexpr const char* not_elf = "QUERN-L-0102";
inline constexpr const char* elf_malformed = "QUERN-L-0103";
inline constexpr const char* elf_class = "QUERN-L-0104";
inline constexpr const char* elf_machine = "QUERN-L-0105";
inline constexpr const char* elf_type = "QUERN-L-0106";
inline constexpr const char* no_note = "QUERN-L-0107";
inline constexpr const char* note_malformed = "QUERN-L-0108";
inline constexpr const char* epoch = "QUERN-L-0109";
inline constexpr const char* plugin_too_old = "QUERN-L-0110";
inline constexpr const char* host_too_old = "QUERN-L-0111";
inline constexpr const char* header_hash = "QUERN-L-0112";
inline constexpr const char* cpu_features = "QUERN-L-0113";
inline constexpr const char* sanitizer = "QUERN-L-0114";

// S1 load.
inline constexpr const char* missing_library = "QUERN-L-0201";
inline constexpr const char* undefined_symbol = "QUERN-L-0202";
inline constexpr const char* symbol_version = "QUERN-L-0203";
inline constexpr const char* tls = "QUERN-L-0204";
inline constexpr const char* load_permission = "QUERN-L-0205";
inline constexpr const char* load_other = "QUERN-L-0206";
inline constexpr const char* load_crashed = "QUERN-L-0207";
inline constexpr const char* load_hung = "QUERN-L-0208";
inline constexpr const char* no_helper = "QUERN-L-0209";

// S2 negotiate.
inline constexpr const char* no_entry = "QUERN-L-0301";
inline constexpr const char* entry_refused = "QUERN-L-0302";
inline constexpr const char* entry_threw = "QUERN-L-0303";
inline constexpr const char* table_size = "QUERN-L-0304";
inline constexpr const char* table_null = "QUERN-L-0305";
inline constexpr const char* id_differs = "QUERN-L-0306";
inline constexpr const char* minor_range = "QUERN-L-0307";
inline constexpr const char* negotiate_crashed = "QUERN-L-0308";
inline constexpr const char* negotiate_hung = "QUERN-L-0309";

// S3 probe.
inline constexpr const char* create_failed = "QUERN-L-0401";
inline constexpr const char* probe_failed = "QUERN-L-0402";
inline constexpr const char* probe_crashed = "QUERN-L-0403";
inline constexpr const char* probe_hung = "QUERN-L-0404";
inline constexpr const char* probe_threw = "QUERN-L-0405";
inline constexpr const char* no_device = "QUERN-L-0406";
inline constexpr const char* bad_answer = "QUERN-L-0407";  // what it said contradicts the contract
inline constexpr const char* result_unreadable = "QUERN-L-0408";

// S4 open.
inline constexpr const char* open_failed = "QUERN-L-0501";
inline constexpr const char* plugin_changed = "QUERN-L-0502";

// Devices.
inline constexpr const char* device_failed = "QUERN-L-0601";
inline constexpr const char* device_malformed = "QUERN-L-0602";
inline constexpr const char* device_unproven = "QUERN-L-0603";
inline constexpr const char* device_duplicate = "QUERN-L-0604";
inline constexpr const char* device_software = "QUERN-L-0605";
inline constexpr const char* device_hidden = "QUERN-L-0606";
inline constexpr const char* device_not_named = "QUERN-L-0607";

// The machine, the cache, the demand.
inline constexpr const char* card_unused = "QUERN-L-0701";
inline constexpr const char* cache_fault = "QUERN-L-0702";
inline constexpr const char* demand_unmet = "QUERN-L-0703";

}  // namespace quern::loader::code
