#include "tril/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "tril/base/error.h"
#include "tril/base/parallel.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/io/mapped_file.h"
#include "tril/io/safetensors_header.h"

namespace tril {
namespace {

using safetensors::Entry;
using safetensors::Header;
using safetensors::kLengthBytes;

// The header of an open file, and the offset of its data.
struct OpenHeader {
  Header header;
  int64_t data_begin = 0;
};

InputFile open_regular(const std::string& path) {
  require_regular(path);
  return InputFile(path);
}

OpenHeader open_header(const InputFile& file, SafetensorsTypes types = SafetensorsTypes::ours) {
  const int64_t file_bytes = file.size();
  std::string text(kLengthBytes, '\0');
  text.resize(static_cast<size_t>(file.read_at(0, text.data(), kLengthBytes)));
  text.resize(static_cast<size_t>(safetensors::read_length(text, file_bytes, file.path())));
  // The size was checked above: what is missing now was cut off since.
  require(file.read_at(kLengthBytes, text.data(), std::ssize(text)) == std::ssize(text),
          ErrorCode::io, file.path(), ": became shorter while it was read");
  const int64_t begin = kLengthBytes + std::ssize(text);
  return {safetensors::read_header(text, file_bytes - begin, file.path(), types), begin};
}

// A block of a tensor's data: what one thread reads and hashes at a time.
struct Block {
  size_t entry = 0;
  int64_t begin = 0;  // offset in the file's data
  int64_t bytes = 0;
  Checksum checksum{};
  std::exception_ptr error{};
};

std::vector<Block> blocks_of(std::span<const Entry> entries) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < entries.size(); ++i) {
    for (int64_t at = entries[i].begin; at < entries[i].end; at += kChecksumBlock) {
      blocks.push_back(
          {.entry = i, .begin = at, .bytes = std::min(kChecksumBlock, entries[i].end - at)});
    }
  }
  return blocks;
}

// Calls fetch(block, worker), which returns the block's bytes, for every block, on all cores where
// that pays, and compares checksums.
template <class Fetch>
void go_through(std::span<const Entry> entries, const std::string& file, const Parallel& parallel,
                const Fetch& fetch) {
  std::vector<Block> blocks = blocks_of(entries);
  parallel(std::ssize(blocks), [&](int64_t task, int worker) {
    Block& block = blocks[static_cast<size_t>(task)];
    try {
      const std::string_view bytes = fetch(block, worker);
      if (!entries[block.entry].checksum.empty()) block.checksum = block_checksum(bytes);
    } catch (...) {
      block.error = std::current_exception();
    }
  });
  std::vector<ChecksumOfBlocks> joined(entries.size());
  for (const Block& block : blocks) {
    if (block.error) std::rethrow_exception(block.error);
    joined[block.entry].add(block.checksum);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (entry.checksum.empty()) continue;
    if (to_string(joined[i].value(entry.end - entry.begin)) != entry.checksum) {
      safetensors::fail_damaged(file, entry.name);
    }
  }
}

// For little data, threads cost more than they save.
Parallel readers_of(const Header& header) {
  constexpr int64_t kWorthThreads = 4 * kChecksumBlock;
  const int64_t bytes = header.entries.empty() ? 0 : header.entries.back().end;
  return Parallel(bytes < kWorthThreads ? 1 : 0);
}

void read_block(const InputFile& file, int64_t data_begin, const Block& block, char* memory) {
  require(file.read_at(data_begin + block.begin, memory, block.bytes) == block.bytes, ErrorCode::io,
          file.path(), ": became shorter while it was read");
}

// Reads the data only to verify it: one buffer per worker.
void verify_data(const InputFile& file, const OpenHeader& open) {
  const Parallel parallel = readers_of(open.header);
  std::vector<std::unique_ptr<char[]>> memory(static_cast<size_t>(parallel.threads()));
  for (auto& each : memory) each = std::make_unique<char[]>(static_cast<size_t>(kChecksumBlock));
  go_through(open.header.entries, file.path(), parallel, [&](const Block& block, int worker) {
    char* bytes = memory[static_cast<size_t>(worker)].get();
    read_block(file, open.data_begin, block, bytes);
    return std::string_view(bytes, static_cast<size_t>(block.bytes));
  });
}

