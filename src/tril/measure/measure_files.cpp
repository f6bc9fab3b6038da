// What verifying costs: a file of weights mapped directly, and mapped after comparing every byte
// with its checksum; alternating, from the system's cache.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tril/base/rng.h"
#include "tril/io/safetensors.h"
#include "tril/measure/repeat.h"

namespace tril {
namespace {

constexpr int64_t kTensors = 16;
constexpr int64_t kFloats = int64_t{4} << 20;  // of each: 16 MiB
constexpr double kBytes = static_cast<double>(kTensors * kFloats) * 4.0;

void write_weights(const std::string& path) {
  Arena arena;
  std::vector<NamedTensor> tensors;
  Random random(1);
  for (int64_t i = 0; i < kTensors; ++i) {
    const Tensor tensor(arena, {kFloats});
    float* values = tensor.data();
    for (int64_t j = 0; j < kFloats; ++j) values[j] = static_cast<float>(random.below(1 << 20));
    tensors.push_back({concat("tensor.", i), tensor});
  }
  save_safetensors(path, tensors);
}

}  // namespace

std::vector<Measurement> measure_files(const MeasureOptions& options) {
  Results results("files", options);
  const std::string name = "256 MiB of weights";
  if (!results.wants(name)) return results.take();
  std::string folder = (std::filesystem::temp_directory_path() / "tril-bench-XXXXXX").string();
  require(::mkdtemp(folder.data()) != nullptr, ErrorCode::io, folder, ": cannot create");
  const std::string path = folder + "/weights.safetensors";
  write_weights(path);
  const auto seconds = [&](const auto& call) { return median_seconds(options.seconds_each, call); };
  const double trusted = seconds([&] {
    Arena arena;
    map_safetensors(path, arena, nullptr, MapVerify::trust);
  });
  const double verified = seconds([&] {
    Arena arena;
    map_safetensors(path, arena);
  });
  const double loaded = seconds([&] {
    Arena arena;
    load_safetensors(path, arena);
  });
  std::filesystem::remove_all(folder);
  const auto per_gigabyte = [](double s) { return std::round(s * 1e12 / kBytes * 10.0) / 10.0; };
  results.add({.name = name + ", mapped and trusted", .seconds = trusted});
  results.add({.name = name + ", mapped and verified",
               .seconds = verified,
               .note = concat(per_gigabyte(verified - trusted), " ms per GB for verifying")});
  results.add({.name = name + ", loaded and verified",
               .seconds = loaded,
               .note = concat(per_gigabyte(loaded), " ms per GB in all")});
  return results.take();
}

}  // namespace tril
