#include "tril/io/foreign/zip_archive.h"

#include <algorithm>
#include <optional>

#include "tril/base/error.h"
#include "tril/io/foreign/bytes_reader.h"
#include "tril/io/json.h"

namespace tril::foreign {
namespace {

constexpr std::string_view kLocalSignature = "PK\3\4";
constexpr std::string_view kDescriptorSignature = "PK\7\10";
constexpr std::string_view kCentralSignature = "PK\1\2";
constexpr std::string_view kEndSignature = "PK\5\6";
constexpr std::string_view kEnd64Signature = "PK\6\6";
constexpr std::string_view kLocator64Signature = "PK\6\7";
constexpr int64_t kEndBytes = 22;
constexpr int64_t kLocator64Bytes = 20;
constexpr int64_t kEnd64Bytes = 56;
constexpr int64_t kMaxEntries = 200'000;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kSizesFollow = 8;     // a descriptor after the data repeats checksum and sizes
constexpr uint16_t kZip64Field = 1;      // of the extra fields
constexpr uint32_t kIn64 = 0xffffffffu;  // instead of a number that has 64 bits elsewhere

// The central directory's place: [begin, end), and how many entries it has.
struct Directory {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t entries = 0;
};

// An entry with what its local header has to repeat.
struct CentralEntry {
  ZipEntry entry;
  uint16_t flags = 0;
  uint16_t method = 0;
  int64_t header = 0;  // offset of the local header
  int64_t end = 0;     // of the data, and of the descriptor where there is one
};

std::string where(const std::string& file, std::string_view entry) {
  return concat(file, ": ", printable(entry));
}

std::string_view part(std::string_view archive, int64_t begin, int64_t bytes) {
  return archive.substr(static_cast<size_t>(begin), static_cast<size_t>(bytes));
}

// The offset of the record with which every archive ends. It may be followed by a comment only.
int64_t find_end(std::string_view archive, const std::string& file) {
  const int64_t size = std::ssize(archive);
  const int64_t earliest = std::max<int64_t>(0, size - kEndBytes - 0xffff);
  for (int64_t at = size - kEndBytes; at >= earliest; --at) {
    if (part(archive, at, 4) != kEndSignature) continue;
    BytesReader reader(part(archive, at + 20, 2), file);
    if (at + kEndBytes + reader.number<uint16_t>() == size) return at;
  }
  fail(ErrorCode::bad_format, file,
       ": not a zip archive, or one that was cut short: the record that ends it is missing");
}

// The 64-bit record that the locator before `end` leads to; none where there is no locator.
std::optional<Directory> read_end64(std::string_view archive, int64_t end,
                                    const std::string& file) {
  const int64_t locator = end - kLocator64Bytes;
  if (locator < 0 || part(archive, locator, 4) != kLocator64Signature) return std::nullopt;
  BytesReader from_locator(part(archive, locator + 4, kLocator64Bytes - 4), file);
  const auto first_disk = from_locator.number<uint32_t>();
  const auto at = from_locator.number<uint64_t>();
  const auto disks = from_locator.number<uint32_t>();
  require(first_disk == 0 && disks <= 1, ErrorCode::bad_format, file,
          ": zip64: the archive is split over several disks");
  require(locator >= kEnd64Bytes && at == static_cast<uint64_t>(locator - kEnd64Bytes) &&
              part(archive, locator - kEnd64Bytes, 4) == kEnd64Signature,
          ErrorCode::bad_format, file, ": zip64: no record at offset ", at,
          ", where the locator expects it");
  BytesReader reader(part(archive, locator - kEnd64Bytes + 4, kEnd64Bytes - 4), file);
  const auto record_bytes = reader.number<uint64_t>();
  require(record_bytes == kEnd64Bytes - 12, ErrorCode::bad_format, file, ": zip64: the record has ",
          record_bytes, " bytes, expected ", kEnd64Bytes - 12);
  reader.take(4);  // versions
  const auto disk = reader.number<uint32_t>();
  const auto directory_disk = reader.number<uint32_t>();
  const auto entries_here = reader.number<uint64_t>();
  const auto entries = reader.number<uint64_t>();
  require(disk == 0 && directory_disk == 0 && entries_here == entries, ErrorCode::bad_format, file,
          ": zip64: the archive is split over several disks");
  const auto bytes = reader.number<uint64_t>();
  const auto begin = reader.number<uint64_t>();
  const auto directory_end = static_cast<uint64_t>(locator - kEnd64Bytes);
  require(begin <= directory_end && bytes == directory_end - begin, ErrorCode::bad_format, file,
          ": zip64: a directory of ", bytes, " bytes from offset ", begin, ", it ends at ",
          directory_end);
  return Directory{begin, directory_end, entries};
}

// A field of the plain record is that of the 64-bit one, or says that it is only there.
void check_same(uint64_t plain, uint64_t only64, uint64_t value, std::string_view name,
                const std::string& file) {
  require(plain == value || plain == only64, ErrorCode::bad_format, file, ": ", name, ": ", plain,
          " at the end of the archive, ", value, " in its zip64 record");
}

Directory find_directory(std::string_view archive, const std::string& file) {
  const int64_t end = find_end(archive, file);
  BytesReader reader(part(archive, end + 4, kEndBytes - 4), file);
  const auto disk = reader.number<uint16_t>();
  const auto directory_disk = reader.number<uint16_t>();
  const auto entries_here = reader.number<uint16_t>();
  const auto entries = reader.number<uint16_t>();
  const auto bytes = reader.number<uint32_t>();
  const auto begin = reader.number<uint32_t>();
  const bool one_disk = (disk == 0 || disk == 0xffff) &&
                        (directory_disk == 0 || directory_disk == 0xffff) &&
                        entries_here == entries;
  require(one_disk, ErrorCode::bad_format, file, ": the archive is split over several disks");
  if (const std::optional<Directory> found = read_end64(archive, end, file)) {
    check_same(entries, 0xffff, found->entries, "number of entries", file);
    check_same(bytes, kIn64, found->end - found->begin, "size of the directory", file);
    check_same(begin, kIn64, found->begin, "offset of the directory", file);
    return *found;
  }
  const auto directory_end = static_cast<uint64_t>(end);
  require(begin <= directory_end && bytes == directory_end - begin, ErrorCode::bad_format, file,
          ": a directory of ", bytes, " bytes from offset ", begin, ", it ends at ", directory_end);
  return {begin, directory_end, entries};
}

// Names are only looked up, but a file with such a name was not made by torch.
void check_name(std::string_view name, const std::string& file) {
  bool good = !name.empty() && !name.starts_with('/') && name.find('\\') == name.npos &&
              name.find('\0') == name.npos;
  for (size_t begin = 0; good && begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    good = name.substr(begin, end - begin) != "..";
    begin = end + 1;
  }
  require(good, ErrorCode::bad_format, where(file, name), ": not a name of an entry");
}

// Takes the 64-bit forms of those numbers that need them from the extra fields, in their order.
void widen(std::string_view extra, std::initializer_list<uint64_t*> numbers,
           const std::string& where) {
  uint64_t needed = 0;
  for (const uint64_t* number : numbers) needed += *number == kIn64 ? sizeof(uint64_t) : 0;
  BytesReader fields(extra, where + ": extra fields");
  bool found = false;
  while (fields.left() > 0) {
    const auto id = fields.number<uint16_t>();
    const std::string_view data = fields.take(fields.number<uint16_t>());
    if (id != kZip64Field) continue;
    require(!found && data.size() >= needed, ErrorCode::bad_format, where, ": zip64: a field of ",
            data.size(), " bytes, expected one of ", needed);
    found = true;
    BytesReader values(data, where);
    for (uint64_t* number : numbers) {
      if (*number == kIn64) *number = values.number<uint64_t>();
    }
  }
  require(found || needed == 0, ErrorCode::bad_format, where,
          ": zip64: a size or offset has 64 bits, but the field that holds it is missing");
}

CentralEntry read_central(BytesReader& reader, uint64_t data_end, const std::string& file) {
  require(reader.take(4) == kCentralSignature, ErrorCode::bad_format, file,
          ": the directory has no entry where one is expected");
  CentralEntry result;
  reader.take(4);  // versions
  result.flags = reader.number<uint16_t>();
  result.method = reader.number<uint16_t>();
  reader.take(4);  // time
  result.entry.crc32 = reader.number<uint32_t>();
  uint64_t packed = reader.number<uint32_t>();
  uint64_t bytes = reader.number<uint32_t>();
  const auto name_bytes = reader.number<uint16_t>();
  const auto extra_bytes = reader.number<uint16_t>();
  const auto comment_bytes = reader.number<uint16_t>();
  const auto disk = reader.number<uint16_t>();
  reader.take(6);  // attributes
  uint64_t header = reader.number<uint32_t>();
  result.entry.name = reader.take(name_bytes);
  const std::string_view extra = reader.take(extra_bytes);
  reader.take(comment_bytes);
  check_name(result.entry.name, file);
  const std::string here = where(file, result.entry.name);
  widen(extra, {&bytes, &packed, &header}, here);
  require((result.flags & kEncrypted) == 0, ErrorCode::bad_format, here, ": encrypted");
  require(result.method == 0, ErrorCode::bad_format, here, ": compressed (method ", result.method,
          "), only stored entries are read");
  require(packed == bytes, ErrorCode::bad_format, here, ": sizes of ", packed, " and ", bytes,
          " bytes for an entry that is not compressed");
  require(disk == 0, ErrorCode::bad_format, here, ": on another disk");
  require(header <= data_end && bytes <= data_end - header, ErrorCode::bad_format, here, ": ",
          bytes, " bytes from offset ", header, " on do not fit before the directory at ",
          data_end);
  result.header = static_cast<int64_t>(header);
  result.entry.bytes = static_cast<int64_t>(bytes);
  return result;
}

// Takes the descriptor, in whichever of its two forms is there.
void read_descriptor(CentralEntry& entry, std::string_view data, const std::string& here) {
  BytesReader reader(data, here);
  const auto size = static_cast<uint64_t>(entry.entry.bytes);
  require(reader.take(4) == kDescriptorSignature, ErrorCode::bad_format, here,
          ": no descriptor after its data");
  require(reader.number<uint32_t>() == entry.entry.crc32, ErrorCode::bad_format, here,
          ": checksums of the directory and of the descriptor differ");
  BytesReader wide = reader;
  if (wide.left() >= 16 && wide.number<uint64_t>() == size && wide.number<uint64_t>() == size) {
    reader = wide;
  } else {
    const auto packed = reader.number<uint32_t>();
    const auto bytes = reader.number<uint32_t>();
    require(packed == size && bytes == size, ErrorCode::bad_format, here,
            ": sizes of the directory and of the descriptor differ");
  }
  entry.end += reader.position();
}

// Compares with the local header, and finds the data.
void read_local(CentralEntry& entry, std::string_view before_directory, const std::string& file) {
  const std::string here = where(file, entry.entry.name);
  BytesReader reader(before_directory.substr(static_cast<size_t>(entry.header)), here);
  require(reader.take(4) == kLocalSignature, ErrorCode::bad_format, here,
          ": no local header at offset ", entry.header);
  reader.take(2);  // version
  const auto flags = reader.number<uint16_t>();
  const auto method = reader.number<uint16_t>();
  reader.take(4);  // time
  const auto crc32 = reader.number<uint32_t>();
  uint64_t packed = reader.number<uint32_t>();
  uint64_t bytes = reader.number<uint32_t>();
  const auto name_bytes = reader.number<uint16_t>();
  const auto extra_bytes = reader.number<uint16_t>();
  require(reader.take(name_bytes) == entry.entry.name, ErrorCode::bad_format, here,
          ": another name in its local header");
  widen(reader.take(extra_bytes), {&bytes, &packed}, here);
  require(flags == entry.flags && method == entry.method, ErrorCode::bad_format, here,
          ": flags or method of the directory and of the local header differ");
  const auto size = static_cast<uint64_t>(entry.entry.bytes);
  const bool follow = (flags & kSizesFollow) != 0;
  const bool same = crc32 == entry.entry.crc32 && packed == size && bytes == size;
  const bool later = follow && crc32 == 0 && packed == 0 && bytes == 0;
  require(same || later, ErrorCode::bad_format, here,
          ": checksum or size of the directory and of the local header differ");
  entry.entry.begin = entry.header + reader.position();
  reader.take(size);
  entry.end = entry.header + reader.position();
  if (follow) {
    read_descriptor(entry, before_directory.substr(static_cast<size_t>(entry.end)), here);
  }
}

void check_overlaps(std::vector<CentralEntry>& entries, const std::string& file) {
  std::sort(entries.begin(), entries.end(),
            [](const CentralEntry& a, const CentralEntry& b) { return a.header < b.header; });
  for (size_t i = 1; i < entries.size(); ++i) {
    require(entries[i].header >= entries[i - 1].end, ErrorCode::bad_format,
            where(file, entries[i].entry.name), ": overlaps ",
            printable(entries[i - 1].entry.name));
  }
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(std::string_view archive, const std::string& file) {
  const Directory directory = find_directory(archive, file);
  require(directory.entries <= static_cast<uint64_t>(kMaxEntries), ErrorCode::bad_format, file,
          ": ", directory.entries, " entries, at most ", kMaxEntries, " are allowed");
  const std::string_view before = archive.substr(0, static_cast<size_t>(directory.begin));
  BytesReader reader(
      archive.substr(before.size(), static_cast<size_t>(directory.end - directory.begin)),
      file + ": directory");
  std::vector<CentralEntry> entries;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    entries.push_back(read_central(reader, directory.begin, file));
    read_local(entries.back(), before, file);
  }
  require(reader.left() == 0, ErrorCode::bad_format, file, ": directory: ", reader.left(),
          " bytes are left after its ", directory.entries, " entries");
  check_overlaps(entries, file);
  std::vector<ZipEntry> sorted;
  sorted.reserve(entries.size());
  for (CentralEntry& one : entries) sorted.push_back(std::move(one.entry));
  std::sort(sorted.begin(), sorted.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [](const ZipEntry& a, const ZipEntry& b) { return a.name == b.name; });
  require(twice == sorted.end(), ErrorCode::bad_format, file, ": ",
          twice == sorted.end() ? "" : printable(twice->name), ": two entries of this name");
  return sorted;
}

const ZipEntry* find_entry(const std::vector<ZipEntry>& sorted, std::string_view name) {
  const auto found = std::lower_bound(
      sorted.begin(), sorted.end(), name,
      [](const ZipEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != sorted.end() && found->name == name ? &*found : nullptr;
}

}  // namespace tril::foreign
