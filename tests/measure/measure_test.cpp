// What measurements count and how they are compared with the machine's peaks. Never how fast
// anything is: a busy machine must not fail a test.
#include "tril/measure/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "support/testing.h"
#include "tril/base/cpu.h"
#include "tril/base/error.h"
#include "tril/measure/cuda_groups.h"
#include "tril/measure/device_time.h"
#include "tril/measure/model_work.h"
#include "tril/measure/peak_loops.h"
#include "tril/measure/repeat.h"
#include "tril/measure/resident.h"
#include "tril/measure/work.h"

namespace tril::measure_test {
namespace {

// 100 GFLOP/s; 1 MB at 200 GB/s, then 10 GB/s; writing is free in the first, as dear as reading in
// the second.
Peaks simple_peaks() {
  return {.threads = 1,
          .gflops = 100.0,
          .int8_gops = 400.0,
          .bf16_gflops = 1000.0,
          .memory = {{"L2", 1'000'000, 200.0, 400.0}, {"memory", INT64_MAX, 10.0, 10.0}}};
}

TEST(Peaks, WritingCostsWhatUpdatingCostsAboveReading) {
  const std::vector<MemoryPeak> memory = simple_peaks().memory;
  EXPECT_DOUBLE_EQ(memory[0].seconds({.read = 2.0, .written = 0.0}), 0.01);
  EXPECT_DOUBLE_EQ(memory[0].seconds({.read = 2.0, .written = 5.0}), 0.01);
  EXPECT_DOUBLE_EQ(memory[1].seconds({.read = 2.0, .written = 3.0}), 0.5);
  // An update measured as faster than possible is not a gain.
  EXPECT_DOUBLE_EQ((MemoryPeak{"L2", 1, 100.0, 300.0}.seconds({1.0, 1.0})), 0.01);
}

TEST(Peaks, RoofIsTheLongerOfArithmeticAndBytes) {
  const Peaks peaks = simple_peaks();
  const Roof arithmetic = roof_of(peaks, Arithmetic::fp32, 1.0, {1e-4, 0.0});
  EXPECT_EQ(arithmetic.name, "fp32");
  EXPECT_DOUBLE_EQ(arithmetic.seconds, 0.01);
  const Roof bytes = roof_of(peaks, Arithmetic::fp32, 1e-6, {1e-4, 0.0});
  EXPECT_EQ(bytes.name, "L2");
  EXPECT_DOUBLE_EQ(bytes.seconds, 5e-7);
  const Roof products = roof_of(peaks, Arithmetic::int8, 1.0, {});
  EXPECT_EQ(products.name, "int8");
  EXPECT_DOUBLE_EQ(products.seconds, 0.0025);
  const Roof halves = roof_of(peaks, Arithmetic::bf16, 1.0, {});
  EXPECT_EQ(halves.name, "bf16");
  EXPECT_DOUBLE_EQ(halves.seconds, 0.001);
}

TEST(Peaks, RoofTakesTheNearestMemoryThatHoldsAll) {
  const Peaks peaks = simple_peaks();
  EXPECT_EQ(roof_of(peaks, Arithmetic::fp32, 0.0, {0.0009, 0.0001}).name, "L2");
  EXPECT_EQ(roof_of(peaks, Arithmetic::fp32, 0.0, {0.0009, 0.0002}).name, "memory");
}

TEST(Peaks, WhatHasNoPeakHasNoRoof) {
  Peaks peaks = simple_peaks();
  peaks.int8_gops = 0.0;
  EXPECT_EQ(roof_of(peaks, Arithmetic::int8, 1.0, {}).name, "");
  EXPECT_EQ(roof_of(peaks, Arithmetic::fp32, 0.0, {}).name, "");
  EXPECT_EQ(roof_of(peaks, Arithmetic::int8, 1.0, {1e-4, 0.0}).name, "L2");
}

TEST(Peaks, OfThisMachineAreThere) {
  const Peaks peaks = measure_peaks(2, 0.001);
  EXPECT_EQ(peaks.threads, 2);
  EXPECT_GT(peaks.gflops, 0.0);
  EXPECT_EQ(peaks.int8_gops > 0.0, current_target() == Target::avx512_vnni);
  ASSERT_FALSE(peaks.memory.empty());
  EXPECT_EQ(peaks.memory.back().name, "memory");
  for (size_t i = 0; i < peaks.memory.size(); ++i) {
    EXPECT_GT(peaks.memory[i].read, 0.0) << peaks.memory[i].name;
    EXPECT_GT(peaks.memory[i].update, 0.0) << peaks.memory[i].name;
    if (i > 0) {
      EXPECT_GT(peaks.memory[i].holds, peaks.memory[i - 1].holds);
    }
  }
}

TEST(Peaks, TimesAreChecked) {
  for (const double seconds : {0.0, -1.0}) {
    try {
      measure_peaks(1, seconds);
      ADD_FAILURE() << seconds << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::strstr(error.what(), "measure_peaks"), nullptr) << error.what();
    }
  }
}

TEST(PeakLoops, DoWhatTheyCount) {
  const int64_t once = fma_loop(1);
  EXPECT_GT(once, 0);
  EXPECT_EQ(fma_loop(1000), 1000 * once);
  EXPECT_EQ(int8_loop(1000), 1000 * int8_loop(1));
  // As many elements as every instruction set takes whole.
  std::vector<float> array(1024);
  std::iota(array.begin(), array.end(), 0.0f);
  EXPECT_EQ(read_loop(array.data(), 1024), 1023.0f * 512.0f);
  update_loop(array.data(), 1024);
  for (size_t i = 0; i < array.size(); ++i) ASSERT_EQ(array[i], static_cast<float>(i) + 1.0f);
}

TEST(Repeat, MedianCountsNoWarmUp) {
  int calls = 0;
  median_of_warm(
      0.0, [&] { ++calls; }, 3);
  EXPECT_EQ(calls, 3);
  calls = 0;
  median_seconds(
      0.0, [&] { ++calls; }, 5);
  EXPECT_EQ(calls, 7);
}

TEST(Repeat, ResultsSayTheirShareOfTheRoof) {
  MeasureOptions options;
  options.peaks = simple_peaks();
  Results results("gemm", options);
  results.add({.name = "a", .seconds = 0.04, .gflop = 1.0});
  results.add({.name = "b", .seconds = 0.04});
  const std::vector<Measurement> list = results.take();
  EXPECT_EQ(list[0].roof, "fp32");
  EXPECT_DOUBLE_EQ(list[0].share, 0.25);
  EXPECT_EQ(list[1].roof, "");
}

// Nothing can be faster than its roof: if a share says so, the reader is told what is wrong.
TEST(Measure, SharesAboveTheRoofAreExplained) {
  std::vector<Measurement> results(3);
  results[0].share = 1.004;  // shown as 100%
  results[1].share = 0.5;
  results[2] = {.group = "peaks", .share = 2.0};  // shown without a share
  EXPECT_EQ(above_roof(results), "");
  results[1].share = 1.01;
  EXPECT_EQ(above_roof(results).find("1 share is above 100%: "), 0u) << above_roof(results);
  results[0].share = 1.5;
  EXPECT_EQ(above_roof(results).find("2 shares are above 100%: "), 0u) << above_roof(results);
}

// The sentences that attention is measured on, whose number and tokens other systems had too.
TEST(DeviceWork, PackedLengthsAddUp) {
  const std::vector<int32_t> lengths = packed_lengths(800, 24681);
  ASSERT_EQ(lengths.size(), 800u);
  EXPECT_EQ(std::reduce(lengths.begin(), lengths.end(), 0), 24681);
  EXPECT_GE(*std::min_element(lengths.begin(), lengths.end()), 1);
  EXPECT_LE(*std::max_element(lengths.begin(), lengths.end()), 64);
  // Shorter ones, and the fewest tokens that leave one to the shortest sentence, of 4: three fewer
  // per sentence.
  const int64_t all = std::reduce(std::begin(kWorkLengths), std::end(kWorkLengths), int64_t{0});
  const std::vector<int32_t> fewest = packed_lengths(64, all - 3 * 64);
  EXPECT_EQ(*std::min_element(fewest.begin(), fewest.end()), 1);
  EXPECT_EQ(std::reduce(fewest.begin(), fewest.end(), int64_t{0}), all - 3 * 64);
  for (const int64_t tokens : {all - 4 * 64, int64_t{0}}) {
    EXPECT_THROW(packed_lengths(64, tokens), Error) << tokens;
  }
  EXPECT_THROW(packed_lengths(0, 10), Error);
}

TEST(DeviceWork, PackedBatchesAreOfOneSizeAndFull) {
  constexpr int64_t kRows = 500;
  const std::vector<Batch> batches = packed_batches(5, kRows, 300);
  ASSERT_EQ(batches.size(), 5u);
  for (const Batch& batch : batches) {
    EXPECT_EQ(batch.source.size(), kRows);
    EXPECT_EQ(batch.target.size(), kRows);
    ASSERT_EQ(std::ssize(batch.labels), kRows);
    // Only real tokens count: neither padding nor anything without a label.
    EXPECT_EQ(std::count_if(batch.labels.begin(), batch.labels.end(),
                            [](int32_t label) { return label >= 0; }),
              batch.target_tokens);
    EXPECT_GT(batch.target_tokens, kRows - 4);  // the shortest sentence has 4
    EXPECT_EQ(std::count(batch.target.slots.begin(), batch.target.slots.end(), -1),
              kRows - batch.target_tokens);
  }
  EXPECT_NE(batches[0].target.tokens, batches[1].target.tokens);
}

TEST(DeviceWork, UpdatesCountTheTokensOfTheirBatches) {
  TransformerConfig config = preset_config(Preset::tiny, 300);
  config.model = 16;
  config.heads = 2;
  config.feed_forward = 32;
  config.encoder_layers = config.decoder_layers = 1;
  Transformer model(config, 1);
  Session session(model, 1);
  const std::vector<Batch> batches = packed_batches(2, 100, 300);
  size_t drawn = 0;
  const TimedUpdates timed = time_updates(
      model, [&](Batch& batch) { batch = batches[drawn++ % 2]; },
      {.warm_up = 3, .least = 4, .budget = 0.0}, session);
  EXPECT_EQ(drawn, 7u);
  EXPECT_EQ(timed.target_tokens, static_cast<double>(batches[0].target_tokens));
  EXPECT_GT(timed.seconds, 0.0);
}

// Two products forward and five backward over the allowed half, three arrays in and one out.
TEST(DeviceWork, AttentionCountsItsFormula) {
  MeasureOptions options;
  options.placement = testing::placement();
  options.seconds_each = 0.001;
  options.match = "800 packed";
  const std::vector<Measurement> rows = measure_cuda_attention(options);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "800 packed, 8x64 forward");
  EXPECT_EQ(rows[1].name, "800 packed, 8x64 backward");
  double pairs = 0.0;
  for (const int32_t length : packed_lengths(800, 24681)) pairs += length * (length + 1) / 2;
  EXPECT_DOUBLE_EQ(rows[0].gflop, 2e-9 * pairs * 2 * 8 * 64);
  EXPECT_DOUBLE_EQ(rows[1].gflop, 2.5 * rows[0].gflop);
  const auto tensor = 1e-9 * static_cast<double>(24681 * 8 * 64 * size_of(testing::activations()));
  EXPECT_DOUBLE_EQ(rows[0].traffic.read, 3 * tensor);
  EXPECT_DOUBLE_EQ(rows[1].traffic.written, 3 * tensor);
  for (const Measurement& row : rows) EXPECT_GT(row.seconds, 0.0) << row.name;
}

