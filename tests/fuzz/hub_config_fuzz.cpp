// Any text is either the configuration of a model whose parameters all have a tensor there, or one
// tril::Error.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fuzz/scratch.h"
#include "tril/base/error.h"
#include "tril/hub/described.h"
#include "tril/models/transformer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    tril::hub::Described described(tril::fuzz::view(data, size), "fuzz");
    described.settings();
    const tril::TransformerConfig& config = described.ours();
    // Otherwise the names of its tensors alone would take the time.
    if (config.encoder_layers + config.decoder_layers > 8) return 0;
    const auto maps = described.family().tensors(config);
    for (const auto& each : tril::Transformer::parameter_shapes(config)) {
      const auto found = std::find_if(maps.begin(), maps.end(),
                                      [&](const auto& map) { return map.ours == each.name; });
      tril::fuzz::check(found != maps.end());
      tril::fuzz::check(tril::hub::shape_there(*found, each.shape).size() >= each.shape.size());
    }
  } catch (const tril::Error&) {
  }
  return 0;
}
