// Files of examples: .jsonl with an example a line, .json with one list, either of them as .gz, and folders of them.
//
// They are hostile input. Memory is that of the text and of one example at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::training {

/// The most bytes that one example may have.
inline constexpr std::size_t longest_example = 16 * 1024 * 1024;
/// The most bytes that one file may have, before and after gzip.
inline constexpr std::uint64_t largest_data_file = std::uint64_t{4} << 30;

/// Which file of a folder is meant.
enum class FolderPart : std::uint8_t { train, validation, test };

/// A file's text, without gzip and without a byte order mark.
struct DataText {
  std::string name;  // as messages name it: its path
  std::string text;
  bool is_list = false;  // one JSON list; or else an example a line
};

/// Reads a file. A name that ends in .gz is unpacked, whatever number of members it has. A .json file whose first character is no '[' has
/// an example a line. Throws Error as check_read(), Error(QUERN_BAD_MODEL) for a gzip file that is damaged or cut off, and for more than
/// `most` bytes, all naming the file.
DataText read_data_file(const std::string& path, std::uint64_t most = largest_data_file);

/// The same for a text that is there already; for tests and fuzzers.
DataText data_text_of(std::string name, std::string text);

/// The file of this part in a folder: train, valid or validation, or test, with .jsonl, .json, .jsonl.gz or .json.gz. Nothing where there is
/// none. Throws Error(QUERN_INVALID_ARGUMENT) where two names fit.
std::optional<std::string> file_in_folder(const std::string& folder, FolderPart part);

/// One example as it stands in the file.
struct RawExample {
  std::uint64_t line = 0;  // from 1: where it begins
  std::string_view json;   // points into the text
};

/// The examples of a text, one after the other. Empty lines are passed over.
class ExampleReader {
 public:
  /// `data` has to outlive the reader.
  explicit ExampleReader(const DataText& data) noexcept : data_(data) {}

  /// Nothing at the end. Throws Error(QUERN_BAD_MODEL) as "NAME:LINE: ..." for an example of more than longest_example bytes. The next one
  /// can then be read. The same for a malformed list, after which nothing follows (is_broken()).
  std::optional<RawExample> next();
  /// The list is malformed, so that nobody knows where its next example begins.
  bool is_broken() const noexcept { return is_broken_; }

 private:
  std::optional<RawExample> next_line();
  std::optional<RawExample> next_item();
  std::size_t end_of_item();
  void skip_space() noexcept;
  [[noreturn]] void break_off(const char* problem);
  RawExample checked(RawExample example) const;

  const DataText& data_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 1;
  bool began_ = false, ended_ = false, is_broken_ = false;
};

}  // namespace quern::training
