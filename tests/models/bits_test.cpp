// The promise: a row's result depends on that row's own inputs and nothing else.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "support/models.h"
#include "tril/base/cpu.h"
#include "tril/models/session_state.h"

namespace tril::bits_test {
namespace {

using testing::Batch;
using testing::equal_bits;
using testing::Family;
using testing::floats_of;
using testing::pack;
using testing::Pass;
using testing::random_config;
using testing::random_model;
using testing::random_sentences;
using testing::rows_of;
using testing::Sentence;
using testing::Tokens;
using testing::training_pass;

bool same_gradients(const Pass& a, const Pass& b) {
  if (a.gradients.size() != b.gradients.size()) return false;
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    if (!equal_bits(a.gradients[i], b.gradients[i])) return false;
  }
  return true;
}

Memory encode_all(const Transformer& model, const std::vector<Sentence>& sentences,
                  Session& session) {
  return model.config().decoder_only()
             ? Memory()
             : model.encode(pack(sentences, model.config()).source, session);
}

// Parallel training pass == stepwise decoding, with sequences that advance in any order, by any
// number of tokens at a time, in any batch.
RC_GTEST_PROP(Bits, TheParallelPassEqualsStepwiseDecoding, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto sentences =
      random_sentences(config, *rc::gen::inRange(1, 5), *rc::gen::element(40, 40, 150));
  Session session(model, *rc::gen::inRange(1, 4));
  const Batch batch = pack(sentences, config);
  const Pass parallel = training_pass(model, batch, session);

  session.reset();
  const Memory memory = encode_all(model, sentences, session);
  std::vector<int32_t> slots;
  std::vector<size_t> done(sentences.size(), 0);
  // Slots that have nothing to do with the batch's order.
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) session->cache.open();
  for (size_t i = 0; i < sentences.size(); ++i) slots.push_back(session->cache.open());
  for (;;) {
    Rows rows;
    std::vector<std::pair<size_t, size_t>> taken;  // sentence and position of each row
    for (size_t i = 0; i < sentences.size(); ++i) {
      const size_t left = sentences[i].target.size() - done[i];
      const auto take = std::min<size_t>(left, *rc::gen::element<size_t>(0, 1, 1, 1, 2, 17));
      for (size_t t = 0; t < take; ++t, ++done[i]) {
        rows.add(sentences[i].target[done[i]], {.slot = slots[i],
                                                .segment = static_cast<int32_t>(i),
                                                .first = static_cast<int32_t>(done[i])});
        taken.emplace_back(i, done[i]);
      }
      if (*rc::gen::inRange(0, 4) == 0) {
        rows.add_filler(1);
        taken.emplace_back(i, SIZE_MAX);
      }
    }
    const bool finished = std::all_of(sentences.begin(), sentences.end(), [&](const Sentence& s) {
      return done[static_cast<size_t>(&s - sentences.data())] == s.target.size();
    });
    if (rows.size() > 0) {
      session.reset();
      const Tensor hidden = model.forward(rows, memory, session);
      const auto got_hidden = floats_of(hidden);
      const auto got_logits = floats_of(model.logits(hidden, session));
      for (size_t r = 0; r < taken.size(); ++r) {
        const auto [sentence, position] = taken[r];
        if (position == SIZE_MAX) continue;
        const int64_t row = batch.first_row[sentence] + static_cast<int64_t>(position);
        RC_ASSERT(equal_bits(rows_of(got_hidden, config.model, static_cast<int64_t>(r)),
                             rows_of(parallel.hidden, config.model, row)));
        RC_ASSERT(equal_bits(rows_of(got_logits, config.target_vocab, static_cast<int64_t>(r)),
                             rows_of(parallel.logits, config.target_vocab, row)));
      }
    }
    if (finished) break;
  }
}

