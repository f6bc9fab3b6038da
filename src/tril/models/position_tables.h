// The tables that positions are looked up in, as numbers of a configuration. Internal to models/.
#pragma once

#include <cstdint>
#include <vector>

#include "tril/models/config.h"
#include "tril/ops/rows.h"

namespace tril {

// [max_length, model].
std::vector<float> sinusoidal_values(const TransformerConfig& config);
// [max_length, head_dim], as kernels::fill_rotary_table makes it.
std::vector<float> rotary_values(const TransformerConfig& config);
// What each head loses per position of distance.
std::vector<double> alibi_slopes(const TransformerConfig& config);
// [heads, 2 max_length - 1], entry max_length - 1 + key - query.
std::vector<float> alibi_values(const TransformerConfig& config);
// [2 max_length - 1], the bucket of key - query in the same order.
std::vector<int32_t> relative_buckets(const TransformerConfig& config,
                                      ops::BiasDirections directions);

}  // namespace tril
