// Random models and batches for properties.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/property.h"
#include "support/testing.h"
#include "tril/tril.h"

namespace tril::testing {

using Tokens = std::vector<int32_t>;

enum class Family { any, encoder_decoder, decoder_only };

// A tiny plain configuration: 8 wide, two heads, one layer a stack, 11 tokens.
TransformerConfig tiny_config(Family family);
// A small configuration with every option drawn; sizes are not multiples of anything.
TransformerConfig random_config(Family family = Family::any);
// Whether such a model can be trained on the tests' device: on a GPU the bias of relative positions
// has no gradient yet.
bool has_gradients(const TransformerConfig& config);
// The same with every option that can be trained there.
TransformerConfig trainable_config(Family family = Family::any);
// On the tests' device, like all models made here. Weights, biases and norms are all random, so
// that nothing is hidden behind zero or one.
Transformer random_model(const TransformerConfig& config, uint64_t seed);

// Loads to the tests' device, with their type of activations.
LoadOptions loading(Purpose purpose);

// Changes weights by name, wherever they are, and tells the model.
using ChangeWeights =
    std::function<void(const std::string& name, std::vector<float>& values, const Shape& shape)>;
void change_weights(Transformer& model, const ChangeWeights& change);

// The forms a model can be packed in on this machine: those of its CPU, whatever is tested.
std::vector<Compute> all_forms();
// The model itself, or packed in one of the forms.
Transformer any_form(const Transformer& model);

struct Sentence {
  Tokens source;  // empty in a decoder-only model
  Tokens target;
};
std::vector<Sentence> random_sentences(const TransformerConfig& config, int count, int longest);

struct Batch {
  Rows source, target;
  std::vector<int32_t> labels;
  std::vector<int64_t> first_row;  // of each sentence in the target
};
// Lays the sentences end to end in the given order, with padding drawn between and after them.
Batch pack(const std::vector<Sentence>& sentences, const std::vector<size_t>& order,
           const std::vector<int>& filler, const TransformerConfig& config, int32_t prefix = 0);
Batch pack(const std::vector<Sentence>& sentences, const TransformerConfig& config,
           int32_t prefix = 0);

// One training pass: hidden states, loss and the gradients of all parameters, as plain numbers.
struct Pass {
  std::vector<float> hidden, logits;
  float loss = 0.0f;
  std::vector<std::vector<float>> gradients;  // in the order of parameters(); empty: none
};
Pass training_pass(const Transformer& model, const Batch& batch, Session& session);

// Rows [row, row + count) of a matrix.
std::span<const float> rows_of(const std::vector<float>& matrix, int64_t columns, int64_t row,
                               int64_t count = 1);

}  // namespace tril::testing