// Only types of ours are read here.
DType type_of(const Entry& entry) { return dtype_of(entry.type).value(); }

// Tensors for the entries, in their order.
std::vector<NamedTensor> make_tensors(std::span<const Entry> entries, Arena& arena) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(entries.size());
  for (const Entry& entry : entries) {
    tensors.push_back({entry.name, Tensor(arena, entry.shape, type_of(entry))});
  }
  return tensors;
}

std::vector<NamedTensor> finished(std::vector<NamedTensor> tensors, Header&& header,
                                  SafetensorsInfo* info) {
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  if (info != nullptr) *info = std::move(header.info);
  return tensors;
}

// The place of a block in its tensor.
char* place_of(const Block& block, std::span<const Entry> entries,
               std::span<const NamedTensor> tensors) {
  return static_cast<char*>(tensors[block.entry].tensor.raw()) +
         (block.begin - entries[block.entry].begin);
}

}  // namespace

std::vector<NamedTensor> load_safetensors(const std::string& path, Arena& arena,
                                          SafetensorsInfo* info) {
  const InputFile file = open_regular(path);
  OpenHeader open = open_header(file);
  const std::vector<Entry>& entries = open.header.entries;
  std::vector<NamedTensor> tensors = make_tensors(entries, arena);
  go_through(entries, path, readers_of(open.header), [&](const Block& block, int) {
    char* memory = place_of(block, entries, tensors);
    read_block(file, open.data_begin, block, memory);
    return std::string_view(memory, static_cast<size_t>(block.bytes));
  });
  return finished(std::move(tensors), std::move(open.header), info);
}

struct SafetensorsFile::State {
  explicit State(const std::string& path)
      : file(open_regular(path)), open(open_header(file)), parallel(readers_of(open.header)) {
    std::sort(open.header.entries.begin(), open.header.entries.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    for (const Entry& entry : open.header.entries) {
      descriptions.push_back({entry.name, type_of(entry), entry.shape});
    }
  }

  InputFile file;
  OpenHeader open;  // its entries sorted by name
  Parallel parallel;
  std::vector<Description> descriptions{};
};

SafetensorsFile::SafetensorsFile(const std::string& path)
    : state_(std::make_unique<const State>(path)) {}
SafetensorsFile::~SafetensorsFile() = default;

const SafetensorsInfo& SafetensorsFile::info() const { return state_->open.header.info; }

const std::vector<SafetensorsFile::Description>& SafetensorsFile::tensors() const {
  return state_->descriptions;
}

const SafetensorsFile::Description* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors().begin(), tensors().end(), name,
      [](const Description& one, std::string_view wanted) { return one.name < wanted; });
  return found != tensors().end() && found->name == name ? &*found : nullptr;
}

Tensor SafetensorsFile::read(std::string_view name, Arena& arena) const {
  const Description* found = find(name);
  const std::string& path = state_->file.path();
  require(found != nullptr, ErrorCode::bad_format, path, ": tensor '", printable(name),
          "' is missing");
  const auto index = static_cast<size_t>(found - tensors().data());
  const std::span<const Entry> entry(&state_->open.header.entries[index], 1);
  const std::vector<NamedTensor> tensors = make_tensors(entry, arena);
  go_through(entry, path, state_->parallel, [&](const Block& block, int) {
    char* memory = place_of(block, entry, tensors);
    read_block(state_->file, state_->open.data_begin, block, memory);
    return std::string_view(memory, static_cast<size_t>(block.bytes));
  });
  return tensors.front().tensor;
}

