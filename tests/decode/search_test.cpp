// Search against plain, slow statements of what it means, in ids and in bits.
#include "tril/decode/search.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "slow_search.h"
#include "support/models.h"
#include "tril/device/device.h"
#include "tril/models/session_state.h"

namespace tril::search_test {
namespace {

using testing::Family;
using testing::raised_by;
using testing::random_config;
using testing::random_model;
using testing::random_requests;
using testing::run_search;
using testing::same;
using testing::sharp_model;
using testing::small_options;

// All weights are zero, so that all tokens are equally likely.
void make_all_alike(Transformer& model) {
  testing::change_weights(model, [](const std::string&, std::vector<float>& values, const Shape&) {
    std::fill(values.begin(), values.end(), 0.0f);
  });
}

RC_GTEST_PROP(Search, BeamEqualsTheSlowBeam, ()) {
  if (testing::passed_over_on_cuda(10)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  SearchOptions options = small_options();
  options.beam = *rc::gen::inRange<int64_t>(1, 6);
  options.n_best = *rc::gen::inRange<int64_t>(1, options.beam + 1);
  options.length_penalty = *rc::gen::element(0.0, 0.6, 1.0, 1.7, -0.5);
  options.max_tokens = *rc::gen::inRange<int64_t>(0, 10);
  options.max_ratio = *rc::gen::element(0.0, 0.3);
  if (*rc::gen::arbitrary<bool>()) options.forbidden.clear();
  auto requests = random_requests(config, *rc::gen::inRange(1, 5), 9, 3, options.end);
  if (*rc::gen::arbitrary<bool>()) {
    testing::add_random_rules(options, config);
    for (SearchRequest& request : requests) testing::fit_to_rules(request, options);
  }
  Session session(model, *rc::gen::inRange(1, 3));
  std::vector<SearchResult> results;
  try {
    results = run_search(model, options, options.beam + *rc::gen::inRange<int64_t>(0, 12), requests,
                         session);
  } catch (const Error& error) {
    // Rules may forbid every token of a small vocabulary, and before min_tokens every END.
    RC_ASSERT(std::string(error.what()).ends_with("(NaN, or all forbidden)"));
    RC_ASSERT(options.changes_values() || options.min_tokens > 0);
    return;
  }
  RC_ASSERT(results.size() == requests.size());
  for (size_t i = 0; i < results.size(); ++i) {
    RC_ASSERT(same(results[i].hypotheses, testing::slow_beam(model, requests[i], options)));
  }
  RC_ASSERT(session->cache.block_count() == 0);
}

// Where all continuations are equally likely, only the order among equals decides.
TEST(Search, TiesGoToTheEarlierHypothesisAndTheLowerToken) {
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    Transformer model = sharp_model(family, 7, 1);
    make_all_alike(model);
    SearchRequest request;
    if (family == Family::encoder_decoder) request.source = {3, 4};
    for (const int32_t end : {1, 4, 6}) {
      SearchOptions options = small_options();
      options.end = end;
      options.beam = options.n_best = 3;
      options.max_tokens = 5;
      Session session(model, 1);
      const auto found = run_search(model, options, 3, {request}, session)[0].hypotheses;
      EXPECT_TRUE(same(found, testing::slow_beam(model, request, options)));
      if (end == 6) {
        EXPECT_EQ(found[0].tokens, (testing::Tokens{1, 1, 1, 1, 1}));
        EXPECT_EQ(found[2].tokens, (testing::Tokens{1, 1, 1, 1, 3}));
      }
    }
  }
}

// With a model to which all tokens are equally likely, and ranks that grow with the length, cut
// hypotheses, the longest there are, rank above those that ended, and yet come after them.
TEST(Search, WhatEndedComesBeforeWhatWasCut) {
  Transformer model = sharp_model(Family::encoder_decoder, 7, 1);
  make_all_alike(model);
  SearchOptions options = small_options();
  options.beam = options.n_best = 4;
  options.max_tokens = 2;
  options.length_penalty = 2.0;
  SearchRequest request;
  request.source = {3, 4};
  Session session(model, 1);
  const auto found = run_search(model, options, 4, {request}, session)[0].hypotheses;
  EXPECT_TRUE(same(found, testing::slow_beam(model, request, options)));
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].tokens, (testing::Tokens{2, 1}));
  EXPECT_EQ(found[1].tokens, (testing::Tokens{1}));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].ended, i < 2) << i;
  EXPECT_LT(found[1].rank, found[2].rank);
}