TEST(DeviceWork, ProductsCountTheirFormula) {
  MeasureOptions options;
  options.threads = 1;
  options.placement = testing::placement();
  options.seconds_each = 0.001;
  options.match = "1x512x512";
  const std::vector<Measurement> rows = measure_cuda_gemm(options);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].arithmetic, Arithmetic::bf16);
  EXPECT_DOUBLE_EQ(rows[0].gflop, 2e-9 * 512 * 512);
  EXPECT_DOUBLE_EQ(rows[0].traffic.read, 2e-9 * (512 + 512 * 512));
  EXPECT_DOUBLE_EQ(rows[0].traffic.written, 2e-9 * 512);
}

// Timed calls leave the memory as it was, however often they run.
TEST(DeviceWork, TimedCallsGiveTheirMemoryBack) {
  Context context(1, testing::placement());
  const int64_t before = context.arena.used_bytes();
  int calls = 0;
  const double seconds = device_seconds(context, 0.0, [&] {
    ++calls;
    context.arena.allocate(1000);
  });
  EXPECT_GE(calls, 5);
  EXPECT_GE(seconds, 0.0);
  EXPECT_EQ(context.arena.used_bytes(), before);
}

// 2.6 M weights, as other systems were measured with.
TEST(DeviceWork, TinyIsAsLargeAsItSays) {
  const int64_t weights = Transformer(preset_config(Preset::tiny, 10000), 1).parameter_count();
  EXPECT_GE(weights, 2'550'000);
  EXPECT_LT(weights, 2'650'000);
}

