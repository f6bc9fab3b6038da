// Training in parallel and decoding token by token are the same function: compare every bit.
#include <cstdio>
#include <cstring>
#include <vector>

#include "tril/tril.h"

int main() {
  tril::TransformerConfig config;
  config.source_vocab = config.target_vocab = 100;
  config.model = 64;
  config.heads = config.kv_heads = 4;
  config.head_dim = 16;
  config.feed_forward = 128;
  config.encoder_layers = config.decoder_layers = 2;
  const tril::Transformer model(config, /*seed=*/1);
  tril::Session session(model);

  const std::vector<int32_t> question = {5, 17, 42, 8};
  const std::vector<int32_t> answer = {1, 23, 9, 77, 31};  // 1 stands for START
  tril::Rows source;
  source.add_sequence(question, {.slot = 0});

  // Training: one call for the whole target, under the mask.
  std::vector<float> parallel;
  {
    tril::Tape tape(session);
    const tril::Memory memory = model.encode(source, session);
    tril::Rows target;
    target.add_sequence(answer, {.slot = 0, .segment = 0});
    const tril::Tensor logits = model.logits(model.forward(target, memory, session), session);
    parallel.assign(logits.data(), logits.data() + logits.size());
  }

  // Inference: the same call, one token at a time.
  session.reset();
  const tril::Memory memory = model.encode(source, session);
  const int32_t slot = session.open();
  int differing = 0;
  for (int32_t position = 0; position < 5; ++position) {
    tril::Rows row;
    row.add(answer[static_cast<size_t>(position)], {.slot = slot, .segment = 0, .first = position});
    const tril::Tensor logits = model.logits(model.forward(row, memory, session), session);
    differing += std::memcmp(logits.data(), parallel.data() + position * 100, 400) != 0 ? 1 : 0;
  }
  std::printf("5 positions, 500 logits: %d positions differ\n", differing);
  return differing == 0 ? 0 : 1;
}
