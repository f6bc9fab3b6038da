// The state of a search's rows that a GPU keeps from step to step. Internal to decode/.
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

  // The same for more rows; existing rows keep their state.
  DeviceRows(int64_t count, const TransformerConfig& config, const DeviceRows& before);

  int64_t rows;
  Arena arena;
  ops::Beams beams;
  RowsOnDevice on_device;
};

// Which rows are taken by sentences. The first free ones are assigned, so that the rows of a step
// are close together.
class RowMap {
 public:
  // Takes `width` consecutive rows; returns the first.
  int64_t take(int64_t width);
  void give_back(int64_t first, int64_t width);
  // One past the last row taken.
  int64_t end() const { return static_cast<int64_t>(taken_.size()); }

 private:
  std::vector<bool> taken_;
};

}  // namespace tril
