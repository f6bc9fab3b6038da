// Pictures as files: what they are of, and how alike two are.
#pragma once

#include <cstdint>
#include <string>

#include "browser/webdriver.h"

namespace tril::testing {

// A PNG carries a text that says what it is a picture of: a fingerprint of the page and of how it
// was taken. Two with the same text show the same thing, whatever fonts they were drawn with.
void sign_picture(const std::string& path, const std::string& subject);
std::string subject_of(const std::string& png);  // empty: unsigned

// How two pictures of the same size differ: the share of pixels like which there is none in the
// other, in its place or beside it (a line of text may fall on either of two rows), a colour being
// alike within 24 of 255. 1 for different sizes.
double difference(const std::string& png, const std::string& other, Browser& browser);

std::string bytes_of(const std::string& path);  // empty where there is no file

}  // namespace tril::testing
