// Transformer: encoder–decoder, or decoder-only as the same class without an encoder.
//
// Vaswani et al., arXiv 1706.03762. There is one forward: training gives it whole targets under a
// tape, decoding gives it one row per sequence and a cache, and both are the same function, bit for
// bit. A Transformer is a handle to weights that copies share and that, outside of training, never
// change: any number of threads may call it, each with its own Session.
//
//   Tape tape{session};
//   Memory memory = model.encode(source, session);
//   Tensor hidden = model.forward(target, memory, session);      // [row, model]
//   Gradients gradients = tape.backward(model.loss(hidden, labels, {}, session));
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tril/base/shared.h"
#include "tril/models/config.h"
#include "tril/models/folder.h"
#include "tril/models/session.h"
#include "tril/ops/loss_options.h"
#include "tril/tensor/placement.h"
#include "tril/tensor/rows.h"
#include "tril/tensor/tensor.h"

namespace tril {

struct NamedTensor;   // io/safetensors.h
struct StoredTensor;  // the same
struct ConfigFile;    // models/folder_files.h
struct MemoryStore;   // models/transformer.cpp
struct Segment;       // tensor/mask.h
class OutputPart;     // models/output_part.h

// Whether an existing file may be replaced.
enum class Overwrite { no, yes };

// The encoder's result for the decoder: each decoder layer's cross-attention keys and values,
// already projected. A segment is one encoded sentence. Under a tape a memory is part of the step,
// and stale after it; without one it owns its contents, and sentences may come and go. Copies share
// their segments.
class Memory {
 public:
  bool holds(int32_t segment) const;
  int32_t length(int32_t segment) const;  // in tokens; raises for an unknown segment
  // On CUDA and without a tape: the entries of its positions, as in a table of RowsOnDevice.
  std::span<const int32_t> entries(int32_t segment) const;
  // Frees a segment; its number may be reused. Not under a tape.
  void release(int32_t segment);

 private:
  friend class Transformer;
  // Under a tape: contiguous, one tensor per decoder layer, and where each segment lies.
  std::span<const Tensor> keys_, values_;
  std::span<const Segment> segments_;
  Ticket step_;                // the step these belong to
  uint64_t tape_ = 0;          // and the tape
  Shared<MemoryStore> store_;  // without one: where the segments are kept
};

// What only the device knows of a step's rows, one per sequence: their tokens, and where the keys
// of their sequences are. This is so in a step that is enqueued before the host has seen the result
// of the one before (decode/ahead_backend.h). CUDA only.
struct RowsOnDevice {
  Tensor tokens;  // i32 [row]; the tokens in Rows are ignored
  Tensor self;    // i32 [row, position]: entries of the session's slots, except the rows' own
  Tensor cross;   // the same for the memory's; undefined for a decoder-only model
};

// Rows [begin, end) of hidden states whose logits are wanted over a part.
struct PartRows {
  int64_t begin = 0;
  int64_t end = 0;
  const OutputPart* part = nullptr;
};

class Transformer {
 public:
  // Random weights drawn from the seed. Raises `invalid_argument` for a configuration that cannot
  // be built.
  Transformer(const TransformerConfig& config, uint64_t seed, const Placement& placement = {});
  // A model of this configuration whose numbers are expressions (base/expression.h): its weights
  // are leaves with their names, in this form. It calls the same layers, and may be called under a
  // tape. For inference nothing large is stored, and matrices have no gradients; for another
  // purpose all leaves are stored, 32 bytes per weight.
  static Transformer of_expressions(const TransformerConfig& config,
                                    Compute compute = Compute::fp32,
                                    Purpose purpose = Purpose::inference);
  // A model folder (models/folder.h), for options.purpose. Every fault, a checksum that does not
  // match included, is one Error that names the file and the field or tensor.
  // For inference on the CPU, packed weights of the folder that were made from its
  // model.safetensors are mapped, which shares memory between processes; otherwise weights are
  // packed now, and the bits are the same.
  static Transformer load(const std::string& folder, const LoadOptions& options = {});
  // Writes the folder, sealed: at no moment does it contain weights, configuration and tokenizer of
  // two models. Packed weights and shortlists of a previous model stay; they are recognised as not
  // belonging to the new one.
  void save(const std::string& folder, const SaveOptions& options = {}) const;
  // The same for weights that come from elsewhere: each is asked for as it is written, and none is
  // kept. There is one tensor for each of parameter_shapes().
  static void save_stored(const std::string& folder, const TransformerConfig& config,
                          std::span<const StoredTensor> tensors, const SaveOptions& options = {});
  // What the folder it was loaded from records about its files.
  const FolderSeal& seal() const;

