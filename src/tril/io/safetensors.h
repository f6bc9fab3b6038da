// Tensors in files: the safetensors format, as PyTorch and others write it.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...},
//             and perhaps "__metadata__": {"key": "text", ...}; padded with blanks
//   data      every byte belongs to exactly one tensor; offsets count from here
//
// F32, F64, BF16, I8 and I32 are read and written, the types of DType; shapes have up to four
// axes. Files are never trusted: everything is checked before any memory is taken for tensors, so
// a file cannot ask for more than it holds. Each fault is one Error (`bad_format`, or `io` where
// the system refuses) that names the file, the tensor and the field.
// What is written here is sealed: the metadata holds a checksum of every tensor and one of the
// header (io/safetensors_header.h), so that every byte is under one, and what is read back is
// compared with them. Other readers see two entries of metadata more. Files of others load
// unsealed.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/checksum.h"
#include "tril/tensor/tensor.h"

namespace tril {

class AtomicFile;  // io/atomic_file.h

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

using SafetensorsMetadata = std::map<std::string, std::string>;
constexpr std::string_view kSafetensorsMetadata = "__metadata__";  // no tensor's name

// What a file says beside its tensors.
struct SafetensorsInfo {
  SafetensorsMetadata metadata{};  // without the seal's own entries
  // The checksum of the header, and so, by the checksums in it, of everything in the file: two
  // files with one seal hold the same tensors and metadata. Empty: the file is not sealed.
  std::string seal{};
};

// What a file may hold at most. save_safetensors() raises `invalid_argument` past it.
constexpr int64_t kSafetensorsMaxHeader = 100'000'000;  // bytes, the limit other readers have
constexpr int64_t kSafetensorsMaxNames = 100'000;       // tensors, and entries of the metadata

// All tensors of a file, sorted by name, in memory of `arena`. What else it says goes to `info`
// where one is given. Large files are read by all cores.
std::vector<NamedTensor> load_safetensors(const std::string& path, Arena& arena,
                                          SafetensorsInfo* info = nullptr);
// The same from memory; `file` is for errors.
std::vector<NamedTensor> parse_safetensors(std::string_view bytes, const std::string& file,
                                           Arena& arena, SafetensorsInfo* info = nullptr);

// Whether what is mapped is first read through and compared with its checksums. Whoever has done
// that before, and knows that nobody has written to the file since, may trust it.
enum class MapVerify { yes, trust };

// The same without copying: the file is mapped, and `arena` keeps the mapping. The tensors may not
// be written. The file may be replaced meanwhile, but must not be cut shorter.
std::vector<NamedTensor> map_safetensors(const std::string& path, Arena& arena,
                                         SafetensorsInfo* info = nullptr,
                                         MapVerify verify = MapVerify::yes);

// What a file says beside its tensors, from the header alone, whose seal is compared.
SafetensorsInfo read_safetensors_info(const std::string& path);
// Reads a file through, compares every checksum, keeps nothing: for a file of any size. A file that
// is not sealed has nothing to compare.
SafetensorsInfo verify_safetensors(const std::string& path);

// The checksum of any file's bytes, read by pieces.
Checksum checksum_of_file(const std::string& path);

// Copies the elements of the tensor with the name of `to` into it. Raises `bad_format` when there
// is none among `from`, which is sorted by name, or it has another shape or type.
void copy_named(std::span<const NamedTensor> from, const NamedTensor& to, const std::string& file);

// Replaces `path` whole or not at all. The same tensors and metadata give the same bytes in
// whatever order they come: names sorted, data that fills whole lines of 64 bytes first, then by
// element size (largest first) and by name, so that all of it is aligned when the file is mapped.
// Returns the seal.
std::string save_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const SafetensorsMetadata& metadata = {});
// The same into a file that someone else commits.
std::string write_safetensors(AtomicFile& file, std::span<const NamedConstTensor> tensors,
                              const SafetensorsMetadata& metadata = {});
std::string write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata = {});

}  // namespace tril
