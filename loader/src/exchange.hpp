// The JSON that travels between the loader, its helper process and its cache.
#pragma once

#include "host.hpp"
#include "verdict.hpp"

#include "quern/graph/json.hpp"
#include "quern/graph/json_writer.hpp"

#include <string>

namespace quern::loader {

/// What the helper is asked, as its only argument.
struct HelperRequest {
  std::string path;
  bool allow_dev_plugins = false;
  bool measure = false;
  HostOptions options;
};
std::string write_request(const HelperRequest& request);

/// Throws Error(QUERN_INVALID_ARGUMENT) naming the field for what is no request.
HelperRequest read_request(const std::string& text);

void write_json(JsonWriter& json, const Examination& examination);

/// Throws Error(QUERN_IO) naming the field for what is no examination: the text may come from a damaged file
/// or from a process that a plugin overwrote.
Examination examination_from(const Json& value);

/// The number of a stage in these texts.
int stage_number(Stage stage);

}  // namespace quern::loader
