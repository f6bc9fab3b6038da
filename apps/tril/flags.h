// Flags whose value is one of some words.
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

// Turns a word into its number in the list, which CLI11 reads as the enum's value.
CLI::Validator one_of(const std::vector<std::string>& words);

// A whole number in decimal digits from `min` to `max`. Anything else, one that fits into no type
// included, is an error that names the range.
CLI::Validator whole_number(int64_t min, int64_t max);
// The same for numbers whose range is checked elsewhere, and for seeds: 0 and whatever their type
// holds above it.
CLI::Validator any_count();
CLI::Validator any_seed();

// --shortlist, for commands that translate or score.
void add_shortlist_flag(CLI::App& command, bool& shortlist);

// --compute, for commands that only infer.
void add_compute_flag(CLI::App& command, std::optional<Compute>& compute);

// --trust, for commands that load packed weights.
void add_trust_flag(CLI::App& command, bool& trust);

// Shortlists are for the CPU: the device for a command that may have one.
inline std::optional<Device> device_with(bool shortlist, std::optional<Device> device) {
  return shortlist && !device ? Device::cpu : device;
}

// --device, for commands that run a model.
void add_device_flag(CLI::App& command, std::optional<Device>& device);
// Where a model is to run: on the device that was asked for, or the best one this machine has. With
// `compute` a form that only the CPU has means the CPU, and fp32 on CUDA the slow mode for
// checking.
Placement placement_for(std::optional<Device> device, std::optional<Compute> compute = {});

}  // namespace tril::app