  // Packs the weights of the folder `from` into packed.COMPUTE.safetensors in `folder`, which may
  // be the same. If it is another, the files beside the weights are copied too, so that it does not
  // need the first. It is an error if `folder` holds another model's packed weights, unless they
  // may be replaced, and always if it holds another model's weights or a training run.
  static void save_packed(const std::string& from, const std::string& folder, Compute compute,
                          Overwrite overwrite = Overwrite::no);
  // The same without files: a copy for inference only.
  Transformer packed(Compute compute) const;
  Compute compute() const;

  const TransformerConfig& config() const;
  // Where the weights are: sessions and contexts of this model must be there too.
  const Placement& placement() const;
  // A copy with weights of its own, on this device or another, that its owner may change.
  Transformer on(const Placement& placement) const;

  // Source rows to memory: segment s is the sequence with slot s, and slots count up from 0.
  Memory encode(const Rows& source, Session& session) const;
  // Adds sentences to a memory made without a tape, for slots that are refilled while others
  // continue. Returns the segments given to source slots 0, 1, .... A call that fails leaves the
  // memory as it was.
  std::vector<int32_t> encode_into(Memory& memory, const Rows& source, Session& session) const;

  // A decoder-only model takes an empty Memory. Appends the rows' keys and values to their
  // sequences, attends under the mask, and returns the hidden states [row, model]. Under a tape
  // sequences start at position 0 and the step's own tensors are the cache; without one the
  // session's cache holds them, and rows continue what it holds (a prefix comes whole, in the first
  // call). Everything is checked before anything changes, and a call that fails leaves the cache as
  // it was.
  Tensor forward(const Rows& rows, const Memory& memory, Session& session,
                 const RowsOnDevice* on_device = nullptr) const;

  // [row, model] -> [row, vocab].
  Tensor logits(const Tensor& hidden, Session& session) const;
  // The same for ops::choose_tokens(): on CUDA a row may have room after its last token.
  Tensor logits_to_choose(const Tensor& hidden, Session& session) const;
  Tensor log_probs(const Tensor& hidden, Session& session) const;
  // Fills `part` with a copy of the output weights of these tokens, in this order.
  void choose_output(std::span<const int32_t> tokens, OutputPart& part, Session& session) const;
  // [end - begin, tokens of the part] for each: the columns of logits() that belong to the part,
  // with the same bits. Without a tape; an observer does not see them.
  std::vector<Tensor> logits(const Tensor& hidden, std::span<const PartRows> rows,
                             Session& session) const;
  // [1]: options.factor times the SUM of the rows' losses; a factor of 1 / tokens gives the mean. A
  // label of -1 marks a row that does not count.
  Tensor loss(const Tensor& hidden, std::span<const int32_t> labels, const LossOptions& options,
              Session& session) const;

  // Every parameter, in a fixed order, to be read. None in a model for inference, which keeps only
  // packed weights.
  std::vector<NamedConstTensor> parameters() const;
  int64_t parameter_count() const;
  // The parameters that a model of this configuration would have; no memory is taken for them.
  struct NamedShape {
    std::string name;
    Shape shape;
  };
  static std::vector<NamedShape> parameter_shapes(const TransformerConfig& config);

  // The same, to be written. Whoever changes one calls weights_changed() before the model is used
  // again; no other session may use the model meanwhile. weights_changed() only enqueues the
  // packing: wait for the context's queue before another session uses the model. Raises
  // `unsupported` for a model that was loaded for inference or study.
  struct NamedParameter {
    std::string name;
    Tensor tensor;
    Tensor rounded{};  // on CUDA, if products read a rounded copy: that copy
  };
  std::vector<NamedParameter> writable_parameters();
  void weights_changed(Context& context);
  // Raises `unsupported`, beginning with `where`, for a model that cannot be trained there.
  static void check_trainable(const TransformerConfig& config, const Placement& placement,
                              std::string_view where);
  // Keeps weights packed for gradients too. Optional: call it once before training for speed.
  void prepare_training(Context& context);

 private:
  struct State;
  struct Encoded;
  struct Loading;  // models/transformer_files.cpp
  explicit Transformer(const Shared<State>& state) : state_(state) {}
  Encoded run_encoder(const Rows& source, Session& session) const;

  Shared<State> state_;
};

}  // namespace tril