std::vector<NamedTensor> map_safetensors(const std::string& path, Arena& arena,
                                         SafetensorsInfo* info, MapVerify verify) {
  const InputFile opened = open_regular(path);
  const auto file = std::make_shared<const MappedFile>(opened);
  const std::string_view bytes = file->bytes();
  // Read, not accessed through the map: so a file that is cut short meanwhile is an error, and the
  // bytes do not count as memory of this process.
  OpenHeader open = open_header(opened);
  const std::vector<Entry>& entries = open.header.entries;
  const int64_t end = open.data_begin + (entries.empty() ? 0 : entries.back().end);
  require(end == std::ssize(bytes), ErrorCode::io, path, ": changed while it was read");
  if (verify == MapVerify::yes && !open.header.info.seal.empty()) verify_data(opened, open);
  std::vector<NamedTensor> tensors;
  for (const Entry& entry : entries) {
    const char* at = bytes.data() + open.data_begin + entry.begin;
    require(reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(size_of(entry.type)) == 0,
            ErrorCode::bad_format, safetensors::where(path, entry.name),
            ": not aligned, so that it cannot be mapped");
    tensors.push_back({entry.name, Tensor::view(arena, at, entry.shape, type_of(entry))});
  }
  arena.keep(file);
  return finished(std::move(tensors), std::move(open.header), info);
}

std::vector<NamedTensor> parse_safetensors(std::string_view bytes, const std::string& file,
                                           Arena& arena, SafetensorsInfo* info) {
  const int64_t length =
      safetensors::read_length(bytes.substr(0, kLengthBytes), std::ssize(bytes), file);
  bytes.remove_prefix(kLengthBytes);
  const std::string_view data = bytes.substr(static_cast<size_t>(length));
  const std::string_view text = bytes.substr(0, static_cast<size_t>(length));
  Header header = safetensors::read_header(text, std::ssize(data), file);
  const std::vector<Entry>& entries = header.entries;
  std::vector<NamedTensor> tensors = make_tensors(entries, arena);
  go_through(entries, file, Parallel(1), [&](const Block& block, int) {
    const std::string_view from =
        data.substr(static_cast<size_t>(block.begin), static_cast<size_t>(block.bytes));
    std::memcpy(place_of(block, entries, tensors), from.data(), from.size());
    return from;
  });
  return finished(std::move(tensors), std::move(header), info);
}

SafetensorsInfo read_safetensors_info(const std::string& path) {
  return open_header(open_regular(path)).header.info;
}

SafetensorsInfo verify_safetensors(const std::string& path, SafetensorsTypes types) {
  const InputFile file = open_regular(path);
  OpenHeader open = open_header(file, types);
  verify_data(file, open);
  return std::move(open.header.info);
}

Checksum checksum_of_file(const std::string& path) {
  const InputFile file = open_regular(path);
  const auto memory = std::make_unique<char[]>(static_cast<size_t>(kChecksumBlock));
  ChecksumOfBlocks joined;
  int64_t done = 0;
  for (int64_t got = kChecksumBlock; got == kChecksumBlock; done += got) {
    got = file.read_at(done, memory.get(), kChecksumBlock);
    if (got > 0) joined.add(block_checksum({memory.get(), static_cast<size_t>(got)}));
  }
  return joined.value(done);
}

void copy_named(std::span<const NamedTensor> from, const NamedTensor& to, const std::string& file) {
  const auto found =
      std::lower_bound(from.begin(), from.end(), to.name,
                       [](const NamedTensor& one, const std::string& n) { return one.name < n; });
  require(found != from.end() && found->name == to.name, ErrorCode::bad_format, file,
          ": no tensor ", to.name);
  require(found->tensor.shape() == to.tensor.shape() && found->tensor.dtype() == to.tensor.dtype(),
          ErrorCode::bad_format, file, ": tensor ", to.name, " is ", found->tensor.dtype(), " ",
          found->tensor.shape(), ", expected ", to.tensor.dtype(), " ", to.tensor.shape());
  if (to.tensor.size() == 0) return;
  copy_into(found->tensor, to.tensor);
}

}  // namespace tril
