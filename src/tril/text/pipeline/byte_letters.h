// The alphabet of byte-level tokenizers: one printable character for each byte, GPT-2's choice.
#pragma once

#include <string>
#include <string_view>

namespace tril::pipeline {

// Each byte of the text as its letter.
std::string to_byte_letters(std::string_view text);
// The bytes that letters stand for; text with any other character stays as it is.
std::string from_byte_letters(std::string_view letters);

// Text with each sequence of bytes that is not UTF-8 replaced by one U+FFFD: as many bytes at once
// as could begin a character (Unicode's recommendation, section 3.9).
std::string replace_invalid(std::string_view bytes);

}  // namespace tril::pipeline
