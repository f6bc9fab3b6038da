// The header of a safetensors file: the descriptions of its tensors, and its seal. Internal to io/.
//
// tril seals what it writes, in the header's metadata:
//   tril_checksums   of each tensor's data, 32 digits each (base/checksum.h), in the order of the
//                    names
//   tril_seal        of the 8 bytes of the length and of the header itself, with 0 in the place of
//                    these 32 digits
// The data holds nothing but tensors, so every byte of the file is covered by one of the two. A
// file that has only one of them is damaged; one that has neither was not sealed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/checksum.h"
#include "tril/io/safetensors.h"
#include "tril/io/stored_type.h"

namespace tril::safetensors {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLine = 64;  // bytes of a cache line: what data is aligned to

// A tensor as the header describes it; its data is [begin, end) of the file's data.
struct Entry {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;
  std::string checksum{};  // of its data; empty: not sealed
};

struct Header {
  std::vector<Entry> entries;  // in the order of their data
  SafetensorsInfo info;
};

// The length of the header, from the first bytes of a file of `file_bytes` bytes.
int64_t read_length(std::string_view first_bytes, int64_t file_bytes, const std::string& file);
// Raises `bad_format` for any fault, including a wrong seal.
Header read_header(std::string_view text, int64_t data_bytes, const std::string& file,
                   SafetensorsTypes types = SafetensorsTypes::ours);

// The header of tensors sorted by name. Their checksums are known only after the data was written:
// until fill() they are zeros.
class HeaderText {
 public:
  HeaderText(std::span<const Entry> sorted, const SafetensorsMetadata& metadata);
  // Returns the seal.
  std::string fill(std::span<const Checksum> of_tensors);
  // The header, preceded by its length.
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// "FILE: TENSOR", for errors.
std::string where(const std::string& file, const std::string& tensor);
[[noreturn]] void fail_damaged(const std::string& file, const std::string& tensor);

}  // namespace tril::safetensors