// Hypotheses that fork, change places and are released at random: each step has the bits of a
// training pass over that hypothesis' own history.
RC_GTEST_PROP(Bits, ForksChangeNothing, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto sentences = random_sentences(config, 2, 12);
  Session session(model, 2);
  const Memory memory = encode_all(model, sentences, session);

  struct Hypothesis {
    int32_t slot;
    int32_t segment;
    Tokens history;
    std::vector<float> hidden;  // of the last step
  };
  std::vector<Hypothesis> beams;
  for (int32_t segment : {0, 1}) beams.push_back({session->cache.open(), segment, {}, {}});
  for (int step = 0; step < 24; ++step) {
    switch (*rc::gen::inRange(0, 5)) {
      case 0: {  // fork one
        const auto from = *rc::gen::inRange<size_t>(0, beams.size());
        Hypothesis copy = beams[from];
        copy.slot = session->cache.fork(copy.slot);
        beams.push_back(copy);
        break;
      }
      case 1: {  // every slot continues some parent
        std::vector<Hypothesis> next;
        for (size_t i = 0; i < beams.size(); ++i) {
          const Hypothesis& parent = beams[*rc::gen::inRange<size_t>(0, beams.size())];
          next.push_back({session->cache.fork(parent.slot), parent.segment, parent.history, {}});
        }
        for (const Hypothesis& beam : beams) session->cache.release(beam.slot);
        beams = next;
        break;
      }
      case 2:
        if (beams.size() > 1) {
          session->cache.release(beams.back().slot);
          beams.pop_back();
        }
        break;
      case 3: {  // take back some tokens
        Hypothesis& beam = beams[*rc::gen::inRange<size_t>(0, beams.size())];
        const auto keep = *rc::gen::inRange<size_t>(0, beam.history.size() + 1);
        session->cache.truncate(beam.slot, static_cast<int32_t>(keep));
        beam.history.resize(keep);
        break;
      }
      default: break;
    }
    Rows rows;
    for (Hypothesis& beam : beams) {
      const auto token = *rc::gen::inRange<int32_t>(0, static_cast<int32_t>(config.target_vocab));
      rows.add(token, {.slot = beam.slot,
                       .segment = beam.segment,
                       .first = static_cast<int32_t>(beam.history.size())});
      beam.history.push_back(token);
    }
    session.reset();
    const auto hidden = floats_of(model.forward(rows, memory, session));
    for (size_t i = 0; i < beams.size(); ++i) {
      const auto row = rows_of(hidden, config.model, static_cast<int64_t>(i));
      beams[i].hidden.assign(row.begin(), row.end());
    }
  }
  Session fresh(model, 1);
  for (const Hypothesis& beam : beams) {
    const std::vector<Sentence> alone = {
        {sentences[static_cast<size_t>(beam.segment)].source, beam.history}};
    const Pass pass = training_pass(model, pack(alone, config), fresh);
    const auto last = static_cast<int64_t>(beam.history.size()) - 1;
    RC_ASSERT(equal_bits(rows_of(pass.hidden, config.model, last), beam.hidden));
  }
}

RC_GTEST_PROP(Bits, ASentenceIsTheSameAloneAndInAnyBatchAtAnyPlace, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto sentences = random_sentences(config, *rc::gen::inRange(2, 7), 30);
  const auto prefix = *rc::gen::element<int32_t>(0, 0, 5);
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[*rc::gen::inRange<size_t>(0, i)]);
  const auto filler = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(0, 4));
  Session session(model, 2);
  const Batch batch = pack(sentences, order, filler, config, prefix);
  const Pass together = training_pass(model, batch, session);
  for (size_t i = 0; i < sentences.size(); ++i) {
    const std::vector<Sentence> one = {sentences[i]};
    const Pass alone = training_pass(model, pack(one, config, prefix), session);
    const auto length = static_cast<int64_t>(sentences[i].target.size());
    RC_ASSERT(equal_bits(alone.hidden,
                         rows_of(together.hidden, config.model, batch.first_row[i], length)));
    RC_ASSERT(equal_bits(
        alone.logits, rows_of(together.logits, config.target_vocab, batch.first_row[i], length)));
  }
}

// Two steps of training with dropout: forward, gradients and updated weights.
struct Trained {
  std::vector<Pass> passes;
  std::vector<std::vector<float>> weights;

