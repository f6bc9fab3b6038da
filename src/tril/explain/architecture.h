// A picture of a model: the flow from words to probabilities with the shapes of this model, and
// where its masks are. SVG, the same bytes on every machine.
#pragma once

#include <string>

#include "tril/models/config.h"

namespace tril {

// n and m in the picture are the lengths of source and target.
std::string draw_architecture(const TransformerConfig& config);
// The same without style, for a page that has rules for .part, .masked, .frame, .flow, .tip,
// .residual and for text.name, text.shape, text.note.
std::string architecture_for_page(const TransformerConfig& config);

}  // namespace tril
