// Examples: models, their sessions, and what they compute.
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "examples.h"
#include "tril/tril.h"

namespace reference {
namespace {

tril::TransformerConfig small_config() {
  // [TransformerConfig]
  tril::TransformerConfig config;
  config.source_vocab = config.target_vocab = 20;
  config.model = 32;
  config.heads = 2;
  config.feed_forward = 64;
  config.encoder_layers = config.decoder_layers = 1;
  config.completed().check();
  std::cout << config.completed().head_dim << " features per head\n";
  // [/TransformerConfig]
  return config;
}

void transformer(const tril::TransformerConfig& config) {
  // [Transformer]
  const tril::Transformer model(config, /*seed=*/1);
  tril::Session session(model);
  tril::Rows source, target;
  const std::vector<int32_t> question = {4, 5, 6}, answer = {2, 7, 8};
  source.add_sequence(question, {.slot = 0});
  target.add_sequence(answer, {.slot = session.open(), .segment = 0});
  const tril::Memory memory = model.encode(source, session);
  const tril::Tensor hidden = model.forward(target, memory, session);
  const tril::Tensor logits = model.logits(hidden, session);
  std::cout << model.parameter_count() << " weights, logits " << to_string(logits.shape()) << "\n";
  // [/Transformer]
}

void session(const tril::TransformerConfig& config) {
  // [Session]
  const tril::Transformer model(config, /*seed=*/1);
  tril::Session session(model);
  tril::Rows source;
  const std::vector<int32_t> question = {4, 5, 6};
  source.add_sequence(question, {.slot = 0});
  const tril::Memory memory = model.encode(source, session);
  const int32_t slot = session.open();
  for (int32_t position = 0; position < 3; ++position) {
    session.reset();  // what the step before made is stale now; slot and memory stay
    tril::Rows row;
    row.add(/*token=*/2 + position, {.slot = slot, .segment = 0, .first = position});
    model.logits(model.forward(row, memory, session), session);
  }
  std::cout << session.length(slot) << " tokens in the slot\n";
  session.close(slot);
  // [/Session]
}

void memory(const tril::TransformerConfig& config) {
  // [Memory]
  const tril::Transformer model(config, /*seed=*/1);
  tril::Session session(model);
  tril::Rows first, second;
  const std::vector<int32_t> three = {4, 5, 6}, two = {7, 8};
  first.add_sequence(three, {.slot = 0});
  second.add_sequence(two, {.slot = 0});
  tril::Memory memory = model.encode(first, session);
  const int32_t segment = model.encode_into(memory, second, session).front();
  std::cout << memory.length(0) << " and " << memory.length(segment) << " tokens\n";
  memory.release(0);
  std::cout << (memory.holds(0) ? "still there" : "released") << "\n";
  // [/Memory]
}

void rows() {
  // [Rows]
  tril::Rows rows;
  const std::vector<int32_t> first = {2, 7, 8}, second = {2, 9};
  rows.add_sequence(first, {.slot = 0, .segment = 0});
  rows.add_sequence(second, {.slot = 1, .segment = 1});
  rows.add_filler(3);  // padding, to a batch of eight rows
  std::cout << rows.size() << " rows, the fifth at position " << rows.positions[4] << "\n";
  // [/Rows]
}

void tensor(const tril::TransformerConfig& config) {
  // [Tensor]
  const tril::Transformer model(config, /*seed=*/1);
  const tril::NamedConstTensor first = model.parameters().front();
  const std::vector<float> numbers = to_floats(first.tensor);  // on any device, of any type
  std::cout << first.name << " " << to_string(first.tensor.shape()) << ": " << numbers.size()
            << " numbers of " << to_string(first.tensor.dtype()) << "\n";
  // [/Tensor]
}

void tape(const tril::TransformerConfig& config) {
  // [Tape]
  const tril::Transformer model(config, /*seed=*/1);
  tril::Session session(model);
  tril::Rows source, target;
  const std::vector<int32_t> question = {4, 5, 6}, answer = {2, 7, 8}, labels = {7, 8, 3};
  source.add_sequence(question, {.slot = 0});
  target.add_sequence(answer, {.slot = 0, .segment = 0});
  tril::Tape tape(session);
  const tril::Memory memory = model.encode(source, session);
  const tril::Tensor hidden = model.forward(target, memory, session);
  const tril::Tensor loss = model.loss(hidden, labels, {.factor = 1.0f / 3}, session);
  const tril::Gradients gradients = tape.backward(loss);
  size_t defined = 0;
  for (const tril::NamedConstTensor& weight : model.parameters()) {
    defined += gradients.of(weight.tensor).defined() ? 1 : 0;
  }
  std::cout << defined << " of " << model.parameters().size() << " weights have a gradient\n";
  // [/Tape]
}

void optimizer(const tril::TransformerConfig& config) {
  // [AdamWOptimizer]
  tril::Transformer model(config, /*seed=*/1);
  tril::Session session(model);
  tril::AdamWOptimizer optimizer(model, {.clip_norm = 1.0});
  tril::Rows source, target;
  const std::vector<int32_t> question = {4, 5, 6}, answer = {2, 7, 8}, labels = {7, 8, 3};
  source.add_sequence(question, {.slot = 0});
  target.add_sequence(answer, {.slot = 0, .segment = 0});
  float first = 0.0f, last = 0.0f;
  for (int step = 0; step < 20; ++step) {
    session.reset();
    tril::Tape tape(session);
    const tril::Memory memory = model.encode(source, session);
    const tril::Tensor hidden = model.forward(target, memory, session);
    const tril::Tensor loss = model.loss(hidden, labels, {}, session);
    last = loss.data()[0];
    if (step == 0) first = last;
    optimizer.step(tape.backward(loss), /*rate=*/1e-2f, session);
  }
  std::cout << (last < first / 10 ? "learnt" : "not learnt") << " after "
            << optimizer.last(session).steps << " updates\n";
  // [/AdamWOptimizer]
}

void prove(const tril::TransformerConfig& config) {
  // [prove]
  const tril::Transformer model(config, /*seed=*/1);
  const std::vector<tril::TokenPair> pairs = {{{4, 5, 6, 3}, {2, 7, 8, 9}, 3}};
  tril::ProofOptions options;
  options.sequential = {{1, 4}};  // sequential training: one target of four tokens
  options.every_length = 2;
  options.one_length = 3;
  const tril::Proof proof = prove(model, pairs, options);
  for (const tril::Section section : proof.held) std::cout << word_for(section) << " holds\n";
  // [/prove]
}

void save_packed(const std::string& folder, const std::string& scratch) {
  // [save_packed]
  const std::string packed = scratch + "/packed";
  tril::Transformer::save_packed(folder, packed, tril::Compute::int8);
  const tril::Translator translator = tril::Translator::load(packed);
  std::cout << word_for(translator.model().compute()) << ": " << translator.translate("Thank you")
            << "\n";
  // [/save_packed]
}

void export_model(const std::string& folder, const std::string& scratch) {
  // [export_model]
  const tril::hub::ExportReport report = tril::hub::export_model(folder, scratch + "/exported");
  std::cout << report.family << ", " << report.tensors << " tensors\n";
  // [/export_model]
}

void import(const std::string& scratch) {
  // [import]
  const std::string folder = scratch + "/imported";
  const tril::hub::ImportReport report = tril::hub::import(scratch + "/exported", folder);
  std::cout << report.family << ", " << report.parameters << " weights\n"
            << tril::Translator::load(folder).translate("Thank you") << "\n";
  // [/import]
}

}  // namespace

void run_models(const Folders& folders) {
  begin("TransformerConfig");
  const tril::TransformerConfig config = small_config();
  begin("Transformer"), transformer(config);
  begin("Session"), session(config);
  begin("Memory"), memory(config);
  begin("Rows"), rows();
  begin("Tensor"), tensor(config);
  begin("Tape"), tape(config);
  begin("AdamWOptimizer"), optimizer(config);
  begin("prove"), prove(config);
  begin("save_packed"), save_packed(folders.model, folders.scratch);
  begin("export_model"), export_model(folders.model, folders.scratch);
  begin("import"), import(folders.scratch);
}

}  // namespace reference