  bool operator==(const Trained& other) const {
    if (passes.size() != other.passes.size() || weights.size() != other.weights.size())
      return false;
    for (size_t i = 0; i < passes.size(); ++i) {
      if (!equal_bits(passes[i].hidden, other.passes[i].hidden)) return false;
      if (!equal_bits({&passes[i].loss, 1}, {&other.passes[i].loss, 1})) return false;
      if (!same_gradients(passes[i], other.passes[i])) return false;
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!equal_bits(weights[i], other.weights[i])) return false;
    }
    return true;
  }
};
Trained train_two_steps(const TransformerConfig& config, uint64_t seed, const Batch& batch,
                        int threads) {
  Transformer model = random_model(config, seed);
  Session session(model, threads);
  model.prepare_training(session);
  AdamWOptimizer optimizer(model, {.decay = 0.01f});
  Trained trained;
  for (uint32_t step = 0; step < 2; ++step) {
    session->dropout = DropoutStep{.seed = seed, .step = step};
    session.reset();
    trained.passes.push_back(training_pass(model, batch, session));
    session.reset();
    Tape tape(session);
    const Memory memory = config.decoder_only() ? Memory() : model.encode(batch.source, session);
    const Tensor hidden = model.forward(batch.target, memory, session);
    const Gradients gradients =
        tape.backward(model.loss(hidden, batch.labels, {.smoothing = 0.1f}, session));
    optimizer.step(gradients, 1e-3f, session);
  }
  for (const auto& parameter : model.parameters())
    trained.weights.push_back(floats_of(parameter.tensor));
  return trained;
}

RC_GTEST_PROP(Bits, ThreadsChangeNeitherForwardNorGradientsNorWeights, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = testing::trainable_config();
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const Batch batch = pack(random_sentences(config, 4, 40), config);
  const Trained one = train_two_steps(config, seed, batch, 1);
  RC_ASSERT(one == train_two_steps(config, seed, batch, 2));
  RC_ASSERT(one == train_two_steps(config, seed, batch, 5));
}

RC_GTEST_PROP(Bits, EveryInstructionSetGivesTheSame, ()) {
  if (testing::device() != Device::cpu || available_targets().size() == 1) {
    RC_SUCCEED("there is one instruction set: nothing to compare");
  }
  const TransformerConfig config = testing::trainable_config();
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const Batch batch = pack(random_sentences(config, 3, 40), config);
  const Target before = current_target();
  const Trained expected = train_two_steps(config, seed, batch, 2);
  bool same = true;
  for (const Target target : available_targets()) {
    use_target(target);
    same = same && expected == train_two_steps(config, seed, batch, 2);
  }
  use_target(before);
  RC_ASSERT(same);
}

// A batch of more than one slice of tokens and sequences of more than one block of keys.
TEST(Bits, LargeBatchesToo) {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = 37;
  config.model = 48;
  config.heads = 3;
  config.kv_heads = 3;
  config.head_dim = 16;
  config.feed_forward = 100;
  config.encoder_layers = config.decoder_layers = 2;
  config.max_length = 700;
  Random random(1);
  std::vector<Sentence> sentences;
  for (const int length : {601, 77, 300, 5, 130}) {
    Sentence sentence;
    for (int i = 0; i < length; ++i) {
      sentence.source.push_back(static_cast<int32_t>(random.below(37)));
      sentence.target.push_back(static_cast<int32_t>(random.below(37)));
    }
    sentences.push_back(sentence);
  }
  const Batch batch = pack(sentences, config);
  const Trained one = train_two_steps(config, 3, batch, 1);
  EXPECT_TRUE(one == train_two_steps(config, 3, batch, 2));
  EXPECT_TRUE(one == train_two_steps(config, 3, batch, 5));

  const Transformer model = random_model(config, 3);
  Session session(model, 2);
  const Pass parallel = training_pass(model, batch, session);
  session.reset();
  const Memory memory = model.encode(batch.source, session);
  std::vector<int32_t> slots;
  for (size_t i = 0; i < sentences.size(); ++i) slots.push_back(session->cache.open());
  for (int32_t position = 0; position < 601; ++position) {
    session.reset();
    Rows rows;
    std::vector<size_t> which;
    for (size_t i = 0; i < sentences.size(); ++i) {
      if (position >= static_cast<int32_t>(sentences[i].target.size())) continue;
      rows.add(sentences[i].target[static_cast<size_t>(position)],
               {.slot = slots[i], .segment = static_cast<int32_t>(i), .first = position});
      which.push_back(i);
    }
    const auto hidden = floats_of(model.forward(rows, memory, session));
    for (size_t r = 0; r < which.size(); ++r) {
      ASSERT_TRUE(testing::same_bits(
          rows_of(hidden, config.model, static_cast<int64_t>(r)),
          rows_of(parallel.hidden, config.model, batch.first_row[which[r]] + position)));
    }
  }
}

