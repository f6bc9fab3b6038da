// Model folders: what is written is read back, and faults are named.
#include <filesystem>
#include <functional>
#include <type_traits>
#include <utility>

#include "support/models.h"
#include "support/temp_folder.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"

namespace tril::folder_test {
namespace {

using testing::floats_of;
using testing::raised_by;
using testing::random_config;
using testing::random_model;
using testing::same_bits;
using testing::TempFolder;

RC_GTEST_PROP(ModelFolder, ReadsBackWhatItWrote, ()) {
  const TempFolder folder;
  const Transformer model = random_model(random_config(), *rc::gen::arbitrary<uint64_t>());
  model.save(folder / "model");
  const Transformer again = Transformer::load(folder / "model", testing::loading(Purpose::study));
  RC_ASSERT(again.config() == model.config());
  const auto expected = model.parameters();
  const auto got = again.parameters();
  RC_ASSERT(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    RC_ASSERT(got[i].name == expected[i].name);
    RC_ASSERT(same_bits(got[i].tensor, expected[i].tensor));
  }
}

// What others share nobody can change: not through any handle, however it was come by.
TEST(ModelFolder, OnlyWhatWasLoadedForTrainingCanBeChanged) {
  const TempFolder folder;
  random_model(testing::tiny_config(testing::Family::decoder_only), 1).save(folder / "m");
  for (const Purpose purpose : {Purpose::inference, Purpose::study}) {
    Transformer model = Transformer::load(folder / "m", testing::loading(purpose));
    Transformer copy = model;
    Context context(1, testing::placement());
    for (Transformer* handle : {&model, &copy}) {
      for (const auto& change : std::vector<std::function<void()>>{
               [&] { handle->writable_parameters(); }, [&] { handle->weights_changed(context); },
               [&] { handle->prepare_training(context); }}) {
        EXPECT_EQ(raised_by(change).code, ErrorCode::unsupported);
      }
    }
  }
  Transformer model = Transformer::load(folder / "m", testing::loading(Purpose::training));
  const std::vector<float> before = floats_of(model.parameters()[0].tensor);
  testing::change_weights(model, [](const std::string&, std::vector<float>& values, const Shape&) {
    for (float& value : values) value += 1.0f;
  });
  EXPECT_EQ(floats_of(model.parameters()[0].tensor)[0], before[0] + 1.0f);
}

// A copy has weights of its own, whatever the model was loaded for.
TEST(ModelFolder, ACopyMayBeChangedWithoutTheModel) {
  const TempFolder folder;
  random_model(testing::tiny_config(testing::Family::decoder_only), 1).save(folder / "m");
  const Transformer model = Transformer::load(folder / "m", testing::loading(Purpose::study));
  const std::vector<float> before = floats_of(model.parameters()[0].tensor);
  Transformer copy = model.on(model.placement());
  testing::change_weights(copy, [](const std::string&, std::vector<float>& values, const Shape&) {
    for (float& value : values) value = 0.0f;
  });
  EXPECT_TRUE(same_bits(floats_of(model.parameters()[0].tensor), before));
}

// What a const model hands out has no way to be written.
static_assert(
    std::is_same_v<decltype(std::declval<const Transformer&>().parameters()[0].tensor.data()),
                   const float*>);
static_assert(!std::is_convertible_v<ConstTensor, Tensor>);

TEST(ModelFolder, AFormThatIsNotThereForAPurposeIsAnError) {
  const TempFolder folder;
  Transformer(testing::tiny_config(testing::Family::decoder_only), 1).save(folder / "m");
  const auto raised = raised_by([&] {
    Transformer::load(folder / "m", {.compute = Compute::int8, .purpose = Purpose::training});
  });
  EXPECT_EQ(raised.code, ErrorCode::unsupported);
  EXPECT_EQ(raised.text,
            "load: weights in int8 are for inference, not for study or training on cpu");
}

// A small model whose file can be tampered with tensor by tensor.
class BrokenFolder : public ::testing::Test {
 protected:
  BrokenFolder() {
    const TransformerConfig config = testing::tiny_config(testing::Family::encoder_decoder);
    Transformer(config, 1, testing::placement()).save(folder_.path());
    file_ = folder_ / "model.safetensors";
    tensors_ = load_safetensors(file_, arena_);
  }
  std::string error_after_saving() {
    save_safetensors(file_, tensors_);
    return error();
  }
  std::string error() {
    return raised_by([&] { Transformer::load(folder_.path(), testing::loading(Purpose::study)); })
        .text;
  }
  NamedTensor& find(const std::string& name) {
    for (NamedTensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << name;
    return tensors_.front();
  }

  TempFolder folder_;
  std::string file_;
  Arena arena_;
  std::vector<NamedTensor> tensors_;
};

TEST_F(BrokenFolder, MissingTensor) {
  find("encoder.0.attention.key.bias").name = "encoder.0.attention.key.bia";
  EXPECT_EQ(error_after_saving(), file_ + ": tensor 'encoder.0.attention.key.bias' is missing");
}

TEST_F(BrokenFolder, SurplusTensor) {
  tensors_.push_back({"surplus", Tensor(arena_, {1})});
  tensors_.back().tensor.data()[0] = 0.0f;
  EXPECT_EQ(error_after_saving(),
            file_ + ": tensor 'surplus' is not part of the model in " + (folder_ / "config.json"));
}

TEST_F(BrokenFolder, WrongShape) {
  NamedTensor& tensor = find("decoder.0.feed_forward.in.weight");
  tensor.tensor = tensor.tensor.reshaped({8, 16});
  EXPECT_EQ(error_after_saving(),
            file_ +
                ": tensor 'decoder.0.feed_forward.in.weight' is [8, 16], the configuration "
                "asks for [16, 8]");
}

TEST_F(BrokenFolder, WrongType) {
  NamedTensor& tensor = find("embedding.weight");
  tensor.tensor = Tensor(arena_, tensor.tensor.shape(), DType::i32);
  std::fill_n(tensor.tensor.data<int32_t>(), tensor.tensor.size(), 0);
  EXPECT_EQ(error_after_saving(),
            file_ + ": tensor 'embedding.weight' is of type i32, expected f32 or bf16");
}

TEST_F(BrokenFolder, Truncated) {
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - 1);
  EXPECT_NE(error().find(file_), std::string::npos);
}

TEST_F(BrokenFolder, HugeConfigurationBesideASmallFile) {
  save_safetensors(file_, tensors_);  // sealed without its config.json
  std::string text = read_file(folder_ / "config.json", 1 << 20);
  const std::string from = "\"feed_forward\": 16";
  text.replace(text.find(from), from.size(), "\"feed_forward\": 1000000");
  write_file_atomically(folder_ / "config.json", text);
  const int64_t before = allocation_count();
  EXPECT_EQ(error(), file_ +
                         ": tensor 'encoder.0.feed_forward.in.weight' is [16, 8], the "
                         "configuration asks for [1000000, 8]");
  EXPECT_LT(allocation_count() - before, 10);  // the file's own few, nothing of the model's size
}

TEST_F(BrokenFolder, NoSuchFolder) {
  const auto raised =
      raised_by([&] { Transformer::load(folder_ / "nowhere", {.purpose = Purpose::study}); });
  EXPECT_EQ(raised.code, ErrorCode::io);
  EXPECT_EQ(raised.text, (folder_ / "nowhere") + ": no such folder");
}

TEST_F(BrokenFolder, ReadsBrainFloats) {
  for (NamedTensor& tensor : tensors_) {
    const Tensor half(arena_, tensor.tensor.shape(), DType::bf16);
    for (int64_t i = 0; i < half.size(); ++i) {
      half.data<BFloat16>()[i] = to_bf16(tensor.tensor.data()[i]);
    }
    tensor.tensor = half;
  }
  save_safetensors(file_, tensors_);
  const Transformer model = Transformer::load(folder_.path(), testing::loading(Purpose::study));
  for (const auto& parameter : model.parameters()) {
    const Tensor& half = find(parameter.name).tensor;
    const OnHost values(parameter.tensor);
    for (int64_t i = 0; i < half.size(); ++i) {
      ASSERT_EQ(values.data()[i], to_f32(half.data<BFloat16>()[i]));
    }
  }
}

}  // namespace
}  // namespace tril::folder_test
