// Whole models against PyTorch in float64: logits, loss and every parameter's gradient, and the
// same logits again token by token from the cache.
//
// The cases and their expected values are in tests/golden, made by make_golden.py there. Every
// element has its own bound, derived in rounding.py: each fp32 rounding is a relative error of
// standard deviation up to 2^-24 / sqrt(3), a sum of n terms has n of them, of its partial sums;
// those errors are propagated through the model and its gradient, and the error of each element is
// measured. A correct implementation, whatever its order of summation, exceeds any of the 64,600
// bounds with a probability of 10^-6. They are tight: `make_golden.py --breakages` lists faults (an
// epsilon, an activation's approximation, a score's scale off by 10^-5) and how far each exceeds
// the bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/models.h"
#include "support/testing.h"
#include "tril/io/safetensors.h"
#include "tril/models/session_state.h"
#include "tril/models/transformer.h"

namespace tril::golden_test {
namespace {

std::string case_folder(const std::string& name) { return testing::golden_folder() + "/" + name; }

// Every folder that holds a case.
std::vector<std::string> case_names() {
  std::vector<std::string> names;
  // Called before main(): if there is no such folder, GoldenFolder reports it instead of ending the
  // program.
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(testing::golden_folder(), none)) {
    if (std::filesystem::exists(entry.path() / "case.safetensors")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

constexpr std::string_view kGradient = "gradient.";

// The contents of a case's file.
class GoldenCase {
 public:
  explicit GoldenCase(const std::string& name) : name_(name) {
    for (const NamedTensor& tensor :
         load_safetensors(case_folder(name) + "/case.safetensors", arena_)) {
      tensors_[tensor.name] = tensor.tensor;
      if (tensor.name.starts_with(kGradient)) {
        parameters_.insert(tensor.name.substr(kGradient.size()));
      }
    }
  }

  const std::set<std::string>& parameters() const { return parameters_; }
  float number(const std::string& tensor) const { return *at(tensor).data<float>(); }
  std::vector<int32_t> integers(const std::string& tensor) const {
    const Tensor& from = at(tensor);
    return {from.data<int32_t>(), from.data<int32_t>() + from.size()};
  }
  bool all_zero(const std::string& tensor) const {
    const Tensor& from = at(tensor);
    return std::all_of(from.data<double>(), from.data<double>() + from.size(),
                       [](double value) { return value == 0.0; });
  }

  Rows rows(const std::string& side) const {
    Rows rows;
    rows.tokens = integers(side + ".tokens");
    rows.slots = integers(side + ".slots");
    rows.positions = integers(side + ".positions");
    rows.segments =
        side == "target" ? integers("target.segments") : std::vector<int32_t>(rows.tokens.size());
    rows.sentences.resize(rows.tokens.size());
    rows.prefixes.assign(rows.tokens.size(), side == "target" ? integers("prefix").front() : 0);
    return rows;
  }

  // |actual - expected| <= bound in every element; `row_of[r]` says which row of the golden tensor
  // row r is (empty: the same).
  void expect(const std::string& tensor, const Tensor& actual, const std::string& how,
              const std::vector<size_t>& row_of = {}) {
    const Tensor& expected = at(tensor);
    const Tensor& bound = at("bound." + tensor);
    ASSERT_EQ(bound.size(), expected.size());
    const auto columns = static_cast<size_t>(expected.columns());
    if (row_of.empty()) {
      ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape()))
          << name_ << ", " << how << ": shape of " << tensor;
    }
    const OnHost values(actual);
    size_t failed = 0;
    for (size_t i = 0; i < static_cast<size_t>(actual.size()); ++i) {
      const size_t from = row_of.empty() ? i : row_of[i / columns] * columns + i % columns;
      const double want = expected.data<double>()[from];
      const double got = values.values()[i];
      const double limit = to_f32(bound.data<BFloat16>()[from]);
      const double error = std::fabs(got - want);
      if (limit > 0.0) worst_ = std::max(worst_, error / limit);
      if (error <= limit) continue;  // false for NaN
      if (failed++ == 0) {
        ADD_FAILURE() << name_ << ", " << how << ": element " << from << " (row " << from / columns
                      << ", column " << from % columns << ") of " << tensor << " is " << got
                      << ", expected " << want << " within " << limit << ", off by " << error;
      }
    }
    EXPECT_EQ(failed, 0u) << name_ << ", " << how << ": of " << actual.size() << " elements of "
                          << tensor;
  }

  // The largest error over its bound so far.
  double worst() const { return worst_; }

 private:
  const Tensor& at(const std::string& tensor) const {
    const auto found = tensors_.find(tensor);
    require(found != tensors_.end(), ErrorCode::bad_format, name_, ": no tensor '", tensor, "'");
    return found->second;
  }

  std::string name_;
  Arena arena_;
  std::map<std::string, Tensor> tensors_;
  std::set<std::string> parameters_;
  double worst_ = 0.0;
};

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  // The bounds are of fp32 roundings, in any order: fp32 on CUDA must keep them too.
  void SetUp() override {
    if (testing::activations() != DType::f32) GTEST_SKIP() << "the bounds are those of fp32";
  }
};

TEST_P(GoldenTest, LogitsLossAndGradients) {
  GoldenCase golden(GetParam());
  const Transformer model =
      Transformer::load(case_folder(GetParam()), testing::loading(Purpose::study));
  const Rows target = golden.rows("target");
  const std::vector<int32_t> labels = golden.integers("labels");

  Session session(model, 1);
  Tape tape{session};
  Memory memory;
  if (!model.config().decoder_only()) memory = model.encode(golden.rows("source"), session);
  const Tensor hidden = model.forward(target, memory, session);
  golden.expect("logits", model.logits(hidden, session), "under a tape");
  const Tensor loss = model.loss(
      hidden, labels, {.smoothing = golden.number("smoothing"), .factor = golden.number("factor")},
      session);
  golden.expect("loss", loss, "under a tape");

  if (!testing::has_gradients(model.config())) {
    EXPECT_EQ(testing::raised_by([&] { tape.backward(loss); }).text,
              "attention gradient: a learnt position bias has one on the CPU only");
    return;
  }
  const Gradients gradients = tape.backward(loss);
  std::set<std::string> names;
  for (const auto& [name, tensor] : model.parameters()) {
    names.insert(name);
    if (!golden.parameters().contains(name)) continue;
    const std::string key = std::string(kGradient) + name;
    const Tensor gradient = gradients.of(tensor);
    if (gradient.defined()) {
      golden.expect(key, gradient, "backward");
    } else {
      EXPECT_TRUE(golden.all_zero(key)) << GetParam() << ": no gradient of " << name;
    }
  }
  EXPECT_EQ(names, golden.parameters());
  RecordProperty("largest_error_over_bound", std::to_string(golden.worst()));
}

// Without a tape: position 0 of every sequence, then position 1, and so on, each call finding the
// earlier ones in the cache. The rows of a prefix see each other, so they come in the first call.
TEST_P(GoldenTest, LogitsStepByStep) {
  GoldenCase golden(GetParam());
  const Transformer model =
      Transformer::load(case_folder(GetParam()), testing::loading(Purpose::study));
  const Rows target = golden.rows("target");
  Session session(model, 1);
  Memory memory;
  if (!model.config().decoder_only()) memory = model.encode(golden.rows("source"), session);

  std::map<int32_t, int32_t> slots{{-1, -1}};  // in the file -> in the cache
  for (const int32_t slot : target.slots) {
    if (!slots.contains(slot)) slots[slot] = session->cache.open();
  }
  const int32_t prefix = target.prefixes.front();
  const int32_t last = *std::max_element(target.positions.begin(), target.positions.end());
  size_t compared = 0;
  for (int32_t position = 0; position <= last; ++position) {
    Rows rows;
    std::vector<size_t> row_of;
    for (size_t row = 0; row < target.tokens.size(); ++row) {
      // The first call takes all of a prefix, the others a position each.
      const int32_t at = target.positions[row];
      const bool now = position == 0 ? at < std::max(prefix, 1) : at == position && at >= prefix;
      if (!now) continue;
      rows.add(target.tokens[row], {.slot = slots.at(target.slots[row]),
                                    .segment = target.segments[row],
                                    .first = at,
                                    .prefix = prefix});
      row_of.push_back(row);
    }
    if (row_of.empty()) continue;
    const Tensor hidden = model.forward(rows, memory, session);
    golden.expect("logits", model.logits(hidden, session), "step by step", row_of);
    compared += row_of.size();
    session.reset();
  }
  EXPECT_EQ(compared, target.tokens.size());
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenTest, ::testing::ValuesIn(case_names()),
                         [](const auto& test) { return test.param; });

// The folder itself: a test over no cases passes too.
TEST(GoldenFolder, HoldsTheCases) {
  EXPECT_GE(case_names().size(), 12u) << testing::golden_folder();
}

}  // namespace
}  // namespace tril::golden_test
