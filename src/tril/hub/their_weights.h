// The weights of a Hugging Face folder, as parameters of ours. Internal to hub/.
#pragma once

#include <string>
#include <vector>

#include "tril/hub/family.h"
#include "tril/hub/kept.h"
#include "tril/io/foreign/foreign_tensors.h"

namespace tril::hub {

class TheirWeights {
 public:
  // Checks names and shapes: raises `bad_format` for a tensor that is missing or has another shape,
  // `unsupported` for one that is not part of the family, or whose copy differs.
  TheirWeights(const std::string& folder, const Family& family, const TransformerConfig& ours);

  // One per parameter in fp32, read from the folder's files as it is asked for. Reading raises
  // `bad_format` for numbers that are not finite. Not to be used after this object.
  std::vector<StoredTensor> parameters() const;

  // Adds the list of tensors and the elements that are in no parameter. Returns the names of
  // tensors that are too large to be kept.
  std::vector<std::string> keep(Kept& kept) const;

  const ForeignTensors& tensors() const { return tensors_; }
  // With what the weights settled.
  const TransformerConfig& config() const { return config_; }

 private:
  struct Parameter {
    std::string name;
    Shape shape;
    TensorMap map;
    const ForeignTensor* from = nullptr;  // null: zeros
  };
  const ForeignTensor* find(const TensorMap& map, const Shape& ours) const;
  void check_surplus() const;
  void check_computed(const ForeignTensor& tensor) const;
  static StoredTensor stored(const Parameter& parameter);

  ForeignTensors tensors_;
  const Family& family_;
  TransformerConfig config_;
  std::vector<Parameter> parameters_;
};

}  // namespace tril::hub
