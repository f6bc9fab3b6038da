#include <algorithm>
#include <memory>
#include <utility>

#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/io/safetensors.h"
#include "tril/io/safetensors_header.h"

namespace tril {
namespace {

using safetensors::Entry;
using safetensors::kLine;

constexpr auto kArgument = ErrorCode::invalid_argument;

// What a file will hold of a tensor, and where the tensor is among those given.
struct Planned {
  Entry entry;
  size_t given = 0;
};

void check_counts(size_t tensors, size_t entries, const std::string& path) {
  constexpr auto kMost = static_cast<size_t>(kSafetensorsMaxNames);
  require(tensors <= kMost && entries <= kMost, kArgument, path, ": ", tensors, " tensors and ",
          entries, " entries of metadata, at most ", kSafetensorsMaxNames, " of each are allowed");
}

Entry described(const std::string& name, StoredType type, const Shape& shape,
                const std::string& path) {
  require(name != kSafetensorsMetadata, kArgument, path, ": a tensor may not be called ",
          kSafetensorsMetadata);
  return {name, type, shape, 0, shape.size() * size_of(type)};
}

// Sorts by name, and gives each its place in the data. Returns the order of the data.
std::vector<size_t> lay_out(std::vector<Planned>& planned, const std::string& path) {
  std::sort(planned.begin(), planned.end(),
            [](const Planned& a, const Planned& b) { return a.entry.name < b.entry.name; });
  const auto twice = std::adjacent_find(
      planned.begin(), planned.end(),
      [](const Planned& a, const Planned& b) { return a.entry.name == b.entry.name; });
  require(twice == planned.end(), kArgument, path, ": ",
          twice == planned.end() ? "" : printable(twice->entry.name), ": two tensors of this name");
  std::vector<size_t> layout(planned.size());
  for (size_t i = 0; i < layout.size(); ++i) layout[i] = i;
  std::stable_sort(layout.begin(), layout.end(), [&planned](size_t a, size_t b) {
    const auto key = [](const Entry& entry) {
      return std::pair(entry.end % kLine == 0, size_of(entry.type));
    };
    return key(planned[a].entry) > key(planned[b].entry);
  });
  int64_t end = 0;
  for (const size_t i : layout) {
    Entry& entry = planned[i].entry;
    entry.begin = end;
    end += std::exchange(entry.end, end + entry.end);
  }
  return layout;
}

// `write_data(i)` writes the elements of the i-th tensor given and returns their checksum.
template <class WriteData>
std::string write_planned(AtomicFile& file, std::vector<Planned> planned,
                          const SafetensorsMetadata& metadata, const WriteData& write_data) {
  const std::vector<size_t> layout = lay_out(planned, file.path());
  std::vector<Entry> entries;
  entries.reserve(planned.size());
  for (const Planned& one : planned) entries.push_back(one.entry);
  safetensors::HeaderText header(entries, metadata);
  require(std::ssize(header.bytes()) <= kSafetensorsMaxHeader, kArgument, file.path(),
          ": a header of ", header.bytes().size(), " bytes, at most ", kSafetensorsMaxHeader,
          " are allowed");
  file.write(header.bytes());
  std::vector<Checksum> checksums(planned.size());
  for (const size_t i : layout) checksums[i] = write_data(planned[i].given);
  // The checksums are known only now.
  std::string seal = header.fill(checksums);
  file.rewrite(0, header.bytes());
  return seal;
}

Checksum write_tensor(AtomicFile& file, const ConstTensor& tensor) {
  const int64_t bytes = tensor.size() * size_of(tensor.dtype());
  std::string copied;
  const char* from = nullptr;
  if (bytes > 0 && tensor.device() != Device::cpu) {
    copied.resize(static_cast<size_t>(bytes));
    copy(Device::cpu, copied.data(), tensor.device(), tensor.raw(), bytes);
    from = copied.data();
  } else if (bytes > 0) {
    from = static_cast<const char*>(tensor.raw());
  }
  const std::string_view data(from, static_cast<size_t>(bytes));
  file.write(data);
  return checksum_of(data);
}

// `memory` has kChecksumBlock bytes.
Checksum write_blocks(AtomicFile& file, const StoredTensor& tensor, char* memory) {
  const int64_t bytes = tensor.shape.size() * size_of(tensor.type);
  ChecksumOfBlocks joined;
  for (int64_t at = 0; at < bytes; at += kChecksumBlock) {
    const auto count = static_cast<size_t>(std::min(kChecksumBlock, bytes - at));
    tensor.read(at, std::span(memory, count));
    file.write({memory, count});
    joined.add(block_checksum({memory, count}));
  }
  return joined.value(bytes);
}

}  // namespace

std::string write_safetensors(AtomicFile& file, std::span<const NamedConstTensor> tensors,
                              const SafetensorsMetadata& metadata) {
  check_counts(tensors.size(), metadata.size(), file.path());
  std::vector<Planned> planned;
  planned.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    require(tensor.defined(), kArgument, file.path(), ": ", printable(name),
            ": the tensor is undefined");
    tensor.raw();  // raises when it is stale, before anything is written
    planned.push_back({described(name, stored_type_of(tensor.dtype()), tensor.shape(), file.path()),
                       planned.size()});
  }
  return write_planned(file, std::move(planned), metadata,
                       [&](size_t i) { return write_tensor(file, tensors[i].tensor); });
}

std::string write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata) {
  std::vector<NamedConstTensor> read;
  read.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) read.push_back({name, tensor});
  return write_safetensors(file, std::span<const NamedConstTensor>(read), metadata);
}

std::string write_safetensors(AtomicFile& file, std::span<const StoredTensor> tensors,
                              const SafetensorsMetadata& metadata) {
  check_counts(tensors.size(), metadata.size(), file.path());
  std::vector<Planned> planned;
  planned.reserve(tensors.size());
  for (const StoredTensor& one : tensors) {
    planned.push_back({described(one.name, one.type, one.shape, file.path()), planned.size()});
  }
  const auto memory = std::make_unique<char[]>(static_cast<size_t>(kChecksumBlock));
  return write_planned(file, std::move(planned), metadata,
                       [&](size_t i) { return write_blocks(file, tensors[i], memory.get()); });
}

std::string save_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const SafetensorsMetadata& metadata) {
  AtomicFile file(path);
  std::string seal = write_safetensors(file, tensors, metadata);
  file.commit();
  return seal;
}

}  // namespace tril
