#include "tril/hub/family.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tril/base/error.h"

namespace tril::hub {
namespace {

std::vector<const Family*> all_families() {
  std::vector<const Family*> families;
  for (const auto* list : {&bart_families(), &gpt2_families(), &llama_families(), &t5_families()}) {
    families.insert(families.end(), list->begin(), list->end());
  }
  return families;
}

// The first name of an activation is the one that is written.
constexpr std::array<std::pair<std::string_view, ActivationType>, 6> kActivations = {{
    {"relu", ActivationType::relu},
    {"gelu", ActivationType::gelu},
    {"gelu_new", ActivationType::gelu_tanh},
    {"gelu_pytorch_tanh", ActivationType::gelu_tanh},
    {"silu", ActivationType::silu},
    {"swish", ActivationType::silu},
}};

}  // namespace

Shape shape_there(const TensorMap& map, const Shape& ours) {
  const int64_t total = map.total > 0 ? map.total : map.first + ours[0];
  switch (map.transform) {
    case Transform::same: return ours;
    case Transform::as_row: return {1, ours[0]};
    case Transform::rows: return ours.rank() == 1 ? Shape{total} : Shape{total, ours[1]};
    case Transform::transposed: return {ours[1], total};
  }
  return ours;
}

std::string family_names() {
  std::string names;
  for (const Family* family : all_families()) {
    names += concat(names.empty() ? "" : ", ", family->name());
  }
  return names;
}

const Family& family_named(std::string_view model_type, const std::string& file) {
  for (const Family* family : all_families()) {
    if (family->name() == model_type) return *family;
  }
  fail(ErrorCode::unsupported, file, ": model_type is \"", printable(model_type),
       "\"; tril imports ", family_names());
}

ActivationType activation_named(const std::string& name, std::string_view field,
                                const std::string& file) {
  const auto found = std::find_if(kActivations.begin(), kActivations.end(),
                                  [&](const auto& each) { return each.first == name; });
  require(found != kActivations.end(), ErrorCode::unsupported, file, ": ", field, " is \"",
          printable(name), "\", which tril does not compute");
  return found->second;
}

std::string_view name_of(ActivationType activation) {
  const auto found = std::find_if(kActivations.begin(), kActivations.end(),
                                  [&](const auto& each) { return each.second == activation; });
  require(found != kActivations.end(), ErrorCode::internal, "hub: an activation without a name");
  return found->first;
}

}  // namespace tril::hub
