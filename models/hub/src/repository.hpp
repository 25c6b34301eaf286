// What the hub says about a repository: its commit and files. The answer is hostile input.
#pragma once

#include "http.hpp"
#include "model_name.hpp"
#include "patience.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quern::hub {

struct RemoteFile {
  std::string path;
  std::string etag;    // the blob's name: SHA-256 of a large file, Git hash of a small one
  std::string sha256;  // empty where the hub states none
  std::uint64_t bytes = 0;
};

struct RemoteRepository {
  std::string commit;
  std::vector<RemoteFile> files;
  std::size_t refused = 0;  // further ones, whose names or sums are none that may be taken
};

/// Asks ENDPOINT/api/models/OWNER/NAME/revision/REVISION. Throws as check_status(), and Error(QUERN_IO) for an answer that is none.
RemoteRepository read_remote(const std::string& endpoint, const ModelName& name, bool with_token, Http& http, Patience& patience);

/// The same from the answer's text; `what` names it in errors.
RemoteRepository parse_remote(const std::string& json, const std::string& what);

}  // namespace quern::hub
