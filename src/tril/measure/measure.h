// Measurements: what `tril bench` prints. Times of kernels on fixed shapes relative to the
// machine's own peaks, growth with length and batch, memory, and the time to learn a task.
// bench/peers runs other systems on the same shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tril/measure/peaks.h"
#include "tril/tensor/context.h"

namespace tril {

struct Measurement {
  std::string group{};   // "gemm", "attention", "train", "translate", ...
  std::string name{};    // kind and size: "512x512x512"
  double seconds = 0.0;  // median of the repetitions; 0 where it is not a time
  double gflop = 0.0;    // work done in that time, in 10^9 operations; 0 where it does not apply
  Arithmetic arithmetic = Arithmetic::fp32;  // type of the operations
  Traffic traffic{};  // the least data that must move in that time; zeros where it was not counted
  double mebibytes = 0.0;  // memory taken; 0 where it was not measured
  double tokens = 0.0;  // target tokens written or trained on in that time; 0 where there are none
  double resident = 0.0;  // the process's peak memory meanwhile, in MiB; 0: not measured
  // A point of a curve: its name ("translate int8 by length"), and its place on it.
  std::string series{};
  int64_t at = 0;
  // If MeasureOptions has peaks and something was counted: the nearest roof, and its time divided
  // by the time taken. Above 1 if the peaks were measured too low, because the machine had other
  // work just then, or if caches held more than roof_of assumes; see above_roof.
  std::string roof{};
  double share = 0.0;
  std::string note{};
};

struct MeasureOptions {
  int threads = 0;
  // Where to measure: on a CUDA GPU, measure_machine, measure_gemm, measure_attention,
  // measure_training, measure_translation and measure_engine use work of a suitable size. The
  // others are for the CPU.
  Placement placement{};
  double seconds_each = 0.5;     // roughly how long each kernel is repeated
  std::string match{};           // only measurements whose name contains this text
  std::optional<Peaks> peaks{};  // of the machine with this many threads, for `roof` and `share`
  // Called before each measurement with its name, and with each result; may be empty.
  std::function<void(const std::string& what)> progress{};
  std::function<void(const Measurement& result)> done{};
};

// The machine's own peaks, with one thread and with all.
std::vector<Measurement> measure_machine(const MeasureOptions& options);
// y = x Wᵀ with a packed weight, rows × out × in: the products of the models measured below.
std::vector<Measurement> measure_gemm(const MeasureOptions& options);
// The same in int8, including the rows' scales: the shapes of translation.
std::vector<Measurement> measure_gemm_int8(const MeasureOptions& options);
// Kernels limited by memory: norms, sums, activations, AdamW.
std::vector<Measurement> measure_bandwidth(const MeasureOptions& options);
// Causal attention, batch × heads × length × 64: forward, and forward with backward.
std::vector<Measurement> measure_attention(const MeasureOptions& options);
// Updates of tiny, small and base models: target tokens per second (measure/work.h).
std::vector<Measurement> measure_training(const MeasureOptions& options);
// Translation with a base model of random weights: greedy and beam 4, one sentence at a time and in
// batches of 32.
std::vector<Measurement> measure_translation(const MeasureOptions& options);
// The same model with and without a shortlist of fifty random tokens per source token, alternating:
// the output product alone, and whole translations.
std::vector<Measurement> measure_shortlist(const MeasureOptions& options);
// The engine under load: greedy requests and beams of 4 in one engine against one kind after the
// other, and 64 threads that translate one sentence each against one call with all of them.
std::vector<Measurement> measure_engine(const MeasureOptions& options);
// Weights mapped with and without verifying their checksums, and loaded: what verifying costs.
std::vector<Measurement> measure_files(const MeasureOptions& options);
// Time per token of translation and of training against the length of sentences (16 ... 4,096) and
// their number (1 ... 256), the process's peak memory, and attention's memory against length. A
// small model; each point takes at most some seconds.
std::vector<Measurement> measure_growth(const MeasureOptions& options);
// Scratch and results of a forward and backward pass against the length, up to 32,768.
std::vector<Measurement> measure_memory(const MeasureOptions& options);
// Time to learn copy and reverse of 20 symbols; see train/symbols.h.
std::vector<Measurement> measure_learning(const MeasureOptions& options);
// Time to learn the phrasebook of `tril demo`, and how well.
std::vector<Measurement> measure_demo(const MeasureOptions& options);

// A line that says how many of the shares are above their roof, and what that means: peaks are
// measured first and are the same for all, so where one was too low every share is too high. Empty
// if none is, rounded to a whole per cent.
std::string above_roof(std::span<const Measurement> results);

}  // namespace tril
