// Pictures as files: what they show, and how similar two are.
#pragma once

#include <cstdint>
#include <string>

#include "browser/webdriver.h"

namespace tril::testing {

// A PNG carries a text that says what it shows: a fingerprint of the page and of how it was taken.
// Two with the same text show the same thing, whatever fonts they were drawn with.
void sign_picture(const std::string& path, const std::string& subject);
std::string subject_of(const std::string& png);  // empty: unsigned

// How two pictures of the same size differ: the share of pixels that have no similar one in the
// other picture at the same or a neighbouring place (a line of text may fall on either of two
// rows); colours are similar within 24 of 255. 1 for different sizes.
double difference(const std::string& png, const std::string& other, Browser& browser);

std::string bytes_of(const std::string& path);  // empty if there is no file

}  // namespace tril::testing
