// What is particular to T5: matrices that the weights tell apart, and a bias that is not trained.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/hub/export.h"
#include "tril/hub/import.h"
#include "tril/io/foreign/foreign_tensors.h"
#include "tril/models/session.h"
#include "tril/translate/translator.h"

namespace tril::t5_test {
namespace {

namespace fs = std::filesystem;
using testing::raised_by;
using testing::TempFolder;

// A folder with its tokenizer, which has fewer pieces than the model has rows.
class Folder {
 public:
  explicit Folder(const std::string& name) {
    fs::copy(fs::path(TRIL_HUB_FOLDER) / name, path(), fs::copy_options::recursive);
    fs::remove(path() / "expected.safetensors");
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      fs::copy(fs::path(TRIL_TOKENIZERS_FOLDER) / "t5" / file, path());
    }
  }
  fs::path path() const { return fs::path(folder_.path()) / "theirs"; }
  std::string to(const std::string& name = "ours") const {
    return (fs::path(folder_.path()) / name).string();
  }
  hub::ImportReport import() const { return hub::import(path().string(), to()); }
  void replace(const std::string& from, const std::string& with) const {
    std::ifstream file(path() / "config.json");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(path() / "config.json") << text.replace(at, from.size(), with);
  }

 private:
  TempFolder folder_;
};

TEST(T5, TheWeightsTellWhichMatricesAreOne) {
  const TransformerConfig first = Folder("t5").import().config;
  EXPECT_TRUE(first.tied);
  EXPECT_FALSE(first.share_source_target);
  EXPECT_EQ(first.output_scale, 0.25);  // 16 wide
  EXPECT_EQ(first.attention_scale, 1.0);
  EXPECT_EQ(first.activation, ActivationType::relu);
  for (const char* name : {"t5_v1_1", "mt5"}) {
    const TransformerConfig config = Folder(name).import().config;
    EXPECT_FALSE(config.tied) << name;
    EXPECT_TRUE(config.share_source_target) << name;
    EXPECT_EQ(config.output_scale, 1.0) << name;
    EXPECT_EQ(config.activation, ActivationType::gelu_tanh) << name;
    EXPECT_TRUE(config.gated) << name;
  }
}

TEST(T5, IsUsedAsAnyModelButNotTrained) {
  const Folder folder("t5_v1_1");
  folder.import();
  Transformer::save_packed(folder.to(), folder.to(), Compute::int8);
  for (const Compute compute : {Compute::fp32, Compute::int8}) {
    LoadOptions load;
    load.compute = compute;
    const Translator translator = Translator::load(folder.to(), load, 1);
    TranslateOptions options;
    options.search = {.beam = 2, .max_tokens = 12};
    const std::vector<std::string> lines = {"the house", ""};
    EXPECT_EQ(translator.translate(lines, options).size(), 2u);
  }
  Transformer model = Transformer::load(folder.to(), {.purpose = Purpose::training});
  Session session(model, 1);
  EXPECT_EQ(raised_by([&] { model.prepare_training(session); }).text,
            "training: the relative position bias has no gradient yet");
  Tape tape(session);
  Rows rows;
  rows.add_sequence(std::vector<int32_t>{5, 6, 1}, {.slot = 0});
  const Memory memory = model.encode(rows, session);
  rows.clear();
  rows.add_sequence(std::vector<int32_t>{0, 7}, {.slot = 0, .segment = 0});
  const Tensor hidden = model.forward(rows, memory, session);
  const Tensor loss = model.loss(hidden, std::vector<int32_t>{7, 1}, {}, session);
  const auto raised = raised_by([&] { tape.backward(loss); });
  EXPECT_EQ(raised.code, ErrorCode::unsupported);
  EXPECT_EQ(raised.text, "training: the relative position bias has no gradient yet");
}

TEST(T5, ComesBackByteForByte) {
  for (const char* name : {"t5", "t5_v1_1", "mt5"}) {
    const Folder folder(name);
    folder.import();
    hub::export_model(folder.to(), folder.to("back"));
    const ForeignTensors before(folder.path().string()), after(folder.to("back"));
    ASSERT_EQ(before.all().size(), after.all().size()) << name;
    for (const ForeignTensor& tensor : before.all()) {
      const ForeignTensor& other = after.get(tensor.name());
      ASSERT_EQ(tensor.type(), other.type()) << tensor.name();
      std::string a(static_cast<size_t>(tensor.size() * size_of(tensor.type())), '\0'), b = a;
      tensor.read_bytes(a);
      other.read_bytes(b);
      EXPECT_EQ(a, b) << name << ": " << tensor.name();
    }
  }
}

TEST(T5, WhatIsNotComputedIsNamed) {
  const Folder folder("t5");
  const auto error = [&] {
    std::string text = raised_by([&] { folder.import(); }).text;
    return text.substr(text.rfind('/') + 1);
  };
  folder.replace("\"model_type\": \"t5\"", "\"model_type\": \"umt5\"");
  EXPECT_NE(error().find("model_type is \"umt5\""), std::string::npos);
  folder.replace("\"model_type\": \"umt5\"", "\"model_type\": \"t5\"");
  folder.replace("\"dense_act_fn\": \"relu\"", "\"dense_act_fn\": \"mish\"");
  EXPECT_EQ(error(), "config.json: feed_forward_proj is \"mish\", which tril does not compute");
}

}  // namespace
}  // namespace tril::t5_test
