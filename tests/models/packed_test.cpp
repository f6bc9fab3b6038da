// Models that only infer: the same function in another form, whatever the weights are kept in.
#include <filesystem>

#include "support/models.h"
#include "support/temp_folder.h"
#include "tril/base/cpu.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"
#include "tril/kernels/gemm_bf16_dot.h"
#include "tril/models/session_state.h"

namespace tril::packed_test {
namespace {

using testing::all_forms;
using testing::Batch;
using testing::equal_bits;
using testing::Family;
using testing::floats_of;
using testing::pack;
using testing::raised_by;
using testing::random_config;
using testing::random_model;
using testing::random_sentences;
using testing::rows_of;
using testing::same_bits;
using testing::Sentence;
using testing::TempFolder;

constexpr auto kOnCpu = "packed forms are the CPU's";

// Logits of whole sentences in one call, without a tape.
std::vector<float> one_call(const Transformer& model, const Batch& batch, Session& session) {
  session.reset();
  session->cache.release_all();
  const Memory memory =
      model.config().decoder_only() ? Memory() : model.encode(batch.source, session);
  Rows rows = batch.target;
  for (int32_t& slot : rows.slots) {
    if (slot >= 0) {
      while (!session->cache.is_open(slot)) session->cache.open();
    }
  }
  const Tensor hidden = model.forward(rows, memory, session);
  std::vector<float> logits = floats_of(model.logits(hidden, session));
  session->cache.release_all();
  return logits;
}

RC_GTEST_PROP(Packed, Fp32HasTheBitsOfTheModelItWasMadeFrom, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const Batch batch = pack(random_sentences(config, 3, 30), config);
  Session session(model, 2);
  RC_ASSERT(equal_bits(one_call(model.packed(Compute::fp32), batch, session),
                       one_call(model, batch, session)));
}

// Weights that were packed or rounded while they were loaded give the bits of those that were kept.
RC_GTEST_PROP(Packed, InferenceHasTheBitsOfStudy, ()) {
  const testing::TempFolder folder;
  const TransformerConfig config = random_config();
  random_model(config, *rc::gen::arbitrary<uint64_t>()).save(folder / "m");
  const Transformer study = Transformer::load(folder / "m", testing::loading(Purpose::study));
  const Transformer infers = Transformer::load(folder / "m", testing::loading(Purpose::inference));
  const Batch batch = pack(random_sentences(config, 3, 20), config);
  Session session(study, 2);
  const std::vector<float> expected = one_call(study, batch, session);
  RC_ASSERT(equal_bits(one_call(infers, batch, session), expected));
  RC_ASSERT(infers.parameters().empty());
  RC_ASSERT(infers.parameter_count() == study.parameter_count());
}

// bf16 is storage: the fp32 model whose matrices were rounded.
RC_GTEST_PROP(Packed, BFloat16IsTheModelWithItsMatricesRounded, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config();
  Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const Batch batch = pack(random_sentences(config, 3, 30), config);
  Session session(model, 2);
  const std::vector<float> got = one_call(model.packed(Compute::bf16), batch, session);
  const std::vector<float> before = one_call(model, batch, session);
  for (const auto& parameter : model.writable_parameters()) {
    // Positions that were learnt are added, not multiplied by, and stay as they are.
    const bool added = parameter.name.find("_position.") != std::string::npos ||
                       parameter.name.find("relative_bias.") != std::string::npos;
    if (parameter.tensor.shape().rank() != 2 || added) continue;
    float* weights = parameter.tensor.data();
    for (int64_t i = 0; i < parameter.tensor.size(); ++i) weights[i] = to_f32(to_bf16(weights[i]));
  }
  model.weights_changed(session);
  RC_ASSERT(equal_bits(got, one_call(model, batch, session)));
  RC_ASSERT(!equal_bits(got, before));  // or rounding would have gone unseen
}

// The promise holds in every form: all at once, or token by token in any batch.
RC_GTEST_PROP(Packed, TheParallelPassEqualsStepwiseDecoding, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config();
  const Compute compute = *rc::gen::elementOf(all_forms());
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>()).packed(compute);
  const auto sentences = random_sentences(config, *rc::gen::inRange(1, 5), 40);
  const Batch batch = pack(sentences, config);
  Session session(model, *rc::gen::inRange(1, 4));
  const std::vector<float> parallel = one_call(model, batch, session);

