// The one list of the options of a training run, with their names and what they mean.
#pragma once

#include "tril/train/options.h"

namespace tril {

// Calls visit(name, value, help) for languages and for the options of a run that begins with a
// model; `value` is a reference to a string or a vector of strings, and an empty one is not part of
// any record.
template <class Options, class Visit>
void for_each_tuning_option(Options& o, const Visit& visit) {
  visit("from", o.from, "Fine-tune this model: begin with its weights, and keep its tokenizer");
  visit("from-language", o.languages.from,
        "With a model of several languages: that of the source sentences");
  visit("to-language", o.languages.to, "The same for their translations");
  visit("languages", o.model_languages,
        "Note in the model what it translates, as in en-hi; 'tril info' shows it");
  visit("freeze", o.freeze,
        "Parts that keep their weights: embeddings, positions, encoder, decoder, or the first "
        "characters of parameters' names");
}

// Calls visit(name, value, help, group) for every option below these, in order; `value` is a
// reference to an int64_t, double, float, uint64_t, bool, string or enum.
template <class Options, class Visit>
void for_each_option(Options& o, const Visit& visit) {
  visit("tokenizer", o.tokenizer_file, "Use this tokenizer.model instead of learning one", "Text");
  visit("tokenizer-type", o.tokenizer.type, "How pieces are learnt", "Text");
  visit("vocab", o.tokenizer.vocab,
        "Size of the joint vocabulary at most, in subword tokens (pieces)", "Text");
  visit("normalization", o.tokenizer.normalization,
        "Normalization of the text before it is tokenized", "Text");
  visit("coverage", o.tokenizer.coverage,
        "Share of characters that get pieces of their own; the others are split into bytes",
        "Text");
  visit("tokenizer-lines", o.tokenizer_lines, "Learn the pieces from at most this many lines",
        "Text");
  visit("tokenizer-line-bytes", o.tokenizer.max_line_bytes,
        "Lines with more bytes are not used to learn the pieces", "Text");
  visit("max-tokens", o.max_tokens, "Leave out pairs with more tokens than this on either side",
        "Text");

  visit("model", o.model.model, "Width of the model", "Model");
  visit("heads", o.model.heads, "Attention heads", "Model");
  visit("kv-heads", o.model.kv_heads, "Key/value heads; 0: as many as heads", "Model");
  visit("head-dim", o.model.head_dim, "Width of a head; 0: model / heads", "Model");
  visit("feed-forward", o.model.feed_forward, "Width inside the feed-forward layers", "Model");
  visit("encoder-layers", o.model.encoder_layers, "Encoder layers; 0: a decoder-only model",
        "Model");
  visit("decoder-layers", o.model.decoder_layers, "Decoder layers", "Model");
  visit("norm", o.model.norm, "Kind of norm", "Model");
  visit("norm-position", o.model.norm_position, "Norm before or after each sub-layer", "Model");
  visit("norm-epsilon", o.model.norm_epsilon,
        "Added to the variance, so that norms never divide by zero", "Model");
  visit("activation", o.model.activation, "Activation function of the feed-forward layers",
        "Model");
  visit("gated", o.model.gated, "Gated feed-forward layers (GLU)", "Model");
  visit("position", o.model.position, "Position encoding", "Model");
  visit("window", o.model.window, "Decoder self-attention sees this many positions back; 0: all",
        "Model");
  visit("max-length", o.model.max_length,
        "Longest sequence the model can read; at least max-tokens", "Model");
  visit("tied", o.model.tied, "Share one matrix between source, target and output embeddings",
        "Model");
  visit("bias", o.model.bias, "Biases in the linear layers", "Model");
  visit("output-bias", o.model.output_bias, "A bias per token in the output layer", "Model");
  visit("embedding-norm", o.model.embedding_norm, "A norm after the embeddings", "Model");
  visit("embedding-scale", o.model.embedding_scale,
        "Multiply embeddings by the square root of the width", "Model");
  visit("dropout", o.model.dropout, "Dropout rate in training", "Model");

  visit("updates", o.updates,
        "Weight updates; 0: about 60 epochs, at least 500 and at most 100,000", "Learning");
  visit("batch-tokens", o.batch_tokens, "Target tokens per update", "Learning");
  visit("micro-batch-tokens", o.micro_batch_tokens,
        "Target tokens per forward pass; must divide batch-tokens. On a GPU the default is "
        "batch-tokens",
        "Learning");
  visit("schedule", o.schedule.type, "Learning-rate schedule after the warm-up", "Learning");
  visit("rate", o.schedule.peak, "Peak learning rate", "Learning");
  visit("warm-up", o.schedule.warm_up, "Updates until the peak learning rate", "Learning");
  visit("beta1", o.optimizer.beta1, "AdamW: decay of the mean", "Learning");
  visit("beta2", o.optimizer.beta2, "AdamW: decay of the variance", "Learning");
  visit("epsilon", o.optimizer.epsilon, "AdamW: epsilon", "Learning");
  visit("weight-decay", o.optimizer.decay, "AdamW: weight decay, applied to matrices", "Learning");
  visit("clip-norm", o.optimizer.clip_norm, "Clip the gradient norm to this; 0: never", "Learning");
  visit("average", o.average.type, "Average of the weights that becomes the model", "Learning");
  visit("average-decay", o.average.decay, "Decay of the exponential average", "Learning");
  visit("average-checkpoints", o.average.checkpoints,
        "Evaluations averaged by the checkpoint average", "Learning");
  visit("label-smoothing", o.smoothing, "Share of the target probability spread over all tokens",
        "Learning");
  visit("bpe-dropout", o.bpe_dropout, "Probability of leaving out a BPE merge in training",
        "Learning");
  visit("seed", o.seed, "Seed of all random numbers", "Learning");

  visit("log-every", o.log_every, "Updates between log lines", "Evaluation");
  visit("evaluate-every", o.evaluate_every, "Updates between evaluations and checkpoints",
        "Evaluation");
  visit("save-every", o.save_every, "Updates between additional checkpoints; 0: none",
        "Evaluation");
  visit("patience", o.patience, "Stop after this many evaluations without improvement; 0: never",
        "Evaluation");
  visit("best-by", o.best_by, "What decides which evaluation is best", "Evaluation");
  visit("valid-beam", o.valid_beam, "Beam size for the BLEU of evaluations", "Evaluation");
}

}  // namespace tril
