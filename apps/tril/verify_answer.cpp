#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "loading.h"
#include "tril/serve/answer.h"

namespace tril::app {
namespace {

struct VerifyAnswerFlags {
  std::string receipt;
  std::string model;
  int threads = 0;
  bool trust = false;
};

std::string read_receipt(const std::string& path) {
  constexpr int64_t kMost = int64_t{64} << 20;
  const MappedFile file(path);
  require(std::ssize(file.bytes()) <= kMost, ErrorCode::bad_format, path,
          ": too large for a receipt");
  return std::string(file.bytes());
}

Compute compute_named(const std::string& word, const std::string& file) {
  for (size_t i = 0; i < std::size(Words<Compute>::kList); ++i) {
    if (Words<Compute>::kList[i] == word) return static_cast<Compute>(i);
  }
  fail(ErrorCode::bad_format, file, ": the receipt's compute is none that this tril knows");
}

void print_verdict(const serve::ReceiptCheck& check) {
  if (check.texts_differing > 0) {
    fmt::print("NOT this model's answer: {} of {} texts differ. {}\n", check.texts_differing,
               check.texts, check.first_difference);
  } else if (!check.first_difference.empty()) {
    fmt::print("NOT this model's answer: {}.\n", check.first_difference);
  } else if (!check.same_model) {
    fmt::print(
        "NOT proven: {} of {} texts agree, but the receipt was given by another model,\n"
        "another version of tril or another kind of device.\n",
        check.texts, check.texts);
  } else {
    fmt::print("The answer is this model's: {} of {} texts agree in every byte and number.\n",
               check.texts, check.texts);
  }
}

void run(const VerifyAnswerFlags& flags) {
  const std::string receipt = read_receipt(flags.receipt);
  const serve::ReceiptHead head = serve::read_receipt_head(receipt, flags.receipt);
  const auto device = device_from(head.device);
  require(device.has_value(), ErrorCode::bad_format, flags.receipt,
          ": the receipt's device is none that this tril knows");
  Translator translator = load_translator(flags.model, flags.threads, device,
                                          compute_named(head.compute, flags.receipt), flags.trust);
  const serve::ReceiptCheck check =
      serve::check_receipt(receipt, flags.receipt, flags.model, std::move(translator));
  print_verdict(check);
  if (!check.same_model) {
    fmt::print("The receipt's fingerprint is\n  {}, that of {} with this tril\n  {}.\n",
               check.receipt_says, flags.model, check.fingerprint);
  }
  if (!check.holds()) throw Failed{};
}

}  // namespace

void add_verify_answer(CLI::App& app) {
  auto flags = std::make_shared<VerifyAnswerFlags>();
  CLI::App* verify = app.add_subcommand(
      "verify-answer", "Compute an answer of 'tril serve' again and compare every byte");
  verify
      ->add_option("receipt", flags->receipt,
                   "The receipt, or an answer that holds one: ask for it with \"receipt\": true")
      ->type_name(kFile)
      ->required();
  verify
      ->add_option("--model", flags->model, "The folder of the model that is said to have answered")
      ->type_name(kFolder)
      ->required();
  add_trust_flag(*verify, flags->trust);
  verify->add_option("--threads", flags->threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  verify->footer(
      "Example:\n"
      "  curl -d '{\"text\": \"How are you?\", \"receipt\": true}' \\\n"
      "    http://127.0.0.1:8080/v1/translate > answer.json\n"
      "  tril verify-answer answer.json --model demo-model\n\n"
      "What a request gets depends on the model, its request, tril's version and the kind of "
      "device alone, so anybody who has them can check an answer, offline. The exit code is 1 "
      "where the answer, or the model, is another.");
  verify->callback([flags] { run(*flags); });
}

}  // namespace tril::app
