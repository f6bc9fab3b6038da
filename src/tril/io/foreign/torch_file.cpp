#include "tril/io/foreign/torch_file.h"

#include <zlib.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "tril/base/checksum.h"
#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/foreign/bytes_reader.h"
#include "tril/io/foreign/pickle.h"
#include "tril/io/foreign/state_dict.h"
#include "tril/io/foreign/zip_archive.h"
#include "tril/io/json.h"
#include "tril/io/mapped_file.h"

namespace tril::foreign {
namespace {

using Kind = PickleValue::Kind;
using Begins = std::map<std::string, int64_t, std::less<>>;  // of storages, by key

constexpr std::string_view kZipStart = "PK";
constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                                        15);
constexpr int64_t kLegacyProtocol = 1001;

std::vector<TensorPlace> placed(const StateDict& dict, const Begins& begins) {
  std::vector<TensorPlace> places;
  places.reserve(dict.views.size());
  for (const StorageView& view : dict.views) {
    const StoredType type = dict.storages.find(view.storage)->second.type;
    const int64_t begin = begins.find(view.storage)->second + view.offset * size_of(type);
    places.push_back({view.name, type, view.shape, begin, view.strides});
  }
  return places;
}

std::string_view contents(std::string_view bytes, const ZipEntry& entry) {
  return bytes.substr(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.bytes));
}

// The folder of the archive that holds everything, with its slash.
std::string folder_of(const std::vector<ZipEntry>& entries, const std::string& file) {
  constexpr std::string_view kPickle = "/data.pkl";
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(kPickle) ||
        entry.name.find('/') + kPickle.size() != entry.name.size())
      continue;
    require(found == nullptr, ErrorCode::bad_format, file, ": two entries data.pkl");
    found = &entry;
  }
  require(found != nullptr, ErrorCode::bad_format, file,
          ": a zip archive without data.pkl: not written by torch.save");
  return found->name.substr(0, found->name.size() - kPickle.size() + 1);
}

std::vector<TensorPlace> read_zip(std::string_view bytes, const std::string& file) {
  const std::vector<ZipEntry> entries = read_zip_directory(bytes, file);
  const std::string folder = folder_of(entries, file);
  const ZipEntry* order = find_entry(entries, folder + "byteorder");
  require(order == nullptr || contents(bytes, *order) == "little", ErrorCode::bad_format, file,
          ": byteorder: only little-endian files are read");
  const std::string where = file + ": data.pkl";
  BytesReader reader(contents(bytes, *find_entry(entries, folder + "data.pkl")), where);
  const Pickle pickle(reader, state_dict_globals());
  require(reader.left() == 0, ErrorCode::bad_format, where, ": ", reader.left(),
          " bytes after its end");
  const StateDict dict = read_state_dict(pickle, where);
  Begins begins;
  for (const auto& [key, storage] : dict.storages) {
    const ZipEntry* entry = find_entry(entries, concat(folder, "data/", key));
    require(entry != nullptr, ErrorCode::bad_format, file, ": no entry data/", printable(key),
            ", which a tensor is a view of");
    require(entry->bytes == storage.bytes(), ErrorCode::bad_format, file, ": data/", printable(key),
            ": ", entry->bytes, " bytes, ", to_string(storage.type), " [", storage.elements,
            "] needs ", storage.bytes());
    begins[key] = entry->begin;
  }
  return placed(dict, begins);
}

const PickleValue* find_in(const Pickle& pickle, const PickleValue& dict, std::string_view name) {
  for (size_t i = 0; dict.kind == Kind::dict && i < dict.items.size(); i += 2) {
    const PickleValue& key = pickle.item(dict, i);
    if (key.kind == Kind::string && key.text == name) return &pickle.item(dict, i + 1);
  }
  return nullptr;
}

// The protocol and the facts about the machine, after the magic number.
void check_legacy_start(BytesReader& reader, const std::string& file) {
  const Pickle protocol(reader, {});
  require(protocol.root().kind == Kind::integer && protocol.root().integer == kLegacyProtocol,
          ErrorCode::bad_format, file, ": protocol: expected ", kLegacyProtocol, ", got ",
          describe(protocol, protocol.root()));
  const Pickle machine(reader, {});
  const PickleValue* little = find_in(machine, machine.root(), "little_endian");
  require(little != nullptr && little->kind == Kind::boolean && little->integer == 1,
          ErrorCode::bad_format, file, ": little_endian: only little-endian files are read");
}

