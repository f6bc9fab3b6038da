// A family: models of Hugging Face's transformers that share names, layout and configuration.
// Internal to hub/.
//
// A family says which configuration of ours computes the same function, and where each of our
// parameters comes from: one table of names, so that an export can go through it the other way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tril/hub/foreign_config.h"
#include "tril/models/config.h"

namespace tril::hub {

// How a tensor of theirs becomes a parameter of ours.
enum class Transform : uint8_t {
  same,          // equal shapes
  as_row,        // [1, n] there, [n] here
  positions_on,  // the first `skipped` rows are left out
};

struct TensorMap {
  std::string ours;
  // Names by which it may be stored; where several are there, they hold the same numbers.
  std::vector<std::string> theirs;
  Transform transform = Transform::same;
  int64_t skipped = 0;
  bool optional = false;  // absent: zeros
};

class Family {
 public:
  virtual ~Family() = default;

  // config.json's model_type.
  virtual std::string_view name() const = 0;
  // Raises `unsupported` naming the field for what tril does not compute, `bad_format` for what is
  // missing or mistyped.
  virtual TransformerConfig config(ForeignConfig& theirs) const = 0;
  virtual std::vector<TensorMap> tensors(const TransformerConfig& ours) const = 0;
  // Tensors that hold nothing of their own: tables that are computed.
  virtual bool is_computed(std::string_view tensor) const = 0;
};

// Raises `unsupported` for a model_type that is none of ours, listing those that are.
const Family& family_named(std::string_view model_type, const std::string& file);

// One per file.
const std::vector<const Family*>& bart_families();

}  // namespace tril::hub
