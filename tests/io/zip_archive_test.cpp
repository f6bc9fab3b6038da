// Zip archives that lie: each is refused with one error that names the entry.
#include "tril/io/foreign/zip_archive.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io_support.h"
#include "torch_support.h"

namespace tril::zip_archive_test {
namespace {

using foreign::read_zip_directory;
using foreign::ZipEntry;
using testing::error_of;
using testing::zip_of;
using testing::ZipEnd;
using testing::ZipPart;

std::string zip_error(const std::string& bytes) {
  const std::string error = error_of([&] { read_zip_directory(bytes, "m.bin"); });
  EXPECT_TRUE(testing::is_printable(error)) << error;
  const std::string start = "bad format: m.bin: ";
  EXPECT_EQ(error.find(start), 0u) << error;
  return error.substr(std::min(start.size(), error.size()));
}

std::vector<ZipPart> two() {
  return {{.name = "m/a", .data = "first"}, {.name = "m/b", .data = "second!"}};
}

TEST(ZipArchive, FindsEntriesInEveryForm) {
  for (const bool descriptor : {false, true}) {
    for (const bool zip64 : {false, true}) {
      for (const ZipEnd& end :
           {ZipEnd{}, ZipEnd{.zip64 = true}, ZipEnd{.zip64 = true, .only64 = true},
            ZipEnd{.comment = "a comment"}, ZipEnd{.comment = std::string(65535, 'x')}}) {
        std::vector<ZipPart> parts = two();
        parts.push_back({.name = "m/empty", .data = ""});
        for (ZipPart& part : parts) {
          part.descriptor = descriptor;
          part.zip64 = zip64;
        }
        const std::string bytes = zip_of(parts, end);
        const std::vector<ZipEntry> entries = read_zip_directory(bytes, "m.bin");
        ASSERT_EQ(entries.size(), 3u);
        for (size_t i = 0; i < 3; ++i) {
          EXPECT_EQ(entries[i].name, parts[i].name);
          EXPECT_EQ(bytes.substr(static_cast<size_t>(entries[i].begin),
                                 static_cast<size_t>(entries[i].bytes)),
                    parts[i].data);
          EXPECT_EQ(entries[i].crc32, testing::crc_of(parts[i].data));
        }
        EXPECT_EQ(find_entry(entries, "m/b"), &entries[1]);
        EXPECT_EQ(find_entry(entries, "m/c"), nullptr);
      }
    }
  }
}

TEST(ZipAttacks, TheEnd) {
  EXPECT_EQ(zip_error(""),
            "not a zip archive, or one that was cut short: the record that ends it "
            "is missing");
  const std::string whole = zip_of(two());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(zip_error(whole.substr(0, size)).empty());
  }
  EXPECT_EQ(zip_error(whole + "x").find("not a zip archive"), 0u);
  EXPECT_EQ(zip_error("x" + whole), "a directory of 98 bytes from offset 110, it ends at 209");
}

TEST(ZipAttacks, TheDirectory) {
  const auto with = [](const ZipEnd& end) { return zip_error(zip_of(two(), end)); };
  EXPECT_EQ(with({.entries_change = 1}).find("directory: truncated: "), 0u);
  EXPECT_EQ(with({.entries_change = -1}), "directory: 49 bytes are left after its 1 entries");
  EXPECT_EQ(with({.bytes_change = 1}), "a directory of 99 bytes from offset 110, it ends at 208");
  EXPECT_EQ(with({.begin_change = -1}), "a directory of 98 bytes from offset 109, it ends at 208");
  EXPECT_EQ(with({.begin_change = 1 << 30}),
            "a directory of 98 bytes from offset 1073741934, it ends at 208");
  EXPECT_EQ(with({.only64 = true}),
            "a directory of 4294967295 bytes from offset 4294967295, it ends at 208");
}

TEST(ZipAttacks, Zip64Lies) {
  const auto with = [](ZipEnd end) {
    end.zip64 = true;
    return zip_error(zip_of(two(), end));
  };
  EXPECT_EQ(with({.entries_change = 1}),
            "number of entries: 3 at the end of the archive, 2 in its zip64 record");
  EXPECT_EQ(with({.bytes_change = 1}),
            "size of the directory: 99 at the end of the archive, 98 in its zip64 record");
  EXPECT_EQ(with({.begin_change = 1}),
            "offset of the directory: 111 at the end of the archive, 110 in its zip64 record");
  EXPECT_EQ(with({.only64 = true, .entries64_change = int64_t{1} << 40}),
            "1099511627778 entries, at most 200000 are allowed");
  EXPECT_EQ(with({.only64 = true, .entries64_change = 1}).find("directory: truncated: "), 0u);
  EXPECT_EQ(with({.bytes64_change = 1}),
            "zip64: a directory of 99 bytes from offset 110, it ends at 208");
  EXPECT_EQ(with({.bytes64_change = 1, .begin64_change = -1}),
            "size of the directory: 98 at the end of the archive, 99 in its zip64 record");
  EXPECT_EQ(with({.begin64_change = INT64_MIN}),
            "zip64: a directory of 98 bytes from offset 9223372036854775918, it ends at 208");
  EXPECT_EQ(with({.locator_change = 4}),
            "zip64: no record at offset 212, where the locator expects it");
  EXPECT_EQ(with({.locator_change = -300}),
            "zip64: no record at offset 18446744073709551524, where the locator expects it");
  std::vector<ZipPart> parts = two();
  parts[1].zip64 = true;
  parts[1].central_bytes = parts[1].packed_bytes = INT64_MAX;
  EXPECT_EQ(zip_error(zip_of(parts)),
            "m/b: 9223372036854775807 bytes from offset 54 on do not fit before the directory at "
            "118");
  parts[1].central_bytes = parts[1].packed_bytes = -1;
  EXPECT_EQ(zip_error(zip_of(parts)),
            "m/b: 18446744073709551615 bytes from offset 54 on do not fit before the directory at "
            "118");
  parts[1].central_bytes = parts[1].packed_bytes = 7;
  parts[1].offset_change = -100;
  EXPECT_EQ(zip_error(zip_of(parts)),
            "m/b: 7 bytes from offset 18446744073709551570 on do not fit before the directory at "
            "118");
  // The 32-bit number refers to a field that is not there.
  std::string missing = zip_of(two());
  missing.replace(110 + 24, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(zip_error(missing),
            "m/a: zip64: a size or offset has 64 bits, but the field that holds it is missing");
}

TEST(ZipAttacks, Entries) {
  const auto with = [](const auto& change) {
    std::vector<ZipPart> parts = two();
    change(parts[1]);
    return zip_error(zip_of(parts));
  };
  EXPECT_EQ(with([](ZipPart& part) { part.method = 8; }),
            "m/b: compressed (method 8), only stored entries are read");
  EXPECT_EQ(with([](ZipPart& part) { part.flags = 1; }), "m/b: encrypted");
  EXPECT_EQ(with([](ZipPart& part) { part.packed_bytes = 6; }),
            "m/b: sizes of 6 and 7 bytes for an entry that is not compressed");
  EXPECT_EQ(with([](ZipPart& part) { part.local_name = "m/c"; }),
            "m/b: another name in its local header");
  EXPECT_EQ(with([](ZipPart& part) { part.central_bytes = part.packed_bytes = 5; }),
            "m/b: no descriptor after its data");
  EXPECT_EQ(with([](ZipPart& part) { part.local_bytes = 6; }),
            "m/b: sizes of the directory and of the descriptor differ");
  EXPECT_EQ(with([](ZipPart& part) { part.crc_change = 1; }),
            "m/b: checksums of the directory and of the descriptor differ");
  EXPECT_EQ(with([](ZipPart& part) {
              part.descriptor = false;
              part.local_bytes = 6;
            }),
            "m/b: checksum or size of the directory and of the local header differ");
  EXPECT_EQ(with([](ZipPart& part) {
              part.descriptor = false;
              part.crc_change = 4;
            }),
            "m/b: checksum or size of the directory and of the local header differ");
  EXPECT_EQ(with([](ZipPart& part) { part.offset_change = 1; }),
            "m/b: no local header at offset 55");
  EXPECT_EQ(with([](ZipPart& part) { part.central_bytes = part.packed_bytes = 1000; }),
            "m/b: 1000 bytes from offset 54 on do not fit before the directory at 110");
}

TEST(ZipAttacks, Names) {
  for (const std::string name :
       {"../evil", "/etc/passwd", "m/../../evil", "..", "m/..", "m\\x", ""}) {
    EXPECT_TRUE(
        zip_error(zip_of({{.name = name, .data = "x"}})).ends_with(": not a name of an entry"))
        << name;
  }
  EXPECT_EQ(zip_error(zip_of({{.name = std::string("m/a\0b", 5), .data = "x"}})),
            "m/a\\u0000b: not a name of an entry");
  EXPECT_EQ(zip_error(zip_of({{.name = "m/a", .data = "x"}, {.name = "m/a", .data = "y"}})),
            "m/a: two entries of this name");
  EXPECT_EQ(read_zip_directory(zip_of({{.name = "m/..a/b..", .data = "x"}}), "m.bin").size(), 1u);
}

// Two entries with the same bytes, and one inside another's data.
TEST(ZipAttacks, OverlappingEntries) {
  std::vector<ZipPart> parts = two();
  parts[1].name = parts[1].local_name = "m/b";
  // The directory's second entry leads to the first's local header, of which the name is wrong.
  parts[1].offset_change = -54;
  EXPECT_EQ(zip_error(zip_of(parts)), "m/b: another name in its local header");
  // A whole entry in the data of another.
  const std::string inner = testing::zip_local({.name = "m/b", .data = "inner"});
  const std::vector<ZipPart> outer = {{.name = "m/a", .data = inner}};
  std::string bytes = testing::zip_local(outer[0]);
  const int64_t begin = std::ssize(bytes);
  const std::string directory = testing::zip_central(outer[0], 0) +
                                testing::zip_central({.name = "m/b", .data = "inner"}, 30 + 3);
  using testing::little;
  bytes += concat(directory, "PK\5\6", little(uint32_t{0}), little(uint16_t{2}),
                  little(uint16_t{2}), little(static_cast<uint32_t>(directory.size())),
                  little(static_cast<uint32_t>(begin)), little(uint16_t{0}));
  EXPECT_EQ(zip_error(bytes), "m/b: overlaps m/a");
}

}  // namespace
}  // namespace tril::zip_archive_test
