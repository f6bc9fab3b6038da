// The errors a Transformer raises for invalid calls, before it does anything.
#include <stdexcept>

#include "support/models.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"

namespace tril::call_test {
namespace {

using testing::raised_by;

class Call : public ::testing::Test {
 protected:
  static TransformerConfig config() {
    TransformerConfig config = testing::tiny_config(testing::Family::encoder_decoder);
    config.max_length = 6;
    return config;
  }
  Memory encoded() {
    Rows source;
    source.add_sequence(std::vector<int32_t>{1, 2, 3}, {.slot = 0});
    return model_.encode(source, session_);
  }
  std::string forward_error(const Rows& rows, const Memory& memory) {
    return raised_by([&] { model_.forward(rows, memory, session_); }).text;
  }

  Transformer model_{config(), 1, testing::placement()};
  Session session_{model_, 1};
};

TEST_F(Call, TokensAndPositionsAreChecked) {
  const Memory memory = encoded();
  const int32_t slot = session_->cache.open();
  Rows rows;
  rows.add(11, {.slot = slot, .segment = 0, .first = 0});
  EXPECT_EQ(forward_error(rows, memory),
            "forward: token 11 in row 0 is not below the vocabulary of 11");
  rows.clear();
  rows.add(1, {.slot = slot, .segment = 0, .first = 6});
  EXPECT_EQ(forward_error(rows, memory),
            "forward: position 6 in row 0 is not below max_length, which is 6");
  EXPECT_EQ(forward_error(Rows(), memory), "forward: no rows");
  rows.clear();
  rows.add(1, {.slot = slot, .segment = 0, .first = 0});
  rows.tokens.push_back(1);
  EXPECT_EQ(forward_error(rows, memory), "forward: the columns of the rows have different lengths");
  EXPECT_EQ(session_->cache.length(slot), 0);
}

TEST_F(Call, SegmentsAndSlotsAreChecked) {
  const Memory memory = encoded();
  Rows rows;
  rows.add(1, {.slot = 5, .segment = 0, .first = 0});
  EXPECT_EQ(forward_error(rows, memory), "cache: slot 5 is not open");
  rows.clear();
  rows.add(1, {.slot = session_->cache.open(), .segment = 1, .first = 0});
  EXPECT_EQ(forward_error(rows, memory),
            "forward: row 0 asks for segment 1, which the memory does not hold");
  Rows source;
  source.add_sequence(std::vector<int32_t>{1, 2}, {.slot = 3});
  EXPECT_EQ(raised_by([&] { model_.encode(source, session_); }).text,
            "encode: the sequence in row 0 has slot 3; slots count up from 0, the next is 0");
}

TEST_F(Call, TapesAndCachesDoNotMix) {
  const Memory memory = encoded();
  Tape tape(session_);
  Rows rows;
  rows.add(1, {.slot = 0, .segment = 0, .first = 0});
  EXPECT_EQ(forward_error(rows, memory),
            "forward: the memory was encoded without a tape, forward runs under one");
  rows.clear();
  rows.add(1, {.slot = 0, .segment = 0, .first = 3});
  EXPECT_EQ(forward_error(rows, memory),
            "forward: row 0 of sequence 0 is at position 3, but whole sequences are needed: "
            "earlier keys have no gradient");
}

TEST_F(Call, AMemoryBelongsToItsTapeAndStep) {
  Rows source, target;
  source.add_sequence(std::vector<int32_t>{1, 2, 3}, {.slot = 0});
  target.add_sequence(std::vector<int32_t>{4, 5}, {.slot = 0, .segment = 0});
  Memory earlier;
  {
    Tape tape(session_);
    earlier = model_.encode(source, session_);
  }
  {
    Tape tape(session_);
    EXPECT_EQ(forward_error(target, earlier),
              "forward: the memory was encoded under another tape: it has no gradient here");
    EXPECT_EQ(raised_by([&] { session_.reset(); }).text,
              "reset: a tape is recording on this context; end it first");
  }
  session_.reset();
  EXPECT_FALSE(earlier.holds(0));
}

TEST_F(Call, GradientsEndWithTheStep) {
  Rows source, target;
  source.add_sequence(std::vector<int32_t>{1, 2, 3}, {.slot = 0});
  target.add_sequence(std::vector<int32_t>{4, 5}, {.slot = 0, .segment = 0});
  const std::vector<int32_t> labels = {5, 6};
  Tape tape(session_);
  const Tensor hidden = model_.forward(target, model_.encode(source, session_), session_);
  const Gradients gradients = tape.backward(model_.loss(hidden, labels, {}, session_));
  const ConstTensor weight = model_.parameters()[0].tensor;
  EXPECT_TRUE(gradients.of(weight).defined());
  session_.reset();
  EXPECT_EQ(raised_by([&] { gradients.of(weight); }).text,
            "tape: its context was reset; gradients live until then");
}

TEST_F(Call, ASliceUnderATapeIsRefused) {
  Rows source, target;
  source.add_sequence(std::vector<int32_t>{1, 2, 3}, {.slot = 0});
  target.add_sequence(std::vector<int32_t>{4, 5, 6}, {.slot = 0, .segment = 0});
  const std::vector<int32_t> labels = {5};
  Tape tape(session_);
  const Tensor hidden = model_.forward(target, model_.encode(source, session_), session_);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 2}, {2, 3}}) {
    EXPECT_NE(raised_by([&] {
                model_.loss(hidden.slice(begin, end), labels, {}, session_);
              }).text.find("is a slice of a tensor that is differentiated"),
              std::string::npos);
  }
}

