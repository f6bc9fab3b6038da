// ForeignTensors: the weights in a folder that another program wrote, in whichever of the forms of
// Hugging Face's transformers they are there; looked for in this order:
//   model.safetensors
//   model.safetensors.index.json    and the files that it lists
//   pytorch_model.bin               what torch.save wrote: a zip archive, or its form before 1.6
//   pytorch_model.bin.index.json    and the files that it lists
//
// Opening reads and checks the descriptions of all tensors; their elements stay in the files, which
// are mapped, until they are asked for, and are kept nowhere else. Files are never trusted: every
// fault is one Error (`bad_format`, or `io` where the system refuses) that names the file and the
// tensor or field. Nothing in a file is ever executed.
// The files may be replaced meanwhile but must not be cut short (io/mapped_file.h). All functions
// are const and may be called by any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/io/safetensors.h"
#include "tril/io/stored_type.h"
#include "tril/tensor/shape.h"

namespace tril {

class MappedFile;
namespace foreign {
struct TensorPlace;
}

// One tensor: a description, and access to its elements. A copy is a handle to the same tensor, and
// keeps its file mapped.
class ForeignTensor {
 public:
  const std::string& name() const;
  StoredType type() const;
  const Shape& shape() const;
  int64_t size() const { return shape().size(); }
  // The path of the file that holds it.
  const std::string& file() const;

  // Elements from the first-th on, in row-major order, as fp32 (rounded as read_elements() says).
  // Raises `invalid_argument` past the end.
  void read(std::span<float> values, int64_t first = 0) const;
  // The bytes of the same elements as they are stored: dense and row-major, whatever the file's
  // strides are. `first` is in bytes; both it and the memory's size are multiples of an element's.
  void read_bytes(std::span<char> memory, int64_t first = 0) const;
  // To be written to another file under this name, byte for byte.
  StoredTensor to_store(std::string name) const;

  // Two tensors of a .bin file are the same where they view the same elements of one storage: how
  // tied weights look there.
  bool same_elements(const ForeignTensor& other) const;

 private:
  friend class ForeignTensors;
  struct File;
  ForeignTensor(std::shared_ptr<const File> file, size_t place)
      : file_(std::move(file)), place_(place) {}
  const foreign::TensorPlace& place() const;
  void check_range(int64_t first, int64_t count) const;

  std::shared_ptr<const File> file_;
  size_t place_;
};

class ForeignTensors {
 public:
  explicit ForeignTensors(const std::string& folder);
  // Whether a folder has one of the files that are looked for.
  static bool are_in(const std::string& folder);

  const std::string& folder() const { return folder_; }
  // Sorted by name.
  const std::vector<ForeignTensor>& all() const { return tensors_; }
  // Null where there is none of that name.
  const ForeignTensor* find(std::string_view name) const;
  // Raises `bad_format`, naming the folder.
  const ForeignTensor& get(std::string_view name) const;

  // The names of the files in the folder that these tensors come from, the index first.
  const std::vector<std::string>& files() const { return files_; }
  // The metadata of safetensors files; those of shards together. Empty for .bin files.
  const SafetensorsMetadata& metadata() const { return metadata_; }

  // Reads every file once and compares the checksums that there are: of sealed safetensors files,
  // and of zip archives.
  void verify() const;

 private:
  using File = ForeignTensor::File;
  void open_file(const std::string& name);
  void open_shards(const std::string& index_name, std::string_view ending);

  std::string folder_;
  std::vector<std::string> files_;
  std::vector<ForeignTensor> tensors_;
  SafetensorsMetadata metadata_;
};

}  // namespace tril
