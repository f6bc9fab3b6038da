#include "units.h"

#include <fmt/core.h>

namespace tril::app {
namespace {

// About three digits.
std::string short_text(double value, std::string_view unit) {
  const int decimals = value < 10.0 ? 2 : value < 100.0 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

}  // namespace

std::string grouped(int64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string counted(int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", grouped(number), what, number == 1 ? "" : "s");
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return short_text(seconds * 1e6, "us");
  if (seconds < 1.0) return short_text(seconds * 1e3, "ms");
  return short_text(seconds, "s");
}

std::string bytes_text(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size < 1024.0 * 1024.0) return fmt::format("{:.1f} KiB", size / 1024.0);
  return fmt::format("{:.1f} MiB", size / (1024.0 * 1024.0));
}

}  // namespace tril::app