// Repeated steps are kept, and on a device their kernels then overlap: reading something too early
// would show. Sizes are those of a real model, so that kernels have something to prefetch.
TEST(Bits, KeptStepsEqualTheParallelPass) {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = 1003;
  config.model = 512;
  config.heads = config.kv_heads = 8;
  config.head_dim = 64;
  config.feed_forward = 2048;
  config.encoder_layers = 1;
  config.decoder_layers = 3;
  config.max_length = 100;
  constexpr int kLength = 70;                // more than one block of keys
  for (const int count : {1, 3, 40, 100}) {  // of 100, attention has a warp a row and head
    const Transformer model = random_model(config, 5);
    Random random(static_cast<uint64_t>(count));
    std::vector<Sentence> sentences(static_cast<size_t>(count));
    for (Sentence& sentence : sentences) {
      for (int i = 0; i < kLength; ++i) {
        sentence.source.push_back(static_cast<int32_t>(random.below(1003)));
        sentence.target.push_back(static_cast<int32_t>(random.below(1003)));
      }
    }
    // The CPU has no kernels that overlap: there fewer do.
    const int used = testing::device() == Device::cpu ? std::min(count, 3) : count;
    sentences.resize(static_cast<size_t>(used));
    const Batch batch = pack(sentences, config);
    Session session(model, 2);
    const Pass parallel = training_pass(model, batch, session);
    session.reset();
    const Memory memory = model.encode(batch.source, session);
    std::vector<int32_t> slots;
    for (int i = 0; i < used; ++i) slots.push_back(session->cache.open());
    for (int32_t position = 0; position < kLength; ++position) {
      Rows rows;
      for (size_t i = 0; i < sentences.size(); ++i) {
        rows.add(sentences[i].target[static_cast<size_t>(position)],
                 {.slot = slots[i], .segment = static_cast<int32_t>(i), .first = position});
      }
      Tensor logits;
      session->step([&] {
        session.reset();
        for (const int32_t slot : slots) {  // a step may be walked before it runs
          if (session->cache.length(slot) > position) session->cache.truncate(slot, position);
        }
        logits = model.logits(model.forward(rows, memory, session), session);
      });
      const auto got = floats_of(logits);
      for (int64_t row = 0; row < used; ++row) {
        const int64_t expected = batch.first_row[static_cast<size_t>(row)] + position;
        ASSERT_TRUE(testing::same_bits(rows_of(got, config.target_vocab, row),
                                       rows_of(parallel.logits, config.target_vocab, expected)))
            << used << " sentences, row " << row << ", position " << position;
      }
    }
    if (testing::device() != Device::cpu) {
      EXPECT_GT(session->queue.graphs(), 0);
    }
  }
}

// A prefix whose rows see each other comes in one call; the rest token by token.
RC_GTEST_PROP(Bits, APrefixAndStepsAfterItEqualTheParallelPass, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto sentences = random_sentences(config, 1, 40);
  const Tokens& target = sentences[0].target;
  const auto prefix = *rc::gen::inRange<int32_t>(0, 20);
  Session session(model, 2);
  const Pass parallel = training_pass(model, pack(sentences, config, prefix), session);
  session.reset();
  const Memory memory = encode_all(model, sentences, session);
  Place place{.slot = session->cache.open(), .segment = 0, .prefix = prefix};
  for (size_t at = 0; at < target.size();) {
    const size_t take =
        at == 0 ? std::clamp<size_t>(static_cast<size_t>(prefix), 1, target.size()) : 1;
    Rows rows;
    place.first = static_cast<int32_t>(at);
    rows.add_sequence(std::span(target).subspan(at, take), place);
    session.reset();
    const auto hidden = floats_of(model.forward(rows, memory, session));
    RC_ASSERT(equal_bits(hidden, rows_of(parallel.hidden, config.model, static_cast<int64_t>(at),
                                         static_cast<int64_t>(take))));
    at += take;
  }
}