TEST(DeviceWork, WithoutAGpuThereIsOneClearError) {
  if (gpus().problem.empty()) GTEST_SKIP() << "there is a GPU";
  MeasureOptions options;
  options.placement = Device::cuda();
  for (const auto measure :
       {measure_machine, measure_gemm, measure_attention, measure_training, measure_translation}) {
    try {
      measure(options);
      ADD_FAILURE() << "measured without a GPU";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device);
      EXPECT_NE(std::strstr(error.what(), gpus().problem.c_str()), nullptr) << error.what();
    }
  }
}

TEST(Resident, PeakSeesWhatIsTouchedAndForgetsWhatIsGone) {
  constexpr size_t kBytes = size_t{96} << 20;
  reset_peak_resident();
  const double before = peak_resident();
  ASSERT_GT(before, 0.0);
  {
    const std::vector<char> block(kBytes, 1);
    EXPECT_EQ(block.back(), 1);
  }
  // The system may count some pages late, and does not count memory that was requested but not
  // used.
  const double with = peak_resident();
  EXPECT_GT(with, before + 90.0);
  reset_peak_resident();
  // Where the peak cannot be counted anew it stays; it never grows by that.
  EXPECT_LE(peak_resident(), with);
}

TEST(ModelWork, TokensAreThoseAskedFor) {
  TransformerConfig config = preset_config(Preset::tiny, 300);
  config.model = 16;
  config.heads = 2;
  config.feed_forward = 32;
  config.encoder_layers = config.decoder_layers = 1;
  Random random(1);
  std::vector<std::vector<int32_t>> sources;
  std::vector<LearnPair> pairs;
  for (const int64_t length : {3, 5, 9}) {
    sources.push_back(work_sentence(length, 300, random));
    pairs.push_back({sources.back(), work_sentence(length, 300, random)});
  }
  // Longer than the warm-up, which is cut at 32.
  const Transformer model(config, 1);
  const TimedTranslation translation =
      time_translation(model, {.sources = sources, .tokens_out = 40, .batch = 2}, 0.0, 1);
  EXPECT_EQ(translation.tokens, 3 * 40.0);
  EXPECT_GT(translation.seconds, 0.0);
  // A shortlist is really used: one of another vocabulary is refused.
  Session session(model, 1);
  ShortlistTable table{.target_vocab = 300, .always = {kWorkEnd, 7, 9}, .listed = {}};
  TranslationWork listed{.sources = sources, .tokens_out = 5, .batch = 3};
  table.listed.resize(300);
  listed.shortlist = Shortlist(table);
  EXPECT_EQ(translate_work(model, listed, session), 3 * 5.0);
  table.target_vocab = 299;
  listed.shortlist = Shortlist(table);
  EXPECT_THROW(translate_work(model, listed, session), Error);
  const TimedUpdates updates = time_training(config, pairs, 17, 2, 0.0, 1);
  EXPECT_EQ(updates.target_tokens, 17.0);
  EXPECT_EQ(updates.source_tokens, 17.0);
  EXPECT_GT(updates.seconds, 0.0);
}

