#include "flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>

namespace tril::app {
namespace {

// The number is passed on in its plainest form, because CLI11 reads 010 as eight.
template <class Number>
CLI::Validator number_between(Number min, Number max, const std::string& description) {
  return CLI::Validator(
      [min, max](std::string& word) {
        Number number = 0;
        const char* end = word.data() + word.size();
        const auto [at, error] = std::from_chars(word.data(), end, number);
        if (error == std::errc() && at == end && number >= min && number <= max) {
          word = concat(number);
          return std::string();
        }
        return concat("'", word, "' is not a whole number from ", min, " to ", max);
      },
      description);
}

}  // namespace

CLI::Validator whole_number(int64_t min, int64_t max) {
  return number_between(min, max, concat("INT in [", min, " - ", max, "]"));
}

CLI::Validator any_count() {
  return number_between<int64_t>(0, std::numeric_limits<int64_t>::max(), "");
}

CLI::Validator any_seed() {
  return number_between<uint64_t>(0, std::numeric_limits<uint64_t>::max(), "");
}

std::string with_commas(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

std::string in_braces(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ",") + word;
  return concat("{", all, "}");
}

CLI::Validator among(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](std::string& word) {
        if (std::find(words.begin(), words.end(), word) != words.end()) return std::string();
        return concat("'", word, "' is not one of ", with_commas(words));
      },
      in_braces(words));
}

CLI::Validator such_as(const std::vector<std::string>& words) {
  return CLI::Validator([](std::string&) { return std::string(); }, in_braces(words));
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](std::string& word) {
        const auto found = std::find(words.begin(), words.end(), word);
        if (found == words.end()) return concat("'", word, "' is not one of ", with_commas(words));
        word = std::to_string(found - words.begin());
        return std::string();
      },
      in_braces(words));
}

void add_shortlist_flag(CLI::App& command, bool& shortlist) {
  command.add_flag(
      "--shortlist", shortlist,
      "Choose only among the pieces that 'tril shortlist' listed for each line: faster");
}

void add_trust_flag(CLI::App& command, bool& trust) {
  command.add_flag(
      "--trust", trust,
      "Map packed weights without verifying their checksums, for files that 'tril verify' "
      "has already checked");
}

void add_device_flag(CLI::App& command, std::optional<Device>& device) {
  const auto is_device = [](const std::string& word) {
    return device_from(word) ? std::string()
                             : concat("'", word, "' is not one of cpu, cuda, cuda:1, ...");
  };
  command
      .add_option_function<std::string>(
          "--device", [&device](const std::string& word) { device = device_from(word); },
          "cpu, cuda (the first GPU) or cuda:1 (the second) (default: cuda if there is a usable "
          "GPU, else cpu)")
      ->check(CLI::Validator(is_device, in_braces({"cpu", "cuda", kOtherWords})))
      ->type_name("DEVICE");
}

Placement placement_for(std::optional<Device> device, std::optional<Compute> compute) {
  const bool for_cpu = compute == Compute::int8 || compute == Compute::bf16_dot;
  if (for_cpu && device && *device != Device::cpu) {
    fail(ErrorCode::unsupported, "--compute ", word_for(*compute),
         " is for the CPU: give --device cpu, or --compute bf16");
  }
  const Device where = device.value_or(for_cpu ? Device::cpu : best_device());
  check_usable(where);
  if (where.type == DeviceType::cuda && compute == Compute::fp32) return {where, DType::f32};
  return where;
}

void add_compute_flag(CLI::App& command, std::optional<Compute>& compute) {
  const std::vector<std::string> words(std::begin(Words<Compute>::kList),
                                       std::end(Words<Compute>::kList));
  command
      .add_option_function<std::string>(
          "--compute",
          [&compute](const std::string& number) {
            compute = static_cast<Compute>(std::stoi(number));
          },
          "Format of the weights: fp32, bf16 (half the memory; the default on a GPU), int8 (a "
          "quarter, fastest on a CPU), or bf16-dot (bf16 products by the processor, whose bits "
          "differ). The last two are for the CPU only")
      ->transform(one_of(words))
      ->type_name("fp32|bf16|int8|bf16-dot");
}

}  // namespace tril::app