// The storages follow in the order of the keys, each after its number of elements.
Begins find_legacy_storages(BytesReader& reader, const Pickle& keys, const StateDict& dict,
                            const std::string& file) {
  require(keys.root().kind == Kind::list, ErrorCode::bad_format, file,
          ": keys of the storages: expected a list, got ", describe(keys, keys.root()));
  Begins begins;
  for (const uint32_t item : keys.root().items) {
    const PickleValue& key = keys[item];
    require(key.kind == Kind::string, ErrorCode::bad_format, file,
            ": keys of the storages: expected a text, got ", describe(keys, key));
    const std::string where = concat(file, ": storage ", printable(key.text));
    const auto found = dict.storages.find(key.text);
    require(found != dict.storages.end(), ErrorCode::bad_format, where,
            ": no tensor is a view of it");
    const Storage& storage = found->second;
    const auto elements = reader.number<int64_t>();
    require(elements == storage.elements, ErrorCode::bad_format, where, ": ", elements,
            " elements, the tensors expect ", storage.elements);
    require(begins.emplace(key.text, reader.position()).second, ErrorCode::bad_format, where,
            ": comes twice");
    require(storage.bytes() <= reader.left(), ErrorCode::bad_format, where,
            ": truncated: ", storage.bytes(), " bytes expected at offset ", reader.position(), ", ",
            reader.left(), " are left");
    reader.take(static_cast<uint64_t>(storage.bytes()));
  }
  for (const auto& [key, storage] : dict.storages) {
    require(begins.contains(key), ErrorCode::bad_format, file, ": storage ", printable(key),
            ": missing, though a tensor is a view of it");
  }
  return begins;
}

std::vector<TensorPlace> read_legacy(std::string_view bytes, const std::string& file) {
  BytesReader reader(bytes, file);
  reader.take(kLegacyStart.size());
  check_legacy_start(reader, file);
  const Pickle pickle(reader, state_dict_globals());
  const StateDict dict = read_state_dict(pickle, file);
  const Pickle keys(reader, {});
  const Begins begins = find_legacy_storages(reader, keys, dict, file);
  require(reader.left() == 0, ErrorCode::bad_format, file, ": ", reader.left(),
          " bytes after the last storage");
  return placed(dict, begins);
}

}  // namespace

std::vector<TensorPlace> read_torch_file(std::string_view bytes, const std::string& file) {
  if (bytes.starts_with(kLegacyStart)) return read_legacy(bytes, file);
  require(bytes.starts_with(kZipStart), ErrorCode::bad_format, file,
          ": not a file of torch.save, or a damaged one, to be made or copied again");
  return read_zip(bytes, file);
}

void verify_torch_file(const std::string& path) {
  require_regular(path);
  const InputFile file(path);
  const MappedFile mapped(file);
  if (!mapped.bytes().starts_with(kZipStart)) return;
  const auto memory = std::make_unique<char[]>(static_cast<size_t>(kChecksumBlock));
  for (const ZipEntry& entry : read_zip_directory(mapped.bytes(), path)) {
    uLong crc = ::crc32(0, nullptr, 0);
    for (int64_t done = 0; done < entry.bytes; done += kChecksumBlock) {
      const int64_t count = std::min(kChecksumBlock, entry.bytes - done);
      // Read, not accessed through the map: its bytes do not count as memory of this process.
      require(file.read_at(entry.begin + done, memory.get(), count) == count, ErrorCode::io, path,
              ": became shorter while it was read");
      crc = ::crc32(crc, reinterpret_cast<const Bytef*>(memory.get()), static_cast<uInt>(count));
    }
    require(crc == entry.crc32, ErrorCode::bad_format, path, ": ", printable(entry.name),
            ": damaged, or written without checksums: it does not match its CRC-32");
  }
}

}  // namespace tril::foreign
