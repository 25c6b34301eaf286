#include "training_support.hpp"

#include "quern/training/data_files.hpp"

#include <zlib.h>

namespace quern::training {
namespace {

using test::error_of;
using test::Folder;

/// "line:json" of each example; an error's text in its place.
std::vector<std::string> examples_of(const DataText& text) {
  std::vector<std::string> all;
  ExampleReader reader(text);
  for (;;) {
    try {
      const auto example = reader.next();
      if (!example) return all;
      all.push_back(concat(example->line, ":", example->json));
    } catch (const Error& error) { all.emplace_back(error.what()); }
  }
}

std::vector<std::string> examples_of(const char* name, std::string text) { return examples_of(data_text_of(name, std::move(text))); }

using Strings = std::vector<std::string>;

std::string gzip(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bytes(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

TEST(JsonLines, AreNumberedAndEmptyOnesPassedOver) {
  EXPECT_EQ(examples_of("x.jsonl", "{}\n\n  \n{\"a\":1}"), (Strings{"1:{}", "4:{\"a\":1}"}));
}

TEST(JsonLines, MayHaveAByteOrderMarkAndCarriageReturns) {
  EXPECT_EQ(examples_of("x.jsonl", "\xEF\xBB\xBF{}\r\n{}\r\n"), (Strings{"1:{}", "2:{}"}));
}

TEST(JsonLines, MayBeCalledJson) { EXPECT_EQ(examples_of("x.json", "{}\n{}"), (Strings{"1:{}", "2:{}"})); }

TEST(JsonLines, OfTooManyBytesAreNamedAndTheNextOneIsRead) {
  const Strings found = examples_of("x.jsonl", "{}\n" + std::string(longest_example + 1, 'a') + "\n{}");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1], concat("x.jsonl:2: the example has ", longest_example + 1, " bytes; at most ", longest_example, " are read"));
  EXPECT_EQ(found[2], "3:{}");
}

TEST(JsonList, IsCutAtItsCommas) {
  EXPECT_EQ(examples_of("x.json", " [\n{\"a\": \"],[\\\"\"},\n [1, {\"b\": [2]}] ,\n3]\n"),
            (Strings{"2:{\"a\": \"],[\\\"\"}", "3:[1, {\"b\": [2]}]", "4:3"}));
  EXPECT_EQ(examples_of("x.json", "[]"), Strings{});
}

TEST(JsonList, ThatIsMalformedEndsWithItsLine) {
  EXPECT_EQ(examples_of("x.json", "[{},\n{"), (Strings{"1:{}", "x.json:2: the list has no end; what begins here is not closed"}));
  EXPECT_EQ(examples_of("x.json", "[{},]"), (Strings{"1:{}", "x.json:1: an example is missing between the commas of the list"}));
  EXPECT_EQ(examples_of("x.json", "[{}]\nx"), (Strings{"x.json:2: text follows the end of the list"}));
  EXPECT_EQ(examples_of("x.json", "[{}}"), (Strings{"x.json:1: a bracket is closed that was not opened"}));
}

TEST(DataFile, IsUnpackedWhereItsNameSaysSo) {
  const Folder folder;
  const std::string path = folder.write("x.jsonl.gz", gzip("{}\n") + gzip("{\"a\":1}\n"));
  EXPECT_EQ(examples_of(read_data_file(path)), (Strings{"1:{}", "2:{\"a\":1}"}));
  EXPECT_EQ(examples_of(read_data_file(folder.write("y.json.gz", gzip("[1,2]")))), (Strings{"1:1", "1:2"}));
}

TEST(DataFile, ThatIsDamagedOrTooLargeIsNamed) {
  const Folder folder;
  std::string whole = gzip(std::string(1 << 20, 'a') + "\n");
  const std::string cut = folder.write("cut.jsonl.gz", whole.substr(0, whole.size() / 2));
  EXPECT_NE(error_of([&] { read_data_file(cut); }).find(cut + ": the gzip data ends in the middle"), std::string::npos);
  const std::string no = folder.write("no.jsonl.gz", "{}\n");
  EXPECT_NE(error_of([&] { read_data_file(no); }).find(no + ": is not gzip data"), std::string::npos);
  const std::string empty = folder.write("empty.jsonl.gz", "");
  EXPECT_NE(error_of([&] { read_data_file(empty); }).find("ends in the middle"), std::string::npos);
  const std::string bomb = folder.write("bomb.jsonl.gz", whole);
  EXPECT_NE(error_of([&] { read_data_file(bomb, 10'000); }).find("unpacks to more than 10000 bytes"), std::string::npos);
  EXPECT_EQ(read_data_file(bomb, (1 << 20) + 1).text.size(), (1u << 20) + 1);
  EXPECT_NE(error_of([&] { read_data_file(folder.path() + "/none.jsonl"); }).find("none.jsonl"), std::string::npos);
}

TEST(DataFolder, HasAFileForEachPart) {
  const Folder folder;
  EXPECT_EQ(file_in_folder(folder.path(), FolderPart::train), std::nullopt);
  const std::string train = folder.write("train.jsonl", ""), valid = folder.write("valid.json", ""),
                    test = folder.write("test.jsonl.gz", "");
  EXPECT_EQ(file_in_folder(folder.path(), FolderPart::train), train);
  EXPECT_EQ(file_in_folder(folder.path(), FolderPart::validation), valid);
  EXPECT_EQ(file_in_folder(folder.path(), FolderPart::test), test);
  folder.write("validation.jsonl", "");
  EXPECT_NE(error_of([&] { file_in_folder(folder.path(), FolderPart::validation); }).find("has both"), std::string::npos);
}

}  // namespace
}  // namespace quern::training
