// Receipts: whoever has the model finds every answer that it did not give.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "service_support.h"
#include "support/models.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/base/fingerprint.h"
#include "tril/decode/shortlist.h"
#include "tril/io/atomic_file.h"
#include "tril/models/folder.h"
#include "tril/serve/answer.h"

namespace tril::receipts_test {
namespace {

using namespace serve;
using namespace serve_test;
using nlohmann::ordered_json;

// A model in a folder, and a server of it.
class SavedModel {
 public:
  explicit SavedModel(bool decoder_only = false) {
    const Translator made = small_translator(decoder_only);
    made.model().save(folder_.path(),
                      {.beside = {{std::string(kTokenizerFile), made.tokenizer().bytes()}}});
    ModelSet models;
    models.add(served_model({.name = "en-hi", .folder = folder_.path()}, load()));
    service_ = std::make_unique<Service>(std::move(models), ServiceOptions{});
  }
  Translator load() const {
    return Translator::load(folder_.path(), testing::loading(Purpose::inference), 1);
  }
  Service& service() { return *service_; }
  const std::string& folder() const { return folder_.path(); }
  ReceiptCheck check(const std::string& receipt) const {
    return check_receipt(receipt, "receipt", folder_.path(), load());
  }

 private:
  testing::TempFolder folder_;
  std::unique_ptr<Service> service_;
};

SavedModel& saved() {
  static SavedModel model;
  return model;
}

std::string answer_to(SavedModel& model, const std::string& fields,
                      const std::string& path = "/v1/translate") {
  const auto response = post(model.service(), path, "{\"receipt\":true," + fields + "}");
  EXPECT_EQ(response.status, 200) << response.body;
  return response.body;
}

std::string receipt_of(const std::string& answer) {
  return ordered_json::parse(answer).at("receipt").dump();
}

const std::string& usual() {
  static const std::string receipt = receipt_of(answer_to(
      saved(), R"("text":["how are you","I am fine\nbanana"],"source":"en","target":"hi","beam":3,)"
               R"("n_best":2,"max_tokens":9,"details":true,"length_penalty":1.5)"));
  return receipt;
}

bool holds(const ReceiptCheck& check) { return check.holds(); }

TEST(Receipts, OfWhatWasAnsweredHold) {
  for (
      const char* fields :
      {R"("text":"how are you","max_tokens":7)",
       R"("text":["how",""],"target":"hi","beam":1,"max_tokens":4)",
       R"("text":"how\n\nare\r\n","split":"always","sample":true,"seed":18446744073709551615,"temperature":0.7,"top_p":0.3,"top_k":9,"n_best":3,"max_tokens":5,"details":true)",
       R"("text":"how are you","source":"auto","target":"hi","alignments":true,"max_tokens":6)",
       R"("text":"how are you","prefix":"मैं","min_tokens":5,"max_tokens":8,"forbid":[[300],[301,302]],"force_end":true)",
       R"("text":"how","beam":2,"early_stopping":"never","cut":"ranked","max_ratio":2.5,"no_repeat_ngram":2,"repetition_penalty":1.1,"renormalize":true)"}) {
    const std::string answer = answer_to(saved(), fields);
    const ReceiptCheck check = saved().check(receipt_of(answer));
    EXPECT_TRUE(holds(check)) << fields << check.first_difference;
    EXPECT_EQ(check.first_difference, "");
    EXPECT_EQ(check.fingerprint, check.receipt_says);
    EXPECT_GT(check.texts, 0);
    EXPECT_TRUE(holds(saved().check(answer)));  // the whole answer is as good
    EXPECT_TRUE(holds(saved().check(ordered_json::parse(answer).dump(2))));  // in another layout
  }
  const ReceiptHead head = read_receipt_head(usual(), "receipt");
  EXPECT_EQ(head.model, "en-hi");
  const Transformer& model = saved().service().models().models()[0].translator.model();
  EXPECT_EQ(head.compute, word_for(model.compute()));
  EXPECT_EQ(head.device, to_string(testing::device()));
}

TEST(Receipts, OfContinuedTextHold) {
  SavedModel writer(true);
  const std::string answer =
      answer_to(writer, R"("text":["how are","a\nb "],"max_tokens":9,"beam":2,"details":true)",
                "/v1/generate");
  EXPECT_TRUE(holds(writer.check(answer)));
  const std::string other = answer_to(writer, R"("text":"how are","max_tokens":5)", "/v1/generate");
  EXPECT_TRUE(holds(writer.check(other)));
}

// Every value of the answer, changed in the least way there is.
void change_each(ordered_json& whole, ordered_json& value, int& changed) {
  if (value.is_structured()) {
    for (ordered_json& each : value) change_each(whole, each, changed);
    return;
  }
  const ordered_json before = value;
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    if (text.empty()) {
      text = " ";
    } else if (static_cast<unsigned char>(text.back()) < 0x80) {
      text.back() = text.back() == 'x' ? 'y' : 'x';
    } else {
      text += "x";
    }
    value = text;
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  } else if (value.is_number_integer()) {
    value = value.get<int64_t>() + 1;
  } else if (value.is_number()) {
    value = std::nextafter(value.get<double>(), 1e9);
  }
  const ReceiptCheck check = saved().check(whole.dump());
  EXPECT_FALSE(holds(check)) << before << " changed to " << value;
  EXPECT_NE(check.first_difference, "");
  value = before;
  ++changed;
}

TEST(Receipts, EveryChangeOfAnAnswerIsFound) {
  ordered_json receipt = ordered_json::parse(usual());
  ASSERT_TRUE(holds(saved().check(receipt.dump())));
  // Of the hypotheses of one sentence, and all that is above them.
  ordered_json& answer = receipt.at("answer");
  int changed = 0;
  for (auto& [name, value] : answer.at(0).items()) {
    if (name != "sentences") change_each(receipt, value, changed);
  }
  ordered_json& sentence = answer.at(0).at("sentences").at(0);
  change_each(receipt, sentence.at("source"), changed);
  for (auto& [name, value] : sentence.at("hypotheses").at(1).items()) {
    change_each(receipt, value.is_array() ? value.at(0) : value, changed);
  }
  EXPECT_GT(changed, 9);
  // What is missing and what is too much.
  ordered_json less = receipt;
  less.at("answer").at(0).erase("alternatives");
  EXPECT_FALSE(holds(saved().check(less.dump())));
  ordered_json more = receipt;
  more.at("answer").at(0)["better"] = 1;
  EXPECT_FALSE(holds(saved().check(more.dump())));
}

// Everything around the receipt is what people read.
TEST(Receipts, AnAnswerIsComparedWithItsReceipt) {
  ordered_json answer = ordered_json::parse(answer_to(
      saved(),
      R"("text":["how are you","I am fine"],"source":"en","target":"hi","n_best":2,"max_tokens":5)"));
  ASSERT_TRUE(saved().check(answer.dump()).holds());
  int changed = 0;
  for (auto& [name, value] : answer.items()) {
    if (name != "receipt") change_each(answer, value, changed);
  }
  EXPECT_GE(changed, 12);
  ordered_json other = answer;
  other.at("translations").at(1).at("text") = "I owe Bob 1000 euros";
  EXPECT_EQ(saved().check(other.dump()).texts_differing, 1);
  EXPECT_TRUE(saved()
                  .check(other.dump())
                  .first_difference.starts_with(
                      "text 2: the answer says I owe Bob 1000 euros, the model "));
  other = answer;
  other.at("translations").at(0)["better"] = "this";
  EXPECT_FALSE(saved().check(other.dump()).holds());
  other = answer;
  other["note"] = "trust me";
  EXPECT_EQ(saved().check(other.dump()).first_difference, "its \"note\" is another");
  other = answer;
  other.at("translations").erase(1);
  EXPECT_THROW(saved().check(other.dump()), Error);
  // How sure the server was of the language is its own.
  ordered_json detected = ordered_json::parse(
      answer_to(saved(), R"("text":"how are you","source":"auto","target":"hi","max_tokens":5)"));
  detected.at("translations").at(0).at("detected").at("confidence") = 0.5;
  EXPECT_TRUE(saved().check(detected.dump()).holds());
}

TEST(Receipts, TheFirstDifferenceIsNamed) {
  ordered_json receipt = ordered_json::parse(usual());
  const std::string text = receipt.at("answer").at(1).at("text");
  receipt.at("answer").at(1).at("text") = "another";
  ReceiptCheck check = saved().check(receipt.dump());
  EXPECT_EQ(check.texts, 2);
  EXPECT_EQ(check.texts_differing, 1);
  EXPECT_EQ(check.first_difference,
            concat("text 2: the receipt says another, the model ", printable(text)));
  receipt = ordered_json::parse(usual());
  ordered_json& score =
      receipt.at("answer").at(0).at("sentences").at(0).at("hypotheses").at(0).at("score");
  score = score.get<double>() + 1;
  EXPECT_EQ(saved().check(receipt.dump()).first_difference,
            "text 1: the words agree, their numbers do not");
}

TEST(Receipts, ChangedOptionsAndTextsAreFound) {
  const auto changed = [](const char* field, const ordered_json& value) {
    ordered_json receipt = ordered_json::parse(usual());
    receipt.at("request").at(field) = value;
    return saved().check(receipt.dump());
  };
  EXPECT_FALSE(holds(changed("beam", 2)));
  EXPECT_FALSE(holds(changed("max_tokens", 8)));
  EXPECT_FALSE(holds(changed("length_penalty", 1.5000001)));
  EXPECT_FALSE(holds(changed("text", {"how are yot", "I am fine\nbanana"})));
  ordered_json drawn = ordered_json::parse(receipt_of(
      answer_to(saved(), R"("text":"how","sample":true,"temperature":2,"seed":7,"max_tokens":9)")));
  ASSERT_TRUE(holds(saved().check(drawn.dump())));
  drawn.at("request").at("seed") = 8;
  EXPECT_FALSE(holds(saved().check(drawn.dump())));
}

TEST(Receipts, AnotherModelIsNamed) {
  ordered_json receipt = ordered_json::parse(usual());
  const std::string mine = receipt.at("fingerprint");
  std::string other = mine;
  other[5] = other[5] == '0' ? '1' : '0';
  receipt.at("fingerprint") = other;
  ReceiptCheck check = saved().check(receipt.dump());
  EXPECT_FALSE(check.same_model);
  EXPECT_EQ(check.receipt_says, other);
  EXPECT_EQ(check.fingerprint, mine);
  EXPECT_EQ(check.texts_differing, 0);
  // Weights that differ in one number.
  const testing::TempFolder folder;
  Transformer changed(small_translator().model().config(), 8, testing::placement());
  changed.save(folder.path(),
               {.beside = {{std::string(kTokenizerFile), small_translator().tokenizer().bytes()}}});
  check = check_receipt(usual(), "receipt", folder.path(),
                        Translator::load(folder.path(), testing::loading(Purpose::inference), 1));
  EXPECT_FALSE(check.same_model);
  EXPECT_NE(check.fingerprint, mine);
  EXPECT_EQ(check.texts_differing, 2);
}

TEST(Receipts, FingerprintsAreOfTheFiles) {
  const Translator translator = saved().load();
  EXPECT_EQ(fingerprint_of(translator, saved().folder()),
            fingerprint_of(saved().load(), saved().folder()));
  EXPECT_EQ(fingerprint_of(translator, saved().folder()),
            saved().service().models().models()[0].fingerprint);
  // What is served in another form computes other numbers. (Only the CPU has int8.)
  if (testing::device() == Device::cpu) {
    LoadOptions packed = testing::loading(Purpose::inference);
    packed.compute = Compute::int8;
    EXPECT_NE(fingerprint_of(Translator::load(saved().folder(), packed, 1), saved().folder()),
              fingerprint_of(translator, saved().folder()));
  }
  SavedModel again;  // the same model in another folder
  EXPECT_EQ(again.service().models().models()[0].fingerprint,
            fingerprint_of(translator, saved().folder()));
}

// The shortlist is sealed by itself, so the weights know nothing of it.
TEST(Receipts, FingerprintsAreOfTheShortlistThatIsUsed) {
  const auto with_shortlists = [](const SavedModel& model) {
    const Translator translator = model.load();
    std::vector<std::string> fingerprints = {fingerprint_of(translator, model.folder())};
    const auto save = [&](const std::vector<int32_t>& always) {
      const int64_t vocab = translator.tokenizer().vocab();
      Shortlist({.target_vocab = vocab,
                 .always = always,
                 .listed = std::vector<std::vector<int32_t>>(static_cast<size_t>(vocab)),
                 .tokenizer = hexadecimal(tokenizer_fingerprint(translator.tokenizer().bytes()))})
          .save(model.folder());
      fingerprints.push_back(fingerprint_of(translator, model.folder()));
    };
    const int32_t end = translator.tokenizer().end();
    save({end});
    save({end, 300});
    save({end});
    return fingerprints;
  };
  const SavedModel model;
  const auto prints = with_shortlists(model);
  if (testing::device() == Device::cpu) {
    EXPECT_NE(prints[1], prints[0]);
    EXPECT_NE(prints[2], prints[0]);
    EXPECT_NE(prints[2], prints[1]);
    EXPECT_EQ(prints[3], prints[1]);
  } else {
    EXPECT_EQ(std::set<std::string>(prints.begin(), prints.end()).size(), 1u);
  }
  const ServedModel again = served_model({.name = "en-hi", .folder = model.folder()}, model.load());
  EXPECT_EQ(again.shortlist.has_value(), testing::device() == Device::cpu);
  EXPECT_EQ(again.fingerprint, prints[3]);
  // What continues text has no use for one.
  const auto unused = with_shortlists(SavedModel(true));
  EXPECT_EQ(std::set<std::string>(unused.begin(), unused.end()).size(), 1u);
}

// Also where the weights were sealed without them, or with them and they are gone.
TEST(Receipts, FingerprintsAreOfTheSettingsOfTheSearch) {
  const SavedModel model;
  const std::string file = path_in(model.folder(), kGenerationFile);
  const auto print = [&] { return fingerprint_of(model.load(), model.folder()); };
  const std::string plain = print();
  const auto print_with = [&](const std::string& settings) {
    write_file_atomically(file, settings);
    return print();
  };
  const std::string wide = print_with(R"({"format":1,"beam":9})");
  EXPECT_NE(wide, plain);
  EXPECT_NE(print_with(R"({"format":1,"beam":8})"), wide);
  EXPECT_EQ(print_with(R"({ "format": 1, "beam": 9 })"), wide) << "the same settings";
  std::filesystem::remove(file);
  EXPECT_EQ(print(), plain);

  const testing::TempFolder sealed;
  const Translator made = small_translator();
  made.model().save(sealed.path(),
                    {.beside = {{std::string(kTokenizerFile), made.tokenizer().bytes()},
                                {std::string(kGenerationFile), R"({"format":1,"beam":9})"}}});
  const auto sealed_print = [&] {
    return fingerprint_of(Translator::load(sealed.path(), testing::loading(Purpose::inference), 1),
                          sealed.path());
  };
  const std::string complete = sealed_print();
  std::filesystem::remove(sealed / std::string(kGenerationFile));
  EXPECT_NE(sealed_print(), complete);
}

template <class F>
std::string error_of(const F& f, ErrorCode code) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "none";
}

