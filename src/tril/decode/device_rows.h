// What a GPU knows of the rows of a search from step to step. Internal to decode/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tril/models/transformer.h"
#include "tril/ops/beam.h"

namespace tril {

// Memory for `count` rows.
struct DeviceRows {
  DeviceRows(int64_t count, const TransformerConfig& config, const Device& device);

  // The same for more rows; those that are there keep what they know.
  DeviceRows(int64_t count, const TransformerConfig& config, const DeviceRows& before);

  int64_t rows;
  Arena arena;
  ops::Beams beams;
  RowsOnDevice on_device;
};

// Which rows belong to a sentence. The first free ones are given out, so that the rows of a step
// are close together.
class RowMap {
 public:
  // `width` rows side by side; returns the first.
  int64_t take(int64_t width);
  void give_back(int64_t first, int64_t width);
  int64_t end() const { return static_cast<int64_t>(taken_.size()); }  // behind the last one taken

 private:
  std::vector<bool> taken_;
};

}  // namespace tril
