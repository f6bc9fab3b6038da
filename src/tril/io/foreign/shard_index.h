// The index of weights that are spread over several files (`model.safetensors.index.json`,
// `pytorch_model.bin.index.json`): which file of the same folder holds which tensor. Internal to
// io/.
//   {"metadata": {...}, "weight_map": {"tensor": "file", ...}}
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tril::foreign {

using ShardIndex = std::map<std::string, std::string, std::less<>>;  // tensor -> file

// `file` is for errors. A shard's name ends with `ending` (".bin") and is that of a file in the
// folder itself; anything that could lead elsewhere is refused.
ShardIndex read_shard_index(std::string_view text, std::string_view ending,
                            const std::string& file);

}  // namespace tril::foreign
