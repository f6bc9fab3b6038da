// Shared by the tests of io/foreign: pickles, zip archives and files of torch.save put together by
// hand, so that each can be wrong in one place.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/error.h"

namespace tril::testing {

template <class T>
std::string little(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Opcodes of pickles, with their arguments.
namespace op {
inline const std::string kProto = "\x80\x02";
inline const std::string kOrderedDict = "ccollections\nOrderedDict\n)R";
inline const std::string kRebuild = "ctorch._utils\n_rebuild_tensor_v2\n";

inline std::string text(std::string_view value) {
  return concat("X", little(static_cast<uint32_t>(value.size())), value);
}
// As Python writes it: in the smallest form.
inline std::string integer(int64_t value) {
  if (value >= 0 && value < 256) return "K" + little(static_cast<uint8_t>(value));
  if (value >= INT32_MIN && value <= INT32_MAX) return "J" + little(static_cast<int32_t>(value));
  return "\x8a\x08" + little(value);
}
inline std::string tuple(const std::vector<int64_t>& values) {
  std::string bytes = "(";
  for (const int64_t value : values) bytes += integer(value);
  return bytes + "t";
}
}  // namespace op

// What a tensor's pickle says; each field can be replaced.
struct TensorPickle {
  std::string type = "FloatStorage";
  std::string key = "0";
  int64_t elements = 6;
  std::string offset = op::integer(0);
  std::string shape = op::tuple({2, 3});
  std::string strides = op::tuple({3, 1});
  std::string after_location = "";  // the sixth item of a storage, before version 1.6 None
  std::string rest = std::string("\x89") + op::kOrderedDict;

  std::string storage() const {
    return concat("(", op::text("storage"), "ctorch\n", type, "\n", op::text(key), op::text("cpu"),
                  op::integer(elements), after_location, "tQ");
  }
  std::string bytes() const {
    return concat(op::kRebuild, "(", storage(), offset, shape, strides, rest, "tR");
  }
};

// A pickle of an OrderedDict with these keys and values.
inline std::string state_dict(
    const std::vector<std::pair<std::string, std::string>>& names_and_values) {
  std::string bytes = op::kProto + op::kOrderedDict + "(";
  for (const auto& [name, value] : names_and_values) bytes += op::text(name) + value;
  return bytes + "u.";
}

// An entry of a zip archive; what its headers say can be replaced.
struct ZipPart {
  std::string name;
  std::string data;
  bool descriptor = true;  // sizes follow the data, as torch writes it
  bool zip64 = false;      // sizes and offset in 64 bits
  uint16_t method = 0;
  uint16_t flags = 0;
  std::string local_name = name;
  int64_t central_bytes = std::ssize(data);
  int64_t packed_bytes = central_bytes;
  int64_t local_bytes = std::ssize(data);
  uint32_t crc_change = 0;
  int64_t offset_change = 0;
};

struct ZipEnd {
  bool zip64 = false;
  bool only64 = false;  // the plain record refers to the other one
  int64_t entries_change = 0;
  int64_t bytes_change = 0;
  int64_t begin_change = 0;
  int64_t entries64_change = 0;
  int64_t bytes64_change = 0;
  int64_t begin64_change = 0;
  int64_t locator_change = 0;
  std::string comment = "";
};

inline uint32_t crc_of(std::string_view data) {
  return static_cast<uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
}

inline std::string zip_sizes(bool wide, int64_t packed, int64_t bytes) {
  if (wide) return little(packed) + little(bytes);
  return little(static_cast<uint32_t>(packed)) + little(static_cast<uint32_t>(bytes));
}

inline std::string zip_local(const ZipPart& part) {
  const auto flags = static_cast<uint16_t>(part.flags | (part.descriptor ? 8 : 0));
  const uint32_t crc = crc_of(part.data);
  const int64_t shown = part.descriptor ? 0 : part.local_bytes;
  const bool wide = part.zip64 && !part.descriptor;
  const std::string extra =
      wide ? little(uint16_t{1}) + little(uint16_t{16}) + zip_sizes(true, shown, shown) : "";
  return concat("PK\3\4", little(uint16_t{0}), little(flags), little(part.method),
                little(uint32_t{0}), little(part.descriptor ? uint32_t{0} : crc),
                wide ? zip_sizes(false, -1, -1) : zip_sizes(false, shown, shown),
                little(static_cast<uint16_t>(part.local_name.size())),
                little(static_cast<uint16_t>(extra.size())), part.local_name, extra, part.data,
                part.descriptor ? concat("PK\7\10", little(crc),
                                         zip_sizes(part.zip64, part.local_bytes, part.local_bytes))
                                : "");
}

inline std::string zip_central(const ZipPart& part, int64_t offset) {
  const auto flags = static_cast<uint16_t>(part.flags | (part.descriptor ? 8 : 0));
  const std::string extra =
      part.zip64 ? concat(little(uint16_t{1}), little(uint16_t{24}),
                          zip_sizes(true, part.central_bytes, part.packed_bytes), little(offset))
                 : "";
  return concat("PK\1\2", little(uint32_t{0}), little(flags), little(part.method),
                little(uint32_t{0}), little(crc_of(part.data) ^ part.crc_change),
                part.zip64 ? zip_sizes(false, -1, -1)
                           : zip_sizes(false, part.packed_bytes, part.central_bytes),
                little(static_cast<uint16_t>(part.name.size())),
                little(static_cast<uint16_t>(extra.size())), little(uint16_t{0}),
                little(uint16_t{0}), std::string(6, '\0'),
                little(part.zip64 ? UINT32_MAX : static_cast<uint32_t>(offset)), part.name, extra);
}

inline std::string zip_of(const std::vector<ZipPart>& parts, const ZipEnd& end = {}) {
  std::string bytes;
  std::string directory;
  for (const ZipPart& part : parts) {
    directory += zip_central(part, std::ssize(bytes) + part.offset_change);
    bytes += zip_local(part);
  }
  const int64_t begin = std::ssize(bytes);
  const int64_t size = std::ssize(directory);
  const int64_t entries = std::ssize(parts);
  bytes += directory;
  if (end.zip64) {
    const int64_t at = std::ssize(bytes) + end.locator_change;
    bytes += concat("PK\6\6", little(int64_t{44}), little(uint32_t{0}), little(uint64_t{0}),
                    little(entries + end.entries64_change), little(entries + end.entries64_change),
                    little(size + end.bytes64_change), little(begin + end.begin64_change));
    bytes += concat("PK\6\7", little(uint32_t{0}), little(at), little(uint32_t{1}));
  }
  const auto count = static_cast<uint16_t>(end.only64 ? -1 : entries + end.entries_change);
  return concat(bytes, "PK\5\6", little(uint32_t{0}), little(count), little(count),
                little(static_cast<uint32_t>(end.only64 ? -1 : size + end.bytes_change)),
                little(static_cast<uint32_t>(end.only64 ? -1 : begin + end.begin_change)),
                little(static_cast<uint16_t>(end.comment.size())), end.comment);
}

// The bytes of `count` floats 0, 1, 2...
inline std::string floats(int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes += little(static_cast<float>(i));
  return bytes;
}

// A file of torch.save in its present form, with storages data/0, data/1...
inline std::string torch_zip(const std::string& pickle,
                             const std::vector<std::string>& storages = {floats(6)}) {
  std::vector<ZipPart> parts = {{.name = "m/data.pkl", .data = pickle}};
  for (const std::string& storage : storages) {
    parts.push_back({.name = concat("m/data/", parts.size() - 1), .data = storage});
  }
  parts.push_back({.name = "m/version", .data = "3\n"});
  return zip_of(parts);
}

// The beginning of the form before 1.6: magic number, protocol, facts about the machine.
inline std::string legacy_start(bool little_endian = true) {
  return std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15) + op::kProto +
         op::integer(1001) + "." + op::kProto + "}" + op::text("little_endian") +
         (little_endian ? "\x88" : "\x89") + "s.";
}
inline std::string legacy_keys(const std::vector<std::string>& keys) {
  std::string bytes = op::kProto + "](";
  for (const std::string& key : keys) bytes += op::text(key);
  return bytes + "e.";
}
inline std::string torch_legacy(const std::string& pickle) {
  return legacy_start() + pickle + legacy_keys({"0"}) + little(int64_t{6}) + floats(6);
}

}  // namespace tril::testing