// No limit but the model's own.
TEST(Search, NoMaxTokensIsAsManyAsTheModelTakes) {
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    const Transformer model = sharp_model(family, 6, 4, 300);
    SearchOptions options = small_options();
    options.forbidden = {1};  // END
    options.max_tokens = 0;
    options.max_ratio = 0.0;
    SearchRequest request;
    if (family == Family::encoder_decoder) request.source = {2};
    request.prefix = {2, 2};
    Session session(model, 1);
    EXPECT_EQ(run_search(model, options, 1, {request}, session)[0].hypotheses[0].tokens.size(),
              300u);
  }
}

RC_GTEST_PROP(Search, ABeamOfOneIsGreedy, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const Transformer model =
      sharp_model(*rc::gen::element(Family::encoder_decoder, Family::decoder_only), 6,
                  *rc::gen::arbitrary<uint64_t>());
  SearchOptions options = small_options();
  options.length_penalty = *rc::gen::element(0.0, 1.0, 3.0);
  const auto requests = random_requests(model.config(), 4, 6, 2, options.end);
  Session session(model, 1);
  const auto results = run_search(model, options, 3, requests, session);
  for (size_t i = 0; i < results.size(); ++i) {
    RC_ASSERT(results[i].hypotheses.size() == 1u);
    RC_ASSERT(same(results[i].hypotheses[0], testing::slow_greedy(model, requests[i], options)));
  }
}

// A beam that nothing falls out of finds everything, in order.
RC_GTEST_PROP(Search, AWideBeamIsExhaustiveSearch, ()) {
  if (testing::passed_over_on_cuda(10)) return;
  const int64_t vocab = *rc::gen::inRange<int64_t>(4, 7);
  const Transformer model =
      sharp_model(*rc::gen::element(Family::encoder_decoder, Family::decoder_only), vocab,
                  *rc::gen::arbitrary<uint64_t>());
  SearchOptions options = small_options();
  options.forbidden = {0, 2};
  options.max_tokens = vocab < 6 ? 4 : 3;
  options.length_penalty = *rc::gen::element(0.0, 1.0, 2.0);
  const auto request = random_requests(model.config(), 1, 5, 1, options.end)[0];
  const auto all = testing::all_hypotheses(model, request, options);
  options.beam = static_cast<int64_t>(all.size());
  options.n_best = *rc::gen::inRange<int64_t>(1, options.beam + 1);
  Session session(model, 2);
  const auto found = run_search(model, options, options.beam, {request}, session)[0].hypotheses;
  RC_ASSERT(found.size() == static_cast<size_t>(options.n_best));
  for (size_t i = 0; i < found.size(); ++i) {
    // Hypotheses of equal rank may change places: exhaustive search knows no beam's order.
    RC_ASSERT(found[i].rank == all[i].rank);
    RC_ASSERT(std::any_of(all.begin(), all.end(),
                          [&](const Hypothesis& h) { return same(h, found[i]); }));
  }
}

// The result for a sentence does not depend on anything around it.
RC_GTEST_PROP(Search, SlotsThreadsAndBatchChangeNothing, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  SearchOptions options = small_options();
  options.sample = *rc::gen::arbitrary<bool>();
  options.beam = options.sample ? 1 : *rc::gen::inRange<int64_t>(1, 5);
  options.n_best = *rc::gen::inRange<int64_t>(1, options.sample ? 5 : options.beam + 1);
  options.top_k = *rc::gen::inRange<int64_t>(0, 5);
  options.top_p = *rc::gen::element(1.0, 0.7);
  auto requests = random_requests(config, 12, 12, 4, options.end);
  Session alone(model, 1);
  std::vector<SearchResult> expected;
  for (const SearchRequest& request : requests) {
    expected.push_back(run_search(model, options, 5, {request}, alone)[0]);
  }
  for (const int64_t slots : {int64_t{5}, int64_t{7}, int64_t{64}}) {
    for (const int threads : {1, 2}) {
      for (size_t i = requests.size() - 1; i > 0; --i) {
        std::swap(requests[i], requests[*rc::gen::inRange<size_t>(0, i + 1)]);
      }
      Session session(model, threads);
      const auto results = run_search(model, options, slots, requests, session);
      RC_ASSERT(results.size() == expected.size());
      for (size_t i = 0; i < results.size(); ++i) {
        RC_ASSERT(same(results[i].hypotheses, expected[i].hypotheses));
      }
      RC_ASSERT(session->cache.block_count() == 0);
    }
  }
}

