// Any bytes as packed weights beside a configuration: either a model that computes, or one
// tril::Error that names the file. The first byte says which form they claim to be.
#include <cstdint>
#include <string>

#include "scratch.h"
#include "tiny_model.h"
#include "tril/base/error.h"
#include "tril/kernels/gemm_bf16_dot.h"
#include "tril/models/session_state.h"

namespace {

using tril::Compute;
using tril::fuzz::check;
using tril::fuzz::put;
using tril::fuzz::scratch;
using tril::fuzz::view;

constexpr Compute kForms[] = {Compute::fp32, Compute::bf16, Compute::int8, Compute::bf16_dot};

void use(const tril::Transformer& model) {
  constexpr int32_t kTokens[] = {1, 4, 0};
  tril::Session session(model, 1);
  tril::Rows source;
  source.add_sequence(kTokens, {.slot = 0});
  const tril::Memory memory = model.encode(source, session);
  tril::Rows target;
  target.add_sequence(kTokens, {.slot = session->cache.open(), .segment = 0});
  const tril::Tensor hidden = model.forward(target, memory, session);
  // The numbers may be anything, including NaN; the test is that they can be read.
  check(model.logits(hidden, session).size() == 15);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string config = put("config.json", tril::to_json(tril::fuzz::tiny_config()));
  if (size == 0) return 0;
  static const int forms = tril::kernels::has_bf16_dot() ? 4 : 3;
  const Compute form = kForms[data[0] % forms];
  const std::string file =
      put(tril::concat("packed.", tril::word_for(form), ".safetensors"), view(data + 1, size - 1));
  try {
    use(tril::Transformer::load(scratch(), {.compute = form}));
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::bad_format);
    check(std::string_view(error.what()).starts_with(file));
  }
  return 0;
}
