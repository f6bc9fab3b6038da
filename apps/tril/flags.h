// Flags whose value is one of several words, and flags that several commands share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tril/tril.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace tril::app {

// "one, two, three".
std::string with_commas(const std::vector<std::string>& words);

// What 'tril help' calls values that are paths. By these names the program refuses empty ones, and
// shells complete the others (command_text.h).
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kFolder = "FOLDER";

// The words that a validator describes itself by: "{one,two,three}", as CLI11's own do.
// command_text.h reads it. kOtherWords at the end stands for words that cannot be listed.
inline constexpr const char* kOtherWords = "...";
std::string in_braces(const std::vector<std::string>& words);

// Refuses words that are not in the list.
CLI::Validator among(const std::vector<std::string>& words);
// The same, and turns the word into its index in the list, which CLI11 reads as the enum's value.
CLI::Validator one_of(const std::vector<std::string>& words);

// Takes any value; the words are those that shells propose.
CLI::Validator such_as(const std::vector<std::string>& words);

// A whole number in decimal digits from `min` to `max`. Anything else, including one too large for
// any type, is an error that names the range.
CLI::Validator whole_number(int64_t min, int64_t max);
// The same for numbers whose range is checked elsewhere, and for seeds: from 0 to the largest value
// of their type.
CLI::Validator any_count();
CLI::Validator any_seed();

// --shortlist, for commands that translate.
void add_shortlist_flag(CLI::App& command, bool& shortlist);

// --compute, for commands that only run inference.
void add_compute_flag(CLI::App& command, std::optional<Compute>& compute);

// --trust, for commands that load packed weights.
void add_trust_flag(CLI::App& command, bool& trust);

// The device for a command that may use a shortlist, which only the CPU supports.
inline std::optional<Device> device_with(bool shortlist, std::optional<Device> device) {
  return shortlist && !device ? Device::cpu : device;
}

// --device, for commands that run a model.
void add_device_flag(CLI::App& command, std::optional<Device>& device);
// Where a model is to run: on the requested device, or else on the best one of this machine. A
// `compute` form that only the CPU has selects the CPU; fp32 on CUDA selects the slow mode for
// checking.
Placement placement_for(std::optional<Device> device, std::optional<Compute> compute = {});

}  // namespace tril::app
