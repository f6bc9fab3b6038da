// "Did you mean": the word nearest to one that was mistyped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tril::app {

// The nearest of `words`, if one is near enough to have been meant; else nothing. Near means few
// letters left out, added, changed or swapped with their neighbour.
std::string nearest(std::string_view word, const std::vector<std::string>& words);

// " (did you mean 'translate'?)", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& words);

}  // namespace tril::app