// A forced prefix is search among the sentences that begin so: exhaustive search over all of them,
// those with another beginning struck out.
RC_GTEST_PROP(Search, APrefixIsConditionalSearch, ()) {
  if (testing::passed_over_on_cuda(10)) return;
  const Transformer model =
      sharp_model(Family::encoder_decoder, 5, *rc::gen::arbitrary<uint64_t>());
  SearchOptions options = small_options();
  options.forbidden = {0, 2};
  SearchRequest free = random_requests(model.config(), 1, 5, 0, options.end)[0];
  options.max_tokens = 4;
  auto all = testing::all_hypotheses(model, free, options);
  SearchRequest forced = free;
  forced.prefix = {*rc::gen::element(3, 4), *rc::gen::element(3, 4)};
  std::erase_if(all, [&](const Hypothesis& h) {
    return h.tokens.size() < 3 ||
           !std::equal(forced.prefix.begin(), forced.prefix.end(), h.tokens.begin());
  });
  options.max_tokens = 2;
  options.beam = 16;
  options.n_best = static_cast<int64_t>(all.size());
  Session session(model, 1);
  const auto found = run_search(model, options, 16, {forced}, session)[0].hypotheses;
  RC_ASSERT(found.size() == all.size());
  for (size_t i = 0; i < found.size(); ++i) {
    RC_ASSERT(found[i].rank == all[i].rank);
    RC_ASSERT(std::any_of(all.begin(), all.end(),
                          [&](const Hypothesis& h) { return same(h, found[i]); }));
  }
}

RC_GTEST_PROP(Search, OneOfTheBestTokensIsGreedy, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const Transformer model =
      sharp_model(*rc::gen::element(Family::encoder_decoder, Family::decoder_only), 9,
                  *rc::gen::arbitrary<uint64_t>());
  SearchOptions options = small_options();
  const auto requests = random_requests(model.config(), 3, 6, 2, options.end);
  Session session(model, 1);
  const auto greedy = run_search(model, options, 4, requests, session);
  options.sample = true;
  options.top_k = 1;
  options.n_best = 2;
  options.seed = *rc::gen::arbitrary<uint64_t>();
  options.temperature = *rc::gen::element(0.1, 1.0, 5.0);
  const auto sampled = run_search(model, options, 4, requests, session);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const Hypothesis& sample : sampled[i].hypotheses) {
      RC_ASSERT(same(sample, greedy[i].hypotheses[0]));
    }
  }
}

