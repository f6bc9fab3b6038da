// A zip archive of stored (not compressed) entries, as torch.save writes it: where each entry's
// bytes lie. Internal to io/.
//
// Nothing is unpacked. The central directory is checked against the archive's end and against every
// local header: names, sizes, checksums; entries may not overlap, be compressed or encrypted, come
// twice, or have a name that leads out of the archive's folder. Zip64 is read. Every fault is one
// Error (`bad_format`) that names the file and the entry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril::foreign {

struct ZipEntry {
  std::string name;
  int64_t begin = 0;  // offset of its data in the file
  int64_t bytes = 0;
  uint32_t crc32 = 0;  // of its data, as the directory has it
};

// Sorted by name. `file` is for errors.
std::vector<ZipEntry> read_zip_directory(std::string_view archive, const std::string& file);

// The entry of that name; null where there is none.
const ZipEntry* find_entry(const std::vector<ZipEntry>& sorted, std::string_view name);

}  // namespace tril::foreign