// Sentences that come and go: a memory whose segments are released and refilled.
RC_GTEST_PROP(Bits, RefilledSegmentsChangeNothing, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto sentences = random_sentences(config, 6, 40);
  Session session(model, 2);
  Memory memory = model.encode(pack({sentences[0], sentences[1]}, config).source, session);
  std::vector<int32_t> segments = {0, 1};
  for (size_t i = 2; i < sentences.size(); ++i) {
    const auto leaving = *rc::gen::inRange<size_t>(0, segments.size());
    memory.release(segments[leaving]);
    session.reset();
    segments[leaving] = model.encode_into(memory, pack({sentences[i]}, config).source, session)[0];
    session.reset();
    const Pass alone = training_pass(model, pack({sentences[i]}, config), session);
    session.reset();
    Rows rows;
    const int32_t slot = session->cache.open();
    rows.add_sequence(sentences[i].target, {.slot = slot, .segment = segments[leaving]});
    RC_ASSERT(equal_bits(floats_of(model.forward(rows, memory, session)), alone.hidden));
    session->cache.release(slot);
  }
}

// Threads that share one model, each with its own session, do not disturb each other.
TEST(Bits, ThreadsMayShareAModel) {
  const TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  const Transformer model = random_model(config, 6);
  const Batch batch = pack({{{1, 2, 3, 4}, {5, 6, 7}}, {{9, 8}, {7, 6, 5, 4, 3}}}, config);
  Session session(model, 1);
  const Pass expected = training_pass(model, batch, session);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Session mine(model, 1);
      for (int i = 0; i < 5; ++i) {
        const Pass pass = training_pass(model, batch, mine);
        if (!equal_bits(pass.hidden, expected.hidden) || !same_gradients(pass, expected)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

#if defined(__x86_64__)
// A host program that rounds upwards and flushes subnormals gets the same model and the same bits.
TEST(Bits, TheHostsRoundingDoesNotMatter) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const auto train = [&] {
    Transformer model(config, 6, testing::placement());
    Session session(model, 2);
    AdamWOptimizer optimizer(model, {});
    const Batch batch = pack({{{}, {5, 6, 7, 1, 2}}}, config);
    for (int step = 0; step < 2; ++step) {
      session.reset();
      Tape tape(session);
      const Tensor hidden = model.forward(batch.target, {}, session);
      optimizer.step(tape.backward(model.loss(hidden, batch.labels, {}, session)), 1e-2f, session);
    }
    std::vector<float> weights;
    for (const auto& parameter : model.parameters()) {
      const auto values = floats_of(parameter.tensor);
      weights.insert(weights.end(), values.begin(), values.end());
    }
    return weights;
  };
  const auto expected = train();
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040u | 0x4000u);
  const auto odd = train();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_TRUE(testing::same_bits(expected, odd));
}
#endif

// A score is the same number in training, scoring and search.
RC_GTEST_PROP(Bits, LossAndLogProbabilitiesShareOneNormaliser, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto sentences = random_sentences(config, 1, 20);
  Session session(model, 1);
  const Batch batch = pack(sentences, config);
  const Memory memory = encode_all(model, sentences, session);
  Rows rows = batch.target;
  const int32_t slot = session->cache.open();
  std::fill(rows.slots.begin(), rows.slots.end(), slot);
  const Tensor hidden = model.forward(rows, memory, session);
  const auto log_probs = floats_of(model.log_probs(hidden, session));
  for (int64_t row = 0; row < rows.size(); ++row) {
    std::vector<int32_t> labels(static_cast<size_t>(rows.size()), -1);
    const int32_t label = batch.labels[static_cast<size_t>(row)];
    labels[static_cast<size_t>(row)] = label;
    const Tensor loss = model.loss(hidden, labels, {}, session);
    RC_ASSERT(-floats_of(loss)[0] ==
              log_probs[static_cast<size_t>(row * config.target_vocab + label)]);
  }
}

}  // namespace
}  // namespace tril::bits_test
