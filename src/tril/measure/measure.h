// Measurements: what `tril bench` prints. Times of kernels on fixed shapes, memory against length,
// and the time to learn a task. The same shapes are run by other systems in bench/peers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tril {

struct Measurement {
  std::string group{};     // "gemm", "attention", "train", "translate", ...
  std::string name{};      // what and how large: "512x512x512"
  double seconds = 0.0;    // median of the repetitions; 0 where it is not a time
  double gflop = 0.0;      // work done in that time, in 10^9 operations; 0 where it does not apply
  double mebibytes = 0.0;  // memory taken; 0 where it was not asked
  double tokens = 0.0;     // target tokens made or learnt in that time; 0 where there are none
  std::string note{};
};

struct MeasureOptions {
  int threads = 0;
  double seconds_each = 0.5;  // about how long each kernel is repeated
  std::string match{};        // only measurements whose name holds this text
  // Called before each measurement with its name, and with each result; may be empty.
  std::function<void(const std::string& what)> progress{};
  std::function<void(const Measurement& result)> done{};
};

// y = x Wᵀ with the weight packed, rows × out × in: 512³, and 1, 6 and 32 rows of it.
std::vector<Measurement> measure_gemm(const MeasureOptions& options);
// Causal attention, batch × heads × length × 64: forward, and forward with backward.
std::vector<Measurement> measure_attention(const MeasureOptions& options);
// Updates of tiny, small and base models: target tokens learnt a second (measure/work.h).
std::vector<Measurement> measure_training(const MeasureOptions& options);
// Translation with a base model of random weights: greedy and beam 4, one sentence at a time and in
// batches of 32.
std::vector<Measurement> measure_translation(const MeasureOptions& options);
// The same model with and without a shortlist of fifty random tokens for each source token, in
// turn: the output product alone, and whole translations.
std::vector<Measurement> measure_shortlist(const MeasureOptions& options);
// Scratch and results of a forward and backward pass against the length, up to 32,768.
std::vector<Measurement> measure_memory(const MeasureOptions& options);
// Time to learn copy and reverse of 20 symbols; see train/symbols.h.
std::vector<Measurement> measure_learning(const MeasureOptions& options);
// Time to learn the phrasebook of `tril demo`, and how well.
std::vector<Measurement> measure_demo(const MeasureOptions& options);

}  // namespace tril
