// Figures for people to read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril::app {

// 1234567: "1,234,567".
std::string grouped(int64_t number);
// "1 sentence", "1,200 sentences".
std::string counted(int64_t number, std::string_view what);
// About three digits: "85.0 us", "12.3 ms", "4.56 s", "789 s".
std::string time_text(double seconds);
// "0.5 KiB", "12.3 MiB".
std::string bytes_text(int64_t bytes);

}  // namespace tril::app
