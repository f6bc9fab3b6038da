// Token ids as text: what `tril translate --ids` prints and `tril score --ids` reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tril {

// "12 7 3": int32_t numbers separated by blanks, with any number of blanks around them. Nothing for
// any other text; whether a number is a token is checked by the model.
std::optional<std::vector<int32_t>> parse_token_ids(std::string_view line);

}  // namespace tril
