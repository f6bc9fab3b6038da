// Token ids as text: what `tril translate --ids` prints and `tril score --ids` reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tril {

// "12 7 3": whole numbers that an int32_t holds, with blanks between, and around them as many as
// there are. Nothing for any other text; whether a number is a token is for the model to say.
std::optional<std::vector<int32_t>> parse_token_ids(std::string_view line);

}  // namespace tril