TEST_F(Call, AnotherModelsSessionOrMemoryIsRefused) {
  TransformerConfig deeper = config();
  deeper.decoder_layers = 6;
  const Transformer other(deeper, 1, testing::placement());
  Rows source;
  source.add_sequence(std::vector<int32_t>{1, 2, 3}, {.slot = 0});
  Session others(other, 1);
  const Memory memory = other.encode(source, others);
  Rows rows;
  rows.add(1, {.slot = session_->cache.open(), .segment = 0});
  EXPECT_EQ(forward_error(rows, memory),
            "forward: the memory belongs to another model: 6 layers of 2 x 4, this one has 1 of 2 "
            "x 4");
  EXPECT_EQ(raised_by([&] { other.forward(rows, memory, session_); }).text,
            "forward: the session belongs to another model: 1 layers of 2 x 4, this one has 6 of "
            "2 x 4");
}

TEST_F(Call, AFailedCallLeavesTheCacheAsItWas) {
  struct Thrower : Observer {
    void see(const Observation& o) override {
      if (o.site == Site::cross_query) throw std::runtime_error("no");
    }
  } thrower;
  const Memory memory = encoded();
  const int32_t slot = session_->cache.open();
  Rows rows;
  rows.add(1, {.slot = slot, .segment = 0});
  session_->observer = &thrower;
  EXPECT_THROW(model_.forward(rows, memory, session_), std::runtime_error);
  session_->observer = nullptr;
  EXPECT_EQ(session_->cache.length(slot), 0);
  EXPECT_NO_THROW(model_.forward(rows, memory, session_));
  EXPECT_EQ(session_->cache.length(slot), 1);
}

