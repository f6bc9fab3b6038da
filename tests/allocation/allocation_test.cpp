// Once warm, a step allocates nothing from the system. A separate program, because it counts every
// malloc of the process.
#include <atomic>
#include <cstdlib>

#include "support/models.h"
#include "support/sanitizers.h"
#include "tril/models/session_state.h"

namespace {
std::atomic<long> mallocs{0};
}

#if !TRIL_SANITIZED
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* calloc(size_t count, size_t size) {
  ++mallocs;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  ++mallocs;
  return __libc_realloc(memory, size);
}
void* malloc(size_t size) {
  ++mallocs;
  return __libc_malloc(size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  ++mallocs;
  return __libc_memalign(alignment, size);
}
}
#endif

namespace tril::allocation_test {
namespace {

using testing::Batch;
using testing::pack;
using testing::Sentence;

TransformerConfig config() {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = 50;
  config.model = 32;
  config.heads = config.kv_heads = 2;
  config.head_dim = 16;
  config.feed_forward = 64;
  config.encoder_layers = config.decoder_layers = 2;
  return config;
}

TEST(Allocation, TheCounterCounts) {
  if (TRIL_SANITIZED == 1) GTEST_SKIP() << "a sanitizer owns malloc here";
  const long before = mallocs;
  void* volatile memory = std::malloc(10);
  EXPECT_EQ(mallocs, before + 1);
  std::free(memory);
}

TEST(Allocation, AWarmTrainingStepAllocatesNothing) {
  if (TRIL_SANITIZED == 1) GTEST_SKIP() << "a sanitizer owns malloc here";
  Transformer model(config(), 1);
  Session session(model, 2);
  model.prepare_training(session);
  AdamWOptimizer optimizer(model, {});
  const Batch batch = pack({{{1, 2, 3}, {4, 5, 6, 7}}, {{9, 8}, {7, 6, 5}}}, config());
  for (int step = 0; step < 8; ++step) {
    session->dropout = DropoutStep{.seed = 1, .step = static_cast<uint32_t>(step)};
    const long before = mallocs;
    session.reset();
    {
      Tape tape(session);
      const Memory memory = model.encode(batch.source, session);
      const Tensor hidden = model.forward(batch.target, memory, session);
      const Tensor loss = model.loss(hidden, batch.labels, {.smoothing = 0.1f}, session);
      optimizer.step(tape.backward(loss), 1e-3f, session);
    }
    if (step >= 3) {
      EXPECT_EQ(mallocs - before, 0) << "step " << step;
    }
  }
}

TEST(Allocation, AWarmDecodingStepAllocatesNothing) {
  if (TRIL_SANITIZED == 1) GTEST_SKIP() << "a sanitizer owns malloc here";
  const Transformer model(config(), 1);
  Session session(model, 2);
  Rows source;
  source.add_sequence(std::vector<int32_t>{1, 2, 3}, {.slot = 0});
  const Memory memory = model.encode(source, session);
  Rows rows;
  rows.add(1, {.slot = 0, .segment = 0});
  for (int sentence = 0; sentence < 3; ++sentence) {
    session->cache.release_all();
    rows.slots[0] = session->cache.open();
    // A second hypothesis that is dropped and forked from the first again after each step.
    int32_t second = session->cache.fork(rows.slots[0]);
    for (int32_t position = 0; position < 50; ++position) {
      const long before = mallocs;
      session.reset();
      rows.positions[0] = position;
      model.log_probs(model.forward(rows, memory, session), session);
      session->cache.release(second);
      second = session->cache.fork(rows.slots[0]);
      if (sentence >= 1) {
        EXPECT_EQ(mallocs - before, 0) << "position " << position;
      }
    }
  }
}

}  // namespace
}  // namespace tril::allocation_test
