// Finds what a key is: a setting, a synonym, a group, a key of another program, or nothing that is known.
#pragma once

#include "setting_rows.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace quern::training {

/// The keys that stand at the top of a file, or those of an entry of datasets.
enum class Level { top, dataset };

struct KnownKey {
  std::string_view key;  // our name
  void (*convert)(Entry&, std::string_view& key) = nullptr;
};

/// `path` from the level's start: "lora_r", "lora.r".
std::optional<KnownKey> find_key(Level level, std::string_view path);

/// Whether keys that are known begin with `path` and a dot.
bool is_group(std::string_view path);

const PeerKey* find_peer_key(Level level, std::string_view path);

/// A note where the key of another program changes nothing, "" where it has no value. Throws SettingsError where it would change the result.
std::string peer_note(const PeerKey& key, const Entry& entry);

/// Throws SettingsError: unknown, with the nearest name, or with the level where the key belongs.
[[noreturn]] void refuse_unknown(Level level, std::string_view path, const Entry& entry);

}  // namespace quern::training