TEST_F(Call, SentencesThatCouldNotBeEncodedLeaveTheMemoryAsItWas) {
  struct Thrower : Observer {
    void see(const Observation& o) override {
      if (o.site == Site::cross_value) throw std::runtime_error("no");
    }
  } thrower;
  Memory memory = encoded();
  Rows source;
  source.add_sequence(std::vector<int32_t>{1, 2}, {.slot = 0});
  source.add_sequence(std::vector<int32_t>{3}, {.slot = 1});
  {
    const ObserverScope observed(session_, &thrower);
    EXPECT_THROW(model_.encode_into(memory, source, session_), std::runtime_error);
  }
  EXPECT_TRUE(memory.holds(0));
  for (const int32_t segment : {1, 2}) EXPECT_FALSE(memory.holds(segment)) << segment;
  EXPECT_EQ(model_.encode_into(memory, source, session_), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(memory.length(1), 2);
}

// Weights are packed by a context of the model's own device and type of activations.
TEST_F(Call, WeightsArePackedWhereTheModelIs) {
  Context context(1, testing::placement());
  context.activations = testing::activations() == DType::f32 ? DType::bf16 : DType::f32;
  EXPECT_EQ(raised_by([&] { model_.weights_changed(context); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised_by([&] { model_.prepare_training(context); }).code, ErrorCode::invalid_argument);
}

TEST_F(Call, FillerNeedsNoSegment) {
  const Memory memory = encoded();
  Rows rows;
  rows.add(1, {.slot = session_->cache.open(), .segment = 0});
  rows.add(0, {.slot = -1, .segment = 7});
  EXPECT_NO_THROW(model_.forward(rows, memory, session_));
}

TEST_F(Call, APrefixComesInOneCall) {
  const Memory memory = encoded();
  const Place place{.slot = session_->cache.open(), .segment = 0, .prefix = 3};
  Rows rows;
  rows.add_sequence(std::vector<int32_t>{1, 2}, place);
  EXPECT_NO_THROW(model_.forward(rows, memory, session_));
  rows.clear();
  rows.add(3, {.slot = place.slot, .segment = 0, .first = 2, .prefix = 3});
  EXPECT_EQ(forward_error(rows, memory),
            "forward: row 0 is in a sequence with a prefix of 3, whose rows see each other: they "
            "must come in one call");
}

TEST_F(Call, AMemoryOutlivesTheStep) {
  const Memory memory = encoded();
  session_.reset();
  Rows rows;
  rows.add(1, {.slot = session_->cache.open(), .segment = 0, .first = 0});
  EXPECT_NO_THROW(model_.forward(rows, memory, session_));
}

TEST_F(Call, HiddenStatesAreStaleAfterTheStep) {
  const Memory memory = encoded();
  Rows rows;
  rows.add(1, {.slot = session_->cache.open(), .segment = 0, .first = 0});
  const Tensor hidden = model_.forward(rows, memory, session_);
  session_.reset();
  EXPECT_NE(raised_by([&] { model_.logits(hidden, session_); }).text.find("is stale"),
            std::string::npos);
}

TEST_F(Call, LabelsAreChecked) {
  const Memory memory = encoded();
  Rows rows;
  rows.add(1, {.slot = session_->cache.open(), .segment = 0, .first = 0});
  const Tensor hidden = model_.forward(rows, memory, session_);
  const std::vector<int32_t> labels = {11};
  EXPECT_EQ(raised_by([&] { model_.loss(hidden, labels, {}, session_); }).text,
            "loss: label 11 in row 0 is not below 11");
  EXPECT_EQ(raised_by([&] { model_.loss(hidden, {}, {}, session_); }).text,
            "loss: 1 rows of logits but 0 labels");
}

TEST_F(Call, DecoderOnlyModelsHaveNoEncoder) {
  TransformerConfig only = config();
  only.source_vocab = 0;
  only.encoder_layers = 0;
  const Transformer model(only, 1, testing::placement());
  Session session(model, 1);
  Rows rows;
  rows.add(1, {.slot = session->cache.open()});
  EXPECT_EQ(raised_by([&] { model.encode(rows, session); }).text,
            "encode: this model has no encoder");
  EXPECT_NO_THROW(model.forward(rows, {}, session));
}

// An observer sees every site of every layer, in order, and absent it changes nothing.
TEST_F(Call, AnObserverSeesEverySite) {
  struct Log : Observer {
    void see(const Observation& o) override {
      entries.push_back({o.stack, o.layer, o.site});
      EXPECT_NE(o.tensor.defined(), o.table.defined()) << "a tensor of the call, or a table";
      with_intervals += o.intervals.empty() ? 0 : 1;
    }
    std::vector<std::tuple<Stack, int64_t, Site>> entries;
    int with_intervals = 0;
  } log;
  session_->observer = &log;
  const Memory memory = encoded();
  Rows rows;
  rows.add(1, {.slot = session_->cache.open(), .segment = 0, .first = 0});
  model_.forward(rows, memory, session_);
  const auto d = Stack::decoder;
  const auto e = Stack::encoder;
  const std::vector<std::tuple<Stack, int64_t, Site>> expected = {{e, -1, Site::embedding_table},
                                                                  {e, -1, Site::position_table},
                                                                  {e, -1, Site::embedded},
                                                                  {e, 0, Site::query},
                                                                  {e, 0, Site::key},
                                                                  {e, 0, Site::value},
                                                                  {e, 0, Site::context},
                                                                  {e, 0, Site::added},
                                                                  {e, 0, Site::normed},
                                                                  {e, 0, Site::feed_forward_hidden},
                                                                  {e, 0, Site::added},
                                                                  {e, 0, Site::normed},
                                                                  {e, 0, Site::block_output},
                                                                  {e, -1, Site::final_output},
                                                                  {d, 0, Site::cross_key},
                                                                  {d, 0, Site::cross_value},
                                                                  {d, -1, Site::embedding_table},
                                                                  {d, -1, Site::position_table},
                                                                  {d, -1, Site::embedded},
                                                                  {d, 0, Site::query},
                                                                  {d, 0, Site::key},
                                                                  {d, 0, Site::value},
                                                                  {d, 0, Site::context},
                                                                  {d, 0, Site::added},
                                                                  {d, 0, Site::normed},
                                                                  {d, 0, Site::cross_query},
                                                                  {d, 0, Site::cross_context},
                                                                  {d, 0, Site::added},
                                                                  {d, 0, Site::normed},
                                                                  {d, 0, Site::feed_forward_hidden},
                                                                  {d, 0, Site::added},
                                                                  {d, 0, Site::normed},
                                                                  {d, 0, Site::block_output},
                                                                  {d, -1, Site::final_output}};
  EXPECT_EQ(log.entries, expected);
  EXPECT_EQ(log.with_intervals, 3);
}

}  // namespace
}  // namespace tril::call_test
