// The languages of models whose files do not list them, in the order of their tokens.
#pragma once

#include <string>
#include <vector>

namespace tril {

std::vector<std::string> m2m100_languages();
std::vector<std::string> wmt21_languages();
std::vector<std::string> nllb_languages();
std::vector<std::string> mbart25_languages();
std::vector<std::string> mbart50_languages();

}  // namespace tril