TEST(Receipts, WhatIsNoneIsTold) {
  const auto error = [](const std::string& text, ErrorCode code = ErrorCode::bad_format) {
    return error_of([&] { (void)saved().check(text); }, code);
  };
  EXPECT_EQ(error("{}"), "receipt: no receipt of tril: ask for one with \"receipt\": true");
  EXPECT_EQ(error("[]"), "receipt: no receipt of tril: ask for one with \"receipt\": true");
  EXPECT_EQ(error(R"({"receipt":7})"),
            "receipt: no receipt of tril: ask for one with \"receipt\": true");
  EXPECT_EQ(error(R"({"tril_receipt":2})"), "receipt: a receipt of format 2, this tril reads 1");
  EXPECT_TRUE(error("{").starts_with("receipt: "));
  const auto without = [&](const char* field, ErrorCode code = ErrorCode::bad_format) {
    ordered_json receipt = ordered_json::parse(usual());
    receipt.erase(field);
    return error(receipt.dump(), code);
  };
  EXPECT_EQ(without("model"), "receipt: the receipt's model is missing or of the wrong kind");
  EXPECT_EQ(without("request"), "receipt: the receipt's request is missing or of the wrong kind");
  EXPECT_EQ(without("fingerprint"),
            "receipt: the receipt's fingerprint is missing or of the wrong kind");
  EXPECT_EQ(without("answer"),
            "receipt: the receipt's answer has another number of texts than its request");
  ordered_json receipt = ordered_json::parse(usual());
  receipt.at("answer").erase(1);
  EXPECT_EQ(error(receipt.dump()),
            "receipt: the receipt's answer has another number of texts than its request");
  receipt = ordered_json::parse(usual());
  receipt.at("request")["wish"] = 1;
  EXPECT_EQ(error(receipt.dump(), ErrorCode::invalid_argument),
            "receipt: this model cannot have given it: there is no field wish: see /openapi.json");
  receipt = ordered_json::parse(usual());
  receipt.at("request").at("text") = {std::string(900, 'x'), "b"};
  receipt.at("request")["split"] = "never";
  EXPECT_TRUE(error(receipt.dump(), ErrorCode::invalid_argument)
                  .starts_with("receipt: this model cannot have given it: text 1: "));
}

// Whatever stands in a receipt was compared, or is refused.
TEST(Receipts, SayNothingThatIsNotCompared) {
  const auto found = [](const char* field, const ordered_json& value) {
    ordered_json receipt = ordered_json::parse(usual());
    receipt[field] = value;
    const ReceiptCheck check = saved().check(receipt.dump());
    EXPECT_FALSE(check.holds()) << field;
    return check.first_difference;
  };
  EXPECT_EQ(found("version", "9"), "its receipt's \"version\" is another");
  EXPECT_EQ(found("note", "certified"), "its receipt's \"note\" is another");
}

TEST(Receipts, AreNotGivenForSeveralLanguages) {
  const auto plain = post(saved().service(), "/v1/translate", R"({"text":"how","max_tokens":2})");
  EXPECT_EQ(json(plain).find("receipt"), nullptr);
}

}  // namespace
}  // namespace tril::receipts_test