  session.reset();
  const Memory memory = config.decoder_only() ? Memory() : model.encode(batch.source, session);
  std::vector<int32_t> slots;
  for (size_t i = 0; i < sentences.size(); ++i) slots.push_back(session->cache.open());
  size_t longest = 0;
  for (const Sentence& sentence : sentences) longest = std::max(longest, sentence.target.size());
  for (size_t position = 0; position < longest; ++position) {
    Rows rows;
    std::vector<size_t> of;
    for (size_t i = 0; i < sentences.size(); ++i) {
      if (position >= sentences[i].target.size()) continue;
      rows.add(sentences[i].target[position], {.slot = slots[i],
                                               .segment = static_cast<int32_t>(i),
                                               .first = static_cast<int32_t>(position)});
      of.push_back(i);
    }
    session.reset();
    const auto logits = floats_of(model.logits(model.forward(rows, memory, session), session));
    for (size_t r = 0; r < of.size(); ++r) {
      const int64_t row = batch.first_row[of[r]] + static_cast<int64_t>(position);
      RC_ASSERT(equal_bits(rows_of(logits, config.target_vocab, static_cast<int64_t>(r)),
                           rows_of(parallel, config.target_vocab, row)));
    }
  }
}

// With 127 steps up to a row's largest weight, an element is off by at most half a step, and so is
// an activation. This bound is not tight; it finds a wrong scale or a lost sum.
TEST(Packed, Int8IsNearTheModelItWasMadeFrom) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  config.model = config.feed_forward = 64;
  const Transformer model(config, 3);
  const Batch batch = pack({{{5, 6, 7}, {2, 4, 6}}}, config);
  Session session(model, 1);
  const auto exact = one_call(model, batch, session);
  const auto rounded = one_call(model.packed(Compute::int8), batch, session);
  double squares = 0.0;
  double difference = 0.0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double off = static_cast<double>(exact[i]) - static_cast<double>(rounded[i]);
    squares += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
    difference += off * off;
  }
  EXPECT_LT(difference, 0.01 * squares);
  EXPECT_GT(difference, 0.0);
}

class PackedFolder : public ::testing::Test {
 protected:
  PackedFolder()
      : config_(testing::tiny_config(Family::encoder_decoder)),
        model_(config_, 1),
        session_(model_, 1),
        batch_(pack({{{5, 6, 7}, {2, 4, 6}}}, config_)) {
    model_.save(folder_ / "m");
  }
  void SetUp() override {
    if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  }
  std::vector<float> logits(const Transformer& model) { return one_call(model, batch_, session_); }

  TempFolder folder_;
  TransformerConfig config_;
  Transformer model_;
  Session session_;
  Batch batch_;
};

// Where the processor cannot multiply so, one line says it.
TEST_F(PackedFolder, DotProductsNeedAProcessorThatHasThem) {
  const Target before = current_target();
  use_target(available_targets().back());  // the one that can the least
  if (!kernels::has_bf16_dot()) {
    const auto error = raised_by([&] { model_.packed(Compute::bf16_dot); });
    EXPECT_EQ(error.code, ErrorCode::unsupported);
    EXPECT_NE(error.text.find("AVX512_BF16"), std::string::npos);
  }
  use_target(before);
}

TEST_F(PackedFolder, IsMappedWithTheBitsOfPackingNow) {
  for (const Compute compute : all_forms()) {
    const auto expected = logits(model_.packed(compute));
    EXPECT_TRUE(
        same_bits(logits(Transformer::load(folder_ / "m", {.compute = compute})), expected));
    Transformer::save_packed(folder_ / "m", folder_ / "m", compute);
    const Transformer mapped = Transformer::load(folder_ / "m", {.compute = compute});
    EXPECT_EQ(mapped.compute(), compute);
    EXPECT_EQ(mapped.parameter_count(), model_.parameter_count());
    EXPECT_TRUE(same_bits(logits(mapped), expected));
    const std::string alone = folder_ / std::string(word_for(compute));
    Transformer::save_packed(folder_ / "m", alone, compute);
    EXPECT_FALSE(std::filesystem::exists(alone + "/model.safetensors"));
    EXPECT_TRUE(same_bits(logits(Transformer::load(alone)), expected));
  }
}

// A notice says so; there is none if the packed weights are used.
TEST_F(PackedFolder, OfOtherWeightsIsNotUsed) {
  Transformer::save_packed(folder_ / "m", folder_ / "m", Compute::int8);
  std::vector<std::string> heard;
  const auto load = [&](Compute compute) {
    return Transformer::load(
        folder_ / "m", {.compute = compute,
                        .notice = [&](const Notice& notice) { heard.push_back(notice.text); }});
  };
  load(Compute::int8);
  load(Compute::bf16);
  EXPECT_EQ(heard, std::vector<std::string>());
  const Transformer other(config_, 2);
  other.save(folder_ / "m");
  EXPECT_TRUE(same_bits(logits(load(Compute::int8)), logits(other.packed(Compute::int8))));
  const std::string file = folder_ / "m/packed.int8.safetensors";
  ASSERT_EQ(heard, std::vector<std::string>{file + ": not used, it was made from other weights"});
  Arena arena;
  SafetensorsInfo info;
  const std::vector<NamedTensor> tensors = load_safetensors(file, arena, &info);
  SafetensorsMetadata metadata = info.metadata;
  metadata["tril_packed"] = "0";
  save_safetensors(file, tensors, metadata);
  heard.clear();
  load(Compute::int8);
  EXPECT_EQ(heard, std::vector<std::string>{
                       file + ": not used, it was packed by another version of tril"});
}

