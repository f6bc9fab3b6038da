// A Session as programs use it: slots, dropout, masking.
#include "tril/models/session.h"

#include "support/models.h"
#include "tril/autograd/tape.h"

namespace tril::session_test {
namespace {

using testing::Family;
using testing::raised_by;

// The logits of some tokens of a sequence that is in `slot` up to `first`.
std::vector<float> logits_of(const Transformer& model, std::vector<int32_t> tokens, int32_t slot,
                             int32_t first, Session& session) {
  session.reset();
  Rows rows;
  rows.add_sequence(tokens, {.slot = slot, .first = first});
  return to_floats(model.logits(model.forward(rows, {}, session), session));
}

class SessionTest : public ::testing::Test {
 protected:
  Transformer model_ = testing::random_model(testing::tiny_config(Family::decoder_only), 3);
  Session session_{model_, 1};
};

TEST_F(SessionTest, ForksContinueByThemselves) {
  const int32_t slot = session_.open();
  logits_of(model_, {1, 2}, slot, 0, session_);
  const int32_t other = session_.fork(slot);
  EXPECT_NE(other, slot);
  EXPECT_EQ(session_.length(other), 2);
  const auto through_fork = logits_of(model_, {4}, other, 2, session_);
  EXPECT_EQ(session_.length(slot), 2);
  logits_of(model_, {3}, slot, 2, session_);
  const int32_t alone = session_.open();
  logits_of(model_, {1, 2}, alone, 0, session_);
  EXPECT_EQ(logits_of(model_, {4}, alone, 2, session_), through_fork);
}

TEST_F(SessionTest, ATruncatedSequenceContinuesFromThere) {
  const int32_t slot = session_.open();
  logits_of(model_, {1, 2}, slot, 0, session_);
  const auto third = logits_of(model_, {3}, slot, 2, session_);
  session_.truncate(slot, 2);
  EXPECT_EQ(session_.length(slot), 2);
  EXPECT_EQ(logits_of(model_, {3}, slot, 2, session_), third);
}

TEST_F(SessionTest, AClosedSlotIsReusedAndMayNotBeUsed) {
  const int32_t slot = session_.open();
  session_.close(slot);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { session_.close(slot); }, [&] { session_.length(slot); },
           [&] { session_.fork(slot); }, [&] { session_.truncate(slot, 0); }}) {
    EXPECT_EQ(raised_by(call).code, ErrorCode::invalid_argument);
  }
  EXPECT_EQ(session_.open(), slot);
  EXPECT_EQ(session_.length(slot), 0);
}

TEST_F(SessionTest, MaskingAndDropoutAreThoseThatWereSet) {
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  config.dropout = 0.5;
  const Transformer model = testing::random_model(config, 3);
  Session session(model, 1);
  const auto trained = [&] {
    session.reset();
    const Tape tape(session);
    Rows rows;
    rows.add_sequence(std::vector<int32_t>{1, 2, 3}, {.slot = 0});
    return to_floats(model.logits(model.forward(rows, {}, session), session));
  };
  const auto plain = trained();
  session.set_masking(Masking::none);
  EXPECT_NE(trained(), plain);
  session.set_masking(Masking::causal);
  EXPECT_EQ(trained(), plain);
  session.set_dropout({{.seed = 1, .step = 1}});
  const auto dropped = trained();
  EXPECT_NE(dropped, plain);
  session.set_dropout({{.seed = 1, .step = 2}});
  EXPECT_NE(trained(), dropped);
  session.set_dropout({});
  EXPECT_EQ(trained(), plain);
}

TEST_F(SessionTest, IsNotResetUnderATape) {
  {
    const Tape tape(session_);
    EXPECT_EQ(raised_by([&] { session_.reset(); }).code, ErrorCode::invalid_argument);
  }
  session_.reset();
  EXPECT_EQ(session_.device(), testing::device());
}

}  // namespace
}  // namespace tril::session_test
