// See repository.hpp.
#include "repository.hpp"

#include "quern/graph/error.hpp"
#include "quern/graph/json.hpp"

namespace quern::hub {
namespace {

// A list with ?blobs=true has about 300 bytes and 9 values a file, so that these hold 50,000 files; as a tree they take at most 100 MiB.
constexpr std::size_t longest_answer = 16 << 20;
constexpr std::size_t most_values = 450'000;

std::string text_of(const Json& object, const char* key) {
  const Json* found = object.find(key);
  return found != nullptr && found->text() != nullptr ? *found->text() : std::string();
}

std::uint64_t count_of(const Json& object, const char* key) {
  const Json* found = object.find(key);
  return found != nullptr && found->count() != nullptr ? *found->count() : 0;
}

RemoteFile file_of(const Json& entry) {
  RemoteFile file{text_of(entry, "rfilename"), text_of(entry, "blobId"), {}, count_of(entry, "size")};
  if (const Json* lfs = entry.find("lfs"); lfs != nullptr && lfs->is_object()) {
    file.sha256 = text_of(*lfs, "sha256");
    if (file.sha256.empty()) file.sha256 = text_of(*lfs, "oid");
    file.etag = file.sha256;
    if (const std::uint64_t bytes = count_of(*lfs, "size")) file.bytes = bytes;
  }
  return file;
}

bool is_usable(const RemoteFile& file) {
  return is_safe_path(file.path) && (file.sha256.empty() ? is_hex(file.etag, 40) : is_hex(file.sha256, 64));
}

}  // namespace

RemoteRepository parse_remote(const std::string& text, const std::string& what) {
  const Json json = Json::parse(text, most_values).value_or(Json());
  if (!json.is_object())
    throw Error(QUERN_IO, concat(what, ": the answer is no JSON object of at most ", most_values, " values; is the endpoint a hub?"));
  RemoteRepository remote{text_of(json, "sha"), {}};
  const Json* siblings = json.find("siblings");
  if (!is_hex(remote.commit, 40) || siblings == nullptr || siblings->list() == nullptr) {
    throw Error(QUERN_IO, concat(what, ": the answer has no commit or no files; is the endpoint a hub?"));
  }
  for (const Json& entry : *siblings->list()) {
    RemoteFile file = entry.is_object() ? file_of(entry) : RemoteFile();
    if (is_usable(file)) remote.files.push_back(std::move(file));
    else ++remote.refused;
  }
  return remote;
}

RemoteRepository read_remote(const std::string& endpoint, const ModelName& name, bool with_token, Http& http, Patience& patience) {
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  const std::string url = concat(endpoint, "/api/models/", name.repository, "/revision/", url_path(revision), "?blobs=true");
  const std::string what = name.repository + (name.revision.empty() ? "" : "@" + name.revision);
  return patience.run([&] {
    std::string text;
    const Response response = http.get({url, 0, {}}, [&](const Response&, std::span<const std::byte> piece) {
      if (text.size() + piece.size() > longest_answer)
        throw Error(QUERN_IO, concat(what, ": the answer is longer than ", longest_answer, " bytes"));
      text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
    check_status(response, what, with_token);
    patience.progressed();
    return parse_remote(text, what);
  });
}

}  // namespace quern::hub
