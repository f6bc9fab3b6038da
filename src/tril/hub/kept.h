// What an import keeps besides the weights, so that an export can write the folder back: hub.bundle
// in the model folder. Internal to hub/.
//
// Weights come back from model.safetensors in the type they had, which is exact: F16 and BF16 are
// numbers of fp32. Kept are the list of all tensors with their types and files, the elements of
// those that no parameter holds (stored sinusoids, rows that no position uses), and the other files
// of the folder byte for byte, but for those of the tokenizer, which tokenizer.model holds.
//
//   tril hub 1
//   {"family": ..., "tensors": ...}     the description, as one line of JSON
//   the elements, then the files, one after the other
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/io/safetensors.h"
#include "tril/io/stored_type.h"

namespace tril::hub {

struct KeptTensor {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape{};
  size_t file = 0;  // of `weight_files`
  // Its elements among `data`: all of them, or those of its first rows; the rest are weights.
  std::optional<size_t> data{};
};

struct Kept {
  std::string family{};
  SafetensorsMetadata metadata{};           // of the weights
  std::vector<std::string> weight_files{};  // names
  std::vector<KeptTensor> tensors{};
  std::vector<std::string> data{};
  std::map<std::string, std::string> files{};

  // Equal elements are stored once: masks and tables are the same in every layer.
  size_t add_data(std::string bytes);
};

// One name without a folder in it, and nothing that a terminal would act on.
bool is_file_name(std::string_view name);

std::string to_bytes(const Kept& kept);
// Raises `bad_format`, naming `file`.
Kept read_kept(std::string_view bytes, const std::string& file);

}  // namespace tril::hub