// 20,000 samples of whole sentences against their probabilities. By Hoeffding's inequality a
// frequency of n draws is off by more than e with probability at most 2 exp(-2 n e^2); at
// e = 0.025 and n = 20,000 that is 2.8e-11, and below 1e-9 for all sentences together. Seeds are
// fixed, so that the test does the same every time.
TEST(Search, SamplesFollowTheModelsProbabilities) {
  const Transformer model = sharp_model(Family::encoder_decoder, 5, 3);
  SearchOptions options = small_options();
  options.forbidden.clear();
  options.max_tokens = 2;
  SearchRequest request;
  request.source = {2, 3, 4};
  const auto all = testing::all_hypotheses(model, request, options);
  ASSERT_EQ(all.size(), 21u);  // END, or one of four others and then one of five
  options.sample = true;
  options.n_best = 20'000;
  Session session(model, 2);
  const auto samples = run_search(model, options, options.n_best, {request}, session)[0].hypotheses;
  ASSERT_EQ(samples.size(), 20'000u);
  double checked = 0.0;
  for (const Hypothesis& h : all) {
    const auto seen = std::count_if(samples.begin(), samples.end(),
                                    [&](const Hypothesis& s) { return same(s, h); });
    EXPECT_NEAR(static_cast<double>(seen) / 20'000.0, std::exp(h.score), 0.025);
    checked += std::exp(h.score);
  }
  EXPECT_NEAR(checked, 1.0, 1e-5);
}

TEST(Search, SamplesOfOneRequestDiffer) {
  const Transformer model = sharp_model(Family::decoder_only, 11, 3);
  SearchOptions options = small_options();
  options.sample = true;
  options.temperature = 3.0;
  options.n_best = 8;
  Session session(model, 1);
  std::vector<SearchRequest> requests(2);
  requests[1].number = requests[1].stream = 1;
  const auto results = run_search(model, options, 8, requests, session);
  const auto differ = [](const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
    int count = 0;
    for (size_t i = 0; i < a.size(); ++i) count += a[i].tokens != b[i].tokens ? 1 : 0;
    return count;
  };
  auto rotated = results[0].hypotheses;
  std::rotate(rotated.begin(), rotated.begin() + 1, rotated.end());
  EXPECT_GT(differ(results[0].hypotheses, rotated), 0);
  EXPECT_GT(differ(results[0].hypotheses, results[1].hypotheses), 0);
  options.seed = 2;
  const auto others = run_search(model, options, 8, requests, session);
  EXPECT_GT(differ(results[0].hypotheses, others[0].hypotheses), 0);
}

// Positions end at max_length; so do hypotheses, and they say so.
TEST(Search, ModelsMaxLengthCuts) {
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    const Transformer model = sharp_model(family, 6, 4, 5);
    SearchOptions options = small_options();
    options.forbidden = {1};  // END
    SearchRequest request;
    if (family == Family::encoder_decoder) request.source = {2, 3, 4, 5, 2};
    request.prefix = {2, 2, 2};
    Session session(model, 1);
    const Hypothesis h = run_search(model, options, 1, {request}, session)[0].hypotheses[0];
    EXPECT_EQ(h.tokens.size(), 5u);
    EXPECT_FALSE(h.ended);
    request.prefix = {2, 2, 2, 2, 2};
    EXPECT_EQ(raised_by([&] { run_search(model, options, 1, {request}, session); }).text,
              "search: request 0: the prefix has 5 tokens, the model's max_length of 5 leaves no "
              "room for another");
  }
}

// Short sentences are done before long ones that came earlier, and the cache stays as large as the
// slots need it however many requests there are.
TEST(Search, SlotsAreRefilled) {
  const Transformer model = sharp_model(Family::encoder_decoder, 6, 5);
  SearchOptions options = small_options();
  options.forbidden = {0, 1};
  options.max_ratio = 1.0;  // without END, a sentence takes as many steps as its source and ten
  Session session(model, 1);
  std::vector<int64_t> order;
  int64_t handed_out = 0, most_pages = 0, most_waiting = 0, allocations = 0;
  const int64_t count = 300;
  options.max_tokens = 60;
  search(
      model, options, 4,
      [&]() -> std::optional<SearchRequest> {
        if (handed_out == count) return std::nullopt;
        SearchRequest request;
        request.number = handed_out++;
        request.source.assign(request.number == 0 ? 50 : 1, 3);
        return request;
      },
      [&](SearchResult&& result) {
        order.push_back(result.number);
        if (order.size() == count / 2) allocations = allocation_count();
        most_pages = std::max(most_pages, session->cache.block_count());
        most_waiting = std::max(most_waiting, handed_out - static_cast<int64_t>(order.size()));
        return true;
      },
      session);
  ASSERT_EQ(order.size(), static_cast<size_t>(count));
  // The long one takes 60 steps, the short ones 11: five rounds of three pass it by.
  EXPECT_EQ(std::find(order.begin(), order.end(), 0) - order.begin(), 3 * 5);
  // 60 positions per slot: in pages of 16 on the CPU, of one on CUDA.
  EXPECT_LE(most_pages, testing::device() == Device::cpu ? 4 * 4 : 4 * 60);
  if (testing::device() == Device::cpu) {
    EXPECT_EQ(allocation_count(), allocations);  // of arenas and caches, memories included
  }
  EXPECT_LE(most_waiting, 2 * 4);
  EXPECT_EQ(session->cache.block_count(), 0);
}

TEST(Search, DoneMayStopIt) {
  const Transformer model = sharp_model(Family::encoder_decoder, 6, 5);
  SearchOptions options = small_options();
  options.beam = 3;
  Session session(model, 1);
  int calls = 0;
  int64_t number = 0;
  search(
      model, options, 9,
      [&]() -> std::optional<SearchRequest> {
        return SearchRequest{number++, {2, 3, 4}, {}};
      },
      [&](SearchResult&&) { return ++calls < 5; }, session);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(session->cache.block_count(), 0);
}

// Nothing may be there for a while.
TEST(Search, RequestsMayComeLate) {
  const Transformer model = sharp_model(Family::encoder_decoder, 6, 5);
  const SearchOptions options = small_options();
  Session session(model, 1);
  int64_t handed_out = 0, back = 0, asked = 0;
  search(
      model, options, 8,
      [&]() -> std::optional<SearchRequest> {
        ++asked;
        // One at a time: more only when all came back.
        if (handed_out == 5 || handed_out != back) return std::nullopt;
        return SearchRequest{handed_out++, {2, 3, 4}, {}};
      },
      [&](SearchResult&&) {
        ++back;
        return true;
      },
      session);
  EXPECT_EQ(back, 5);
  EXPECT_GT(asked, 10);
}

TEST(Search, AnExceptionGivesTheSlotsBack) {
  const Transformer model = sharp_model(Family::decoder_only, 6, 5);
  SearchOptions options = small_options();
  options.beam = 3;
  Session session(model, 1);
  const int32_t mine = session->cache.open();
  Rows rows;
  rows.add(1, {.slot = mine});
  model.forward(rows, {}, session);
  int64_t number = 0;
  EXPECT_THROW(search(
                   model, options, 30,
                   [&]() -> std::optional<SearchRequest> {
                     return SearchRequest{number++, {}, {}};
                   },
                   [&](SearchResult&&) -> bool { throw std::runtime_error("no"); }, session),
               std::runtime_error);
  EXPECT_EQ(session->cache.block_count(), 1);
  EXPECT_EQ(session->cache.length(mine), 1);
}

// Callers that share a model, each with its own session; on CUDA some of their steps are being kept
// as graphs while others launch and read back.
TEST(Search, ThreadsMaySearchAtOnce) {
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 5);
  SearchOptions options = small_options();
  options.beam = options.n_best = 3;
  std::vector<SearchRequest> requests;
  for (int32_t i = 0; i < 8; ++i) requests.push_back({i, {2 + i % 5, 3, 4 + i % 3}, {}});
  Session session(model, 1);
  const auto expected = run_search(model, options, 9, requests, session);
  std::vector<std::string> faults(4);
  std::vector<std::thread> threads;
  for (std::string& fault : faults) {
    threads.emplace_back([&] {
      try {
        for (int round = 0; round < 6; ++round) {
          Session mine(model, 1);
          const auto found = run_search(model, options, 9, requests, mine);
          for (size_t i = 0; i < expected.size(); ++i) {
            if (!same(found[i].hypotheses, expected[i].hypotheses)) fault = "other results";
          }
        }
      } catch (const std::exception& error) {
        fault = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
}

TEST(Search, OptionsAreChecked) {
  const Transformer model = sharp_model(Family::encoder_decoder, 6, 5);
  Session session(model, 1);
  const auto text = [&](const std::function<void(SearchOptions&)>& change, int64_t slots = 8) {
    SearchOptions options = small_options();
    change(options);
    const auto raised = raised_by([&] { run_search(model, options, slots, {}, session); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    return raised.text;
  };
  EXPECT_EQ(text([](auto& o) { o.start = 6; }),
            "search: start is token 6, which is not in the vocabulary of 6");
  EXPECT_EQ(text([](auto& o) { o.end = -1; }),
            "search: end is token -1, which is not in the vocabulary of 6");
  EXPECT_EQ(text([](auto& o) { o.forbidden = {9}; }),
            "search: forbidden is token 9, which is not in the vocabulary of 6");
  EXPECT_EQ(text([](auto& o) { o.beam = 0; }), "search: beam must be from 1 to 1048576, got 0");
  EXPECT_EQ(text([](auto& o) { o.n_best = 2; }), "search: 2 best translations from a beam of 1");
  EXPECT_EQ(text([](auto& o) { o.beam = 9; }),
            "search: 8 slots do not hold one request: beam is 9");
  EXPECT_EQ(text([](auto& o) {
              o.sample = true;
              o.beam = 2;
            }),
            "search: sampling needs a beam of 1, got 2");
  EXPECT_EQ(text([](auto& o) {
              o.sample = true;
              o.n_best = 9;
            }),
            "search: 8 slots do not hold one request: n_best is 9");
  EXPECT_EQ(text([](auto& o) { o.max_tokens = -1; }),
            "search: max_tokens must be at least 0, got -1");
  EXPECT_EQ(text([](auto& o) { o.max_ratio = NAN; }),
            "search: max_ratio must be at least 0, got nan");
  EXPECT_EQ(text([](auto& o) { o.temperature = 0.0; }),
            "search: temperature must be above 0, got 0");
  EXPECT_EQ(text([](auto& o) { o.top_k = -1; }), "search: top_k must be at least 0, got -1");
  EXPECT_EQ(text([](auto& o) { o.top_p = 0.0; }),
            "search: top_p must be above 0 and at most 1, got 0");
  EXPECT_EQ(text([](auto& o) { o.length_penalty = INFINITY; }),
            "search: length_penalty must be finite, got inf");
  Tape tape(session);
  EXPECT_EQ(text([](auto&) {}), "search: a tape is recording on the session");
}

TEST(Search, RequestsAreChecked) {
  const Transformer model = sharp_model(Family::encoder_decoder, 6, 5, 8);
  Session session(model, 1);
  const auto text = [&](const SearchRequest& request) {
    const auto raised =
        raised_by([&] { run_search(model, small_options(), 8, {request}, session); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    return raised.text;
  };
  EXPECT_EQ(text({7, {}, {}}), "search: request 7: the source is empty");
  EXPECT_EQ(text({7, {2, 6}, {}}),
            "search: request 7: token 6 at 1 of the source is not below the vocabulary of 6");
  EXPECT_EQ(text({7, {2}, {-3}}),
            "search: request 7: token -3 at 0 of the prefix is not below the vocabulary of 6");
  EXPECT_EQ(text({7, {2}, {2, 1}}),
            "search: request 7: END at 1 of the prefix: nothing can follow");
  EXPECT_EQ(text({7, std::vector<int32_t>(9, 2), {}}),
            "search: request 7: the source has 9 tokens, the model's max_length is 8");
  const Transformer only = sharp_model(Family::decoder_only, 6, 5);
  Session others(only, 1);
  EXPECT_EQ(raised_by([&] {
              run_search(only, small_options(), 8, {SearchRequest{7, {2}, {}}}, others);
            }).text,
            "search: request 7: a source of 1 tokens, but the model has no encoder");
}

// A model that computes NaN gives an error, not a translation.
TEST(Search, NotANumberIsAnError) {
  Transformer model = sharp_model(Family::decoder_only, 6, 5);
  testing::change_weights(
      model, [](const std::string&, std::vector<float>& values, const Shape&) { values[0] = NAN; });
  for (const bool sample : {false, true}) {
    SearchOptions options = small_options();
    options.sample = sample;
    Session session(model, 1);
    const auto raised =
        raised_by([&] { run_search(model, options, 8, {SearchRequest{}}, session); });
    EXPECT_EQ(raised.code, ErrorCode::bad_format);
    EXPECT_EQ(raised.text,
              "search: request 0: the model gives no allowed token a probability at position 0 "
              "(NaN, or all forbidden)");
    EXPECT_EQ(raised_by([&] {
                run_search(model, options, 8, {SearchRequest{3, {}, {4}}}, session);
              }).text,
              "search: request 3: the model's log-probability of prefix token 0 is NaN");
    EXPECT_EQ(session->cache.block_count(), 0);
  }
}

}  // namespace
}  // namespace tril::search_test
