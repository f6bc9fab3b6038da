// A family: models of Hugging Face's transformers that share names, layout and configuration.
// Internal to hub/.
//
// A family says which configuration of ours computes the same function, and where each of our
// parameters comes from: one table of names, which the export goes through the other way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tril/hub/foreign_config.h"
#include "tril/models/config.h"
#include "tril/tensor/shape.h"

namespace tril {
class ForeignTensor;
class ForeignTensors;
}  // namespace tril

namespace tril::hub {

// How a tensor of theirs becomes a parameter of ours.
enum class Transform : uint8_t {
  same,        // equal shapes
  as_row,      // [1, n] there, [n] here
  rows,        // ours are the rows from `first` on, of `total` there
  transposed,  // [in, total] there: ours, [out, in], are the columns from `first` on
};

struct TensorMap {
  std::string ours;
  // Names by which it may be stored; where several are there, they hold the same numbers.
  std::vector<std::string> theirs;
  Transform transform = Transform::same;
  int64_t first = 0;
  int64_t total = 0;      // 0: from `first` to the end is ours
  bool optional = false;  // absent: zeros
  float factor = 1.0f;    // in an export: theirs are ours times this
};

// The shape that their tensor must have to become this parameter, of shape `ours`.
Shape shape_there(const TensorMap& map, const Shape& ours);

class Family {
 public:
  virtual ~Family() = default;

  // config.json's model_type.
  virtual std::string_view name() const = 0;
  // Raises `unsupported` naming the field for what tril does not compute, `bad_format` for what is
  // missing or mistyped.
  virtual TransformerConfig config(ForeignConfig& theirs) const = 0;
  // Sets what config.json leaves open and only the weights tell.
  virtual void settle(const ForeignTensors& /*tensors*/, TransformerConfig& /*ours*/) const {}
  // The same from a configuration that was settled.
  virtual void copy_settled(const TransformerConfig& /*from*/, TransformerConfig& /*ours*/) const {}
  virtual std::vector<TensorMap> tensors(const TransformerConfig& ours) const = 0;
  // Tensors that hold nothing of their own: tables that are computed.
  virtual bool is_computed(std::string_view tensor) const = 0;
  // The numbers that such a tensor must hold, [row, column]; empty: they are not compared.
  virtual std::vector<float> computed(const ForeignTensor& /*tensor*/,
                                      const TransformerConfig& /*ours*/) const {
    return {};
  }
};

// Raises `unsupported` for a model_type that is none of ours, listing those that are.
const Family& family_named(std::string_view model_type, const std::string& file);
// "marian, pegasus, ..."
std::string family_names();

// Whether both hold the same numbers in the same type.
bool same_values(const ForeignTensor& a, const ForeignTensor& b);

// The activation of this name there. Raises `unsupported`, naming the field.
ActivationType activation_named(const std::string& name, std::string_view field,
                                const std::string& file);
// The name there of an activation of ours.
std::string_view name_of(ActivationType activation);

// One per file.
const std::vector<const Family*>& bart_families();
const std::vector<const Family*>& gpt2_families();
const std::vector<const Family*>& llama_families();
const std::vector<const Family*>& t5_families();

}  // namespace tril::hub
