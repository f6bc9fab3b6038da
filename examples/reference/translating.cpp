// Examples: text in, text out.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "examples.h"
#include "tril/tril.h"

namespace reference {
namespace {

void translator(const std::string& folder) {
  // [Translator]
  const tril::Translator translator = tril::Translator::load(folder);
  std::cout << translator.translate("How are you?") << "\n";

  const std::vector<std::string> lines = {"Thank you", "I am fine"};
  for (const tril::Translation& translation : translator.translate(lines)) {
    std::cout << translation.number << ": " << translation.text() << "\n";
  }
  // [/Translator]
}

void options(const tril::Translator& translator) {
  // [TranslateOptions]
  const std::vector<std::string> lines = {"Congratulations"};
  tril::TranslateOptions options;
  options.search.beam = 1;        // greedy search
  options.search.max_tokens = 3;  // and at most three tokens
  options.bad_lines = tril::BadLine::skip;
  const tril::Translation result = translator.translate(lines, options).front();
  std::cout << result.text() << (result.hypotheses.front().ended ? "" : " (cut)") << "\n";
  // [/TranslateOptions]
}

void translation(const tril::Translator& translator) {
  // [Translation]
  const std::vector<std::string> lines = {"Thank you"};
  tril::TranslateOptions options;
  options.search.beam = 4;
  options.search.n_best = 2;
  options.alignments = true;
  const tril::Translation result = translator.translate(lines, options).front();
  const tril::TextHypothesis& best = result.hypotheses.front();
  std::printf("%zu hypotheses, the best: %s\n", result.hypotheses.size(), best.text.c_str());
  for (size_t i = 0; i < best.tokens.size(); ++i) {
    std::printf("%s %.2f\n", best.pieces[i].c_str(), best.log_probs[i]);
  }
  for (const tril::WordLink& link : best.links) std::printf("%d-%d\n", link.source, link.target);
  // [/Translation]
}

void pending(const tril::Translator& translator) {
  // [PendingTranslation]
  using namespace std::chrono_literals;
  const tril::PendingTranslation first = translator.submit({"How are you?"});
  const tril::PendingTranslation second =
      translator.submit({"Thank you"}, {}, {.deadline = std::chrono::steady_clock::now() + 60s});
  std::cout << first.get().text() << "\n" << second.get().text() << "\n";

  const tril::PendingTranslation third = translator.submit({"I am fine"});
  third.cancel();
  try {
    third.get();  // unless it was done before
  } catch (const tril::Error& error) {
    if (error.code() != tril::ErrorCode::cancelled) throw;
  }
  // [/PendingTranslation]
}

void whole_text(const tril::Translator& translator) {
  // [translate_text]
  const std::string text = "Thank you\n\nI am fine\n";
  std::cout << translate_text(translator, text, {}, tril::Split::always);
  // [/translate_text]
}

void text_plan(const tril::Translator& translator) {
  // [TextPlan]
  const tril::TextPlan plan =
      plan_text(translator, "Thank you. I am fine\n", {}, tril::Split::always);
  std::vector<std::string> translations;
  for (const tril::TextPart& part : plan.parts) translations.push_back("<" + part.source + ">");
  std::cout << plan.join(translations);
  // [/TextPlan]
}

void tokenizer(const std::string& folder) {
  // [Tokenizer]
  const tril::Tokenizer tokenizer = tril::Translator::load(folder).tokenizer();
  const std::vector<int32_t> ids = tokenizer.encode("Thank you");
  for (const int32_t id : ids) std::cout << tokenizer.piece(id) << " ";
  std::cout << "\n" << tokenizer.decode(ids) << ", of " << tokenizer.vocab() << " pieces\n";
  // [/Tokenizer]
}

void shortlist() {
  // [Shortlist]
  tril::ShortlistTable table;
  table.target_vocab = 10;
  table.always = {3};                   // END
  table.listed = {{}, {5, 6}, {6, 7}};  // by source token
  const tril::Shortlist shortlist(table);
  const std::vector<int32_t> source = {1, 2};
  std::vector<int32_t> set;
  shortlist.choose(source, {}, set);
  for (const int32_t token : set) std::cout << token << " ";
  std::cout << "\n";
  // [/Shortlist]
}

void generation_settings() {
  // [GenerationSettings]
  tril::GenerationSettings settings;
  settings.search.beam = 2;
  settings.to_language = "hi";
  const std::string json = to_json(settings);
  std::cout << (tril::generation_from_json(json, "generation.json") == settings) << "\n";
  // [/GenerationSettings]
}

void align_tokens(const tril::Translator& translator) {
  // [align]
  const tril::Tokenizer& tokenizer = translator.tokenizer();
  const std::vector<int32_t> source = tokenizer.encode_source("Thank you");
  const std::vector<int32_t> target = tokenizer.encode_target("धन्यवाद");
  tril::Session session(translator.model());
  const tril::Alignment alignment =
      align(translator.model(), source, target, {.start = tokenizer.start()}, session);
  std::cout << alignment.target << " target tokens, " << alignment.source << " source tokens\n";
  // [/align]
}

void languages() {
  // [languages]
  std::cout << tril::language_name("zh-Hant") << ", " << tril::script_of_language("hi") << "\n";
  const std::vector<std::string> codes = {"eng_Latn", "hin_Deva", "deu_Latn"};
  std::cout << tril::find_language(codes, "de-AT").value_or("none") << "\n";
  std::cout << tril::detect_language("यह क्या है?", codes).front().code << "\n";
  // [/languages]
}

void error() {
  // [Error]
  try {
    tril::Translator::load("nowhere");
  } catch (const tril::Error& error) {
    std::cout << to_string(error.code()) << ": " << error.what() << "\n";
  }
  // [/Error]
}

void device() {
  // [Device]
  const tril::Device device = tril::device_from("cuda:1").value_or(tril::Device::cpu);
  std::cout << to_string(device) << "\n";
  const tril::Device best = tril::best_device();  // a GPU where there is one
  std::cout << (problem_with(best, tril::gpus()).empty() ? "usable" : "not usable") << "\n";
  // [/Device]
}

void version() {
  // [version]
#if TRIL_VERSION_NUMBER >= 100
  std::cout << "tril " << tril::kVersion << "\n";
#endif
  // [/version]
}

void verify(const std::string& folder) {
  // [verify_folder]
  int unsound = 0;
  for (const tril::VerifiedFile& file : tril::verify_folder(folder)) {
    unsound += file.state == tril::FileState::sound ? 0 : 1;
  }
  std::cout << unsound << " files are not sound\n";
  // [/verify_folder]
}

void explain(const std::string& folder) {
  // [explain_page]
  const tril::Translator translator =
      tril::Translator::load(folder, {.purpose = tril::Purpose::study});
  const std::string html = explain_page(translator, "How are you?");
  std::cout << html.substr(0, html.find('>') + 1) << "\n";
  // [/explain_page]
}

}  // namespace

void run_translating(const Folders& folders) {
  std::cout << std::unitbuf;
  const tril::Translator loaded = tril::Translator::load(folders.model);
  begin("Translator"), translator(folders.model);
  begin("TranslateOptions"), options(loaded);
  begin("Translation"), translation(loaded);
  begin("PendingTranslation"), pending(loaded);
  begin("translate_text"), whole_text(loaded);
  begin("TextPlan"), text_plan(loaded);
  begin("Tokenizer"), tokenizer(folders.model);
  begin("Shortlist"), shortlist();
  begin("GenerationSettings"), generation_settings();
  begin("align"), align_tokens(loaded);
  begin("languages"), languages();
  begin("Error"), error();
  begin("Device"), device();
  begin("version"), version();
  begin("verify_folder"), verify(folders.model);
  begin("explain_page"), explain(folders.model);
}

}  // namespace reference