// What cannot be done with packed weights alone is refused in a line that says what to give
// instead.
TEST_F(PackedFolder, AloneIsNoModelToLoadOrPack) {
  Transformer::save_packed(folder_ / "m", folder_ / "alone", Compute::int8);
  const std::string expected =
      (folder_ / "alone") +
      ": has only packed weights (packed.int8.safetensors), which are for inference on the "
      "CPU; for this the folder they were made from is needed, the one with model.safetensors";
  EXPECT_EQ(
      raised_by([&] { Transformer::load(folder_ / "alone", {.purpose = Purpose::study}); }).text,
      expected);
  EXPECT_EQ(raised_by([&] {
              Transformer::save_packed(folder_ / "alone", folder_ / "alone", Compute::bf16);
            }).text,
            expected);
  EXPECT_EQ(raised_by([&] {
              Transformer::save_packed(folder_ / "none", folder_ / "none", Compute::bf16);
            }).text,
            (folder_ / "none") + ": no such folder");
  // Nothing at all is another matter.
  std::filesystem::remove(folder_ / "alone/packed.int8.safetensors");
  EXPECT_NE(raised_by([&] {
              Transformer::load(folder_ / "alone", {.purpose = Purpose::study});
            }).text.find("cannot open"),
            std::string::npos);
}

TEST_F(PackedFolder, HasNoGradientsAndIsNotSaved) {
  const Transformer packed = model_.packed(Compute::fp32);
  session_.reset();
  Tape tape(session_);
  EXPECT_NE(raised_by([&] { packed.encode(batch_.source, session_); }).text.find("no gradients"),
            std::string::npos);
  EXPECT_EQ(raised_by([&] { packed.save(folder_ / "p"); }).code, ErrorCode::unsupported);
  EXPECT_EQ(raised_by([&] { packed.packed(Compute::int8); }).code, ErrorCode::unsupported);
}

TEST_F(PackedFolder, IsNotWrittenBesideAnotherModel) {
  TransformerConfig other = config_;
  other.norm_position = NormPosition::pre;
  Transformer(other, 1).save(folder_ / "other");
  const auto raised =
      raised_by([&] { Transformer::save_packed(folder_ / "m", folder_ / "other", Compute::int8); });
  EXPECT_NE(raised.text.find("another model"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other/packed.int8.safetensors"));
}

TEST_F(PackedFolder, SaysWhatIsWrong) {
  const auto raised = [&](const std::string& folder, std::optional<Compute> compute = {}) {
    return raised_by([&] { Transformer::load(folder_ / folder, {.compute = compute}); });
  };
  const auto error = [&](const std::string& folder, std::optional<Compute> compute = {}) {
    return raised(folder, compute).text;
  };
  Transformer::save_packed(folder_ / "m", folder_ / "alone", Compute::int8);
  EXPECT_EQ(raised("alone", Compute::bf16).field, "compute");
  EXPECT_EQ(error("alone", Compute::bf16),
            (folder_ / "alone") +
                ": has only packed.int8.safetensors, nothing for bf16 (model.safetensors is "
                "in the folder they were made from)");
  Transformer::save_packed(folder_ / "m", folder_ / "alone", Compute::bf16);
  EXPECT_EQ(error("alone"), (folder_ / "alone") +
                                ": has packed.int8.safetensors and packed.bf16.safetensors and no "
                                "model.safetensors");
  std::filesystem::create_directory(folder_ / "bare");
  std::filesystem::copy_file(folder_ / "m/config.json", folder_ / "bare/config.json");
  EXPECT_NE(error("bare", Compute::int8).find("model.safetensors: not there, and no "),
            std::string::npos);

  const std::string file = folder_ / "alone/packed.int8.safetensors";
  Arena arena;
  SafetensorsInfo info;
  std::vector<NamedTensor> tensors = load_safetensors(file, arena, &info);
  SafetensorsMetadata metadata = info.metadata;
  metadata["tril_packed"] = "0";
  save_safetensors(file, tensors, metadata);
  EXPECT_NE(error("alone", Compute::int8).find("another version"), std::string::npos);
  metadata["tril_packed"] = "2";
  const auto last = tensors.back();
  tensors.pop_back();
  save_safetensors(file, tensors, metadata);
  EXPECT_NE(error("alone", Compute::int8).find(last.name), std::string::npos);
  tensors.push_back({last.name, Tensor(arena, {1})});
  save_safetensors(file, tensors, metadata);
  EXPECT_NE(error("alone", Compute::int8).find("asks for"), std::string::npos);
  write_file_atomically(file, "short");
  EXPECT_NE(error("alone", Compute::int8).find("truncated"), std::string::npos);
}

}  // namespace
}  // namespace tril::packed_test
