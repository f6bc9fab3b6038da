// Tensors in files: the safetensors format, as PyTorch and others write it.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...},
//             and perhaps "__metadata__": {"key": "text", ...}; padded with blanks
//   data      every byte belongs to exactly one tensor; offsets count from here
//
// Read here are F32, F64, BF16, I8 and I32, the types of DType; shapes have up to four axes. Files
// with other types are read by io/foreign/foreign_tensors.h, and written here as StoredTensors.
// Files are never trusted: everything is checked before any memory is allocated for tensors, so a
// file cannot make the program allocate more than it holds. Each fault is one Error (`bad_format`,
// or `io` where the system refuses) that names the file, the tensor and the field.
// Files written here are sealed: the metadata holds a checksum of every tensor and one of the
// header (io/safetensors_header.h), so that every byte is covered, and reading compares them. Other
// readers see two more entries of metadata. Files of other programs load unsealed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/checksum.h"
#include "tril/io/stored_type.h"
#include "tril/tensor/arena.h"
#include "tril/tensor/tensor.h"

namespace tril {

class AtomicFile;  // io/atomic_file.h

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

using SafetensorsMetadata = std::map<std::string, std::string>;
constexpr std::string_view kSafetensorsMetadata = "__metadata__";  // not a valid name of a tensor

// What a file contains besides its tensors.
struct SafetensorsInfo {
  SafetensorsMetadata metadata{};  // without the seal's own entries
  // The checksum of the header, which through the checksums in it covers the whole file: two files
  // with the same seal hold the same tensors and metadata. Empty: the file is not sealed.
  std::string seal{};
};

// Limits of a file. save_safetensors() raises `invalid_argument` past them.
constexpr int64_t kSafetensorsMaxHeader = 100'000'000;  // bytes, the limit of other readers too
constexpr int64_t kSafetensorsMaxNames = 100'000;       // tensors, and entries of the metadata

// All tensors of a file, sorted by name, in memory of `arena`. Metadata and seal go to `info` where
// given. Large files are read on all cores.
std::vector<NamedTensor> load_safetensors(const std::string& path, Arena& arena,
                                          SafetensorsInfo* info = nullptr);
// The same from memory; `file` is for errors.
std::vector<NamedTensor> parse_safetensors(std::string_view bytes, const std::string& file,
                                           Arena& arena, SafetensorsInfo* info = nullptr);

// Whether a file is read and compared with its checksums before it is mapped. A caller that has
// done so before, and knows that nobody has written to the file since, may trust it.
enum class MapVerify { yes, trust };

// The same without copying: the file is mapped, and `arena` keeps the mapping. The tensors must not
// be written. The file may be replaced meanwhile, but must not be cut short.
std::vector<NamedTensor> map_safetensors(const std::string& path, Arena& arena,
                                         SafetensorsInfo* info = nullptr,
                                         MapVerify verify = MapVerify::yes);

// A file whose tensors are read one by one, so that what is made of them is all that is held.
// All functions are const and may be called by any number of threads.
class SafetensorsFile {
 public:
  // Reads the header.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();

  struct Description {
    std::string name;
    DType type = DType::f32;
    Shape shape{};
  };
  const SafetensorsInfo& info() const;
  // Sorted by name.
  const std::vector<Description>& tensors() const;
  // Null where there is none of that name.
  const Description* find(std::string_view name) const;
  // Into memory of `arena`, compared with its checksum; on all cores where that pays.
  Tensor read(std::string_view name, Arena& arena) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

// Metadata and seal from the header alone, whose checksum is verified.
SafetensorsInfo read_safetensors_info(const std::string& path);
// Which elements a file may have: those of DType, or all of StoredType.
enum class SafetensorsTypes { ours, all };
// Reads a whole file of any size, verifies every checksum, and keeps nothing. For a file that is
// not sealed there is nothing to verify.
SafetensorsInfo verify_safetensors(const std::string& path,
                                   SafetensorsTypes types = SafetensorsTypes::ours);

// The checksum of any file's bytes, read piece by piece.
Checksum checksum_of_file(const std::string& path);

// Copies the tensor of the same name among `from`, which is sorted by name, into `to`. Raises
// `bad_format` when there is none, or it has another shape or type.
void copy_named(std::span<const NamedTensor> from, const NamedTensor& to, const std::string& file);

// Replaces `path` whole or not at all. The same tensors and metadata give the same bytes whatever
// their order: names are sorted; data that fills whole lines of 64 bytes comes first, then larger
// elements before smaller, then by name, so that all of it is aligned when the file is mapped.
// Returns the seal.
std::string save_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const SafetensorsMetadata& metadata = {});
// The same into a file that the caller commits.
std::string write_safetensors(AtomicFile& file, std::span<const NamedConstTensor> tensors,
                              const SafetensorsMetadata& metadata = {});
std::string write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata = {});

// A tensor of any stored type that is not held in memory: its bytes are asked for as they are
// written, in order.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape{};
  // Fills `memory` with the bytes of the dense, row-major tensor from byte `begin` on.
  std::function<void(int64_t begin, std::span<char> memory)> read{};
};
// The same, with memory for one block of 1 MiB.
std::string write_safetensors(AtomicFile& file, std::span<const StoredTensor> tensors,
                              const SafetensorsMetadata& metadata = {});

}  // namespace tril
