// Properties of characters that tokenizers ask for, by Unicode. All functions are pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tril::pipeline {

bool is_letter(char32_t character);  // \p{L}
bool is_number(char32_t character);  // \p{N}
bool is_space(char32_t character);   // \s: the property White_Space
bool is_word(char32_t character);    // \w

// The character that begins at `at` in valid text.
struct CharacterAt {
  char32_t character = 0;
  size_t bytes = 0;
};
CharacterAt character_at(std::string_view text, size_t at);
// The character that ends before `end`, which is not 0.
CharacterAt character_before(std::string_view text, size_t end);

// The number of bytes of the first extended grapheme cluster (UAX 29) of valid text that is not
// empty.
size_t cluster_bytes(std::string_view text);

}  // namespace tril::pipeline
