// Train a small model, save it, load it, and decode with it: the whole cycle.
#include <cstdio>
#include <filesystem>
#include <vector>

#include "tril/tril.h"

namespace {

// The task: the answer is the question backwards. Tokens 0 and 1 are START and END by our own
// convention; the library knows no special tokens.
constexpr int32_t kStart = 0;
constexpr int32_t kEnd = 1;
const std::vector<std::vector<int32_t>> kQuestions = {{2, 3, 4}, {5, 2, 6}, {7, 7, 3}, {4, 6, 5}};

std::vector<int32_t> decode(const tril::Transformer& model, const std::vector<int32_t>& question) {
  tril::Session session(model);
  tril::Rows source;
  source.add_sequence(question, {.slot = 0});  // a sentence to encode: slots count up from 0
  const tril::Memory memory = model.encode(source, session);
  tril::Rows row;  // one token of one sequence: in a slot, reading segment 0 of the memory
  row.add(kStart, {.slot = session.open(), .segment = 0});
  std::vector<int32_t> answer;
  while (answer.size() < 8) {
    session.reset();  // ends the step before: its tensors are stale now, slots and memory stay
    const tril::Tensor logits = model.logits(model.forward(row, memory, session), session);
    int32_t best = 0;
    for (int32_t token = 1; token < logits.shape()[1]; ++token) {
      if (logits.data()[token] > logits.data()[best]) best = token;
    }
    if (best == kEnd) break;
    answer.push_back(best);
    row.tokens[0] = best;
    ++row.positions[0];
  }
  return answer;
}

}  // namespace

int main() {
  tril::TransformerConfig config;
  config.source_vocab = config.target_vocab = 8;
  config.model = 32;
  config.heads = 2;
  config.feed_forward = 64;
  config.encoder_layers = config.decoder_layers = 1;
  tril::Transformer model(config, /*seed=*/1);
  tril::Session session(model);
  model.prepare_training(session);
  tril::AdamWOptimizer optimizer(model, {});

  // All sentences side by side; the target goes in shifted behind START, the labels end with END.
  tril::Rows source, target;
  std::vector<int32_t> labels;
  for (int32_t i = 0; i < 4; ++i) {
    const auto& question = kQuestions[static_cast<size_t>(i)];
    std::vector<int32_t> answer(question.rbegin(), question.rend());
    labels.insert(labels.end(), answer.begin(), answer.end());
    labels.push_back(kEnd);
    answer.insert(answer.begin(), kStart);
    source.add_sequence(question, {.slot = i, .sentence = i});
    target.add_sequence(answer, {.slot = i, .segment = i, .sentence = i});
  }

  for (uint32_t step = 0; step < 60; ++step) {
    session.reset();
    session.set_dropout({{.seed = 1, .step = step}});
    tril::Tape tape(session);
    const tril::Memory memory = model.encode(source, session);
    const tril::Tensor hidden = model.forward(target, memory, session);
    const float mean = 1.0f / static_cast<float>(labels.size());
    const tril::Tensor loss = model.loss(hidden, labels, {.factor = mean}, session);
    optimizer.step(tape.backward(loss), /*rate=*/5e-3f, session);
    if (step % 20 == 19) std::printf("step %u, loss %.4f\n", step + 1, loss.data()[0]);
  }

  const std::string folder = std::filesystem::temp_directory_path() / "tril-example-train";
  model.save(folder);
  const tril::Transformer loaded = tril::Transformer::load(folder);
  std::filesystem::remove_all(folder);
  for (const auto& question : kQuestions) {
    for (const int32_t token : question) std::printf("%d ", token);
    std::printf("->");
    for (const int32_t token : decode(loaded, question)) std::printf(" %d", token);
    std::printf("\n");
  }
}
