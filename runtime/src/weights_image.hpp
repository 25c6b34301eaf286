// A file of weights as they lie in a device's arena, checked as it is mapped.
//
//   byte 0        "QUERNWI1", then little-endian u64: bytes before the image, of the image, of a checked piece, of the key; the model's
//                 content sum; 0; the checksum of all that is in front of the image, itself as 0
//   byte 64       the key (text), the checksums of the pieces, zeros to a multiple of 4,096
//   then          the image
// A reader knows from its own key and arena how long everything has to be: no size in the file is believed. Packed bytes hold no pointer
// and no index, so that wrong ones could give wrong text and nothing worse; the checksums are there against that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace quern::runtime {

/// What a file has to hold to be the wanted one.
struct ImageKey {
  std::string text;         // lines "<what> <value>"; equal or not this image
  std::uint64_t bytes = 0;  // of the image
};

/// A read-only shared mapping of a whole image file. Move-only.
class WeightsImage {
 public:
  WeightsImage() = default;
  WeightsImage(WeightsImage&& other) noexcept;
  WeightsImage& operator=(WeightsImage&& other) noexcept;
  ~WeightsImage();

  explicit operator bool() const noexcept { return mapping_ != nullptr; }
  std::span<const std::byte> image() const noexcept { return {mapping_ + offset_, mapped_ - offset_}; }
  /// The model's content sum that it was written with.
  std::uint64_t content() const noexcept { return content_; }
  struct Mapping {
    std::byte* begin;             // read-only memory
    std::uint64_t bytes, offset;  // of the mapping; of the image in it
  };
  Mapping mapping() const noexcept { return {mapping_, mapped_, offset_}; }
  /// Forgets the mapping, which somebody else unmaps.
  void release() noexcept { mapping_ = nullptr; }

 private:
  friend WeightsImage open_image(const std::string&, const ImageKey&, std::uint32_t, std::string&);
  std::byte* mapping_ = nullptr;
  std::uint64_t mapped_ = 0, offset_ = 0, content_ = 0;
};

/// Maps the file and checks all of it on `threads` threads; its pages are resident then. Empty where there is no such file (`reason` stays
/// empty) or it is not to be used (`reason` says why, for people).
WeightsImage open_image(const std::string& path, const ImageKey& key, std::uint32_t threads, std::string& reason);

/// Writes it aside, synchronises it, and renames it to `path`: a reader sees the old file, the new one or none. Only one process at
/// a time writes a path. `still_true` is asked before the rename; false discards. Returns why it was not written; empty if it was.
std::string write_image(const std::string& path, const ImageKey& key, std::uint64_t content, std::span<const std::byte> image,
                        const std::function<bool()>& still_true);

/// Bytes of the file that write_image makes.
std::uint64_t image_file_bytes(const ImageKey& key) noexcept;

}  // namespace quern::runtime
