// The parameters of a model folder, as tensors of a Hugging Face folder. Internal to hub/.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tril/hub/family.h"
#include "tril/io/foreign/foreign_tensors.h"

namespace tril::hub {

// A tensor to be written.
struct TheirTensor {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape{};
  // The parameters it consists of.
  std::vector<const TensorMap*> maps{};
  // The bytes of its first rows, which no parameter holds; of all of it where there are no maps.
  std::string_view data{};
};

class OurWeights {
 public:
  // Reads all weights once and compares them with their checksums. `features`: where each feature
  // of theirs is among ours; empty: the same order.
  explicit OurWeights(const std::string& folder, std::vector<int64_t> features = {});

  // Null where the model has no such parameter.
  const Shape* shape_of(std::string_view parameter) const;
  bool is_zero(const std::string& parameter) const;
  // Read from the folder as it is asked for. Raises `invalid_argument` for a number that the type
  // has no finite value for. Parameters that the model does not have are zeros. Valid as long as
  // this object, the maps and the data.
  StoredTensor stored(const TheirTensor& tensor) const;
  // Of the tensors that were written, those in which a number did not fit its type.
  int64_t rounded() const { return rounded_; }

 private:
  std::vector<float> values_of(const TensorMap& map) const;
  void convert(const TheirTensor& tensor, std::span<const float> values, char* bytes,
               bool& rounded) const;
  std::string composed(const TheirTensor& tensor) const;

  ForeignTensors tensors_;
  std::vector<int64_t> features_;
  mutable int64_t rounded_ = 0;
};

// Which axis of a parameter is one of the model's features, in the order of the residual stream;
// -1: none.
int feature_axis(std::string_view parameter);

}  // namespace tril::hub