// Both measurements of translation, with a shortlist and without, are given the same sentences.
TEST(ModelWork, SourcesAreTheFirstOfTheWork) {
  const auto all = translation_sources(std::size(kWorkLengths));
  ASSERT_EQ(all.size(), 64u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(std::ssize(all[i]), kWorkLengths[i]);
  const auto few = translation_sources(4);
  ASSERT_EQ(few.size(), 4u);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin()));
  EXPECT_THROW(translation_sources(65), Error);
}

TEST(Measure, GrowthHasPointsOnCurves) {
  MeasureOptions options;
  options.threads = 1;
  options.seconds_each = 0.001;
  options.match = "attention by length";
  const std::vector<Measurement> points = measure_growth(options);
  ASSERT_EQ(points.size(), 9u);
  int64_t length = 16;
  for (const Measurement& point : points) {
    EXPECT_EQ(point.series, "attention by length");
    EXPECT_EQ(point.at, length);
    EXPECT_EQ(point.name, concat("attention by length ", length));
    length *= 2;
  }
  // Linear: eight times the length, about eight times the memory and never 64 times.
  EXPECT_LT(points[8].mebibytes, 8.5 * points[5].mebibytes);
  options.match = "translate int8 by batch 16";
  const std::vector<Measurement> batches = measure_growth(options);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].tokens, 16 * 32.0);
  EXPECT_GT(batches[0].resident, 0.0);
  options.match = "held 4";
  const std::vector<Measurement> held = measure_growth(options);
  ASSERT_EQ(held.size(), 2u);  // 4 and 48
  EXPECT_EQ(held[1].at, 48);
  EXPECT_DOUBLE_EQ(held[1].traffic.read, 1e-9 * (1 << 20));  // of one call, whatever is held
}

TEST(Measure, ProductsCountTheirFormula) {
  MeasureOptions options;
  options.threads = 1;
  options.seconds_each = 0.001;
  options.match = "6x512x512";
  const std::vector<Measurement> fp32 = measure_gemm(options);
  ASSERT_EQ(fp32.size(), 1u);
  EXPECT_DOUBLE_EQ(fp32[0].gflop, 2e-9 * 6 * 512 * 512);
  EXPECT_DOUBLE_EQ(fp32[0].traffic.read, 4e-9 * (6 * 512 + 512 * 512));
  EXPECT_DOUBLE_EQ(fp32[0].traffic.written, 4e-9 * 6 * 512);
  EXPECT_EQ(fp32[0].roof, "");  // no peaks given
  options.match = "4x512x512";
  const std::vector<Measurement> int8 = measure_gemm_int8(options);
  ASSERT_EQ(int8.size(), 2u);  // 4 and 1024 rows
  EXPECT_EQ(int8[0].arithmetic, Arithmetic::int8);
  EXPECT_DOUBLE_EQ(int8[0].traffic.read, 1e-9 * (4 * 4 * 512 + 512 * 512));
}

}  // namespace
}  // namespace tril::measure_test
