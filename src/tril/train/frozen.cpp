#include "tril/train/frozen.h"

#include "tril/base/error.h"

namespace tril {
namespace {

bool is_table(const std::string& name, std::string_view what) {
  const std::string end = concat(what, ".weight");
  return name == end || name == "source_" + end || name == "target_" + end;
}

bool is_part(const std::string& name, const std::string& part) {
  if (part == "embeddings") return is_table(name, "embedding");
  if (part == "positions") return is_table(name, "position");
  if (part == "encoder" || part == "decoder") return name.starts_with(part + ".");
  return !part.empty() && name.starts_with(part);
}

}  // namespace

Frozen::Frozen(const TransformerConfig& config, std::span<const std::string> parts) {
  const auto parameters = Transformer::parameter_shapes(config);
  for (const std::string& part : parts) {
    bool found = false;
    for (const auto& [name, shape] : parameters) {
      if (!is_part(name, part)) continue;
      if (names_.insert(name).second) weights_ += shape.size();
      found = true;
    }
    require(found, ErrorCode::invalid_argument, "train: nothing to freeze is called '", part,
            "': the model has no such part, and no parameter whose name begins so (the first is ",
            parameters.front().name, ")");
  }
  require(parameters.empty() || names_.size() < parameters.size(), ErrorCode::invalid_argument,
          "train: everything is frozen: nothing is left to learn");
  row_ = config.frozen_token;
  if (row_ == kNoRow) return;
  for (const auto& [name, shape] : parameters) {
    if (is_table(name, "embedding") && row_ < shape[0]) tables_.insert(name);
  }
}

int64_t Frozen::row_of(const std::string& parameter) const {
  return tables_.contains(parameter) ? row_ : kNoRow;
}

}  // namespace tril
