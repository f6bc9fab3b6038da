// Shared by the fuzz targets of other programs' weights: what was accepted can be read, every
// element of it, and what was not is one good Error.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "scratch.h"
#include "tril/base/error.h"
#include "tril/io/foreign/tensor_place.h"

namespace tril::fuzz {

// In memory that ends where the file does, so that the sanitizer sees a read past it.
inline void read_all(std::string_view bytes, const std::vector<foreign::TensorPlace>& places) {
  const auto file = std::make_unique<char[]>(bytes.size());
  std::memcpy(file.get(), bytes.data(), bytes.size());
  const std::string_view exact(file.get(), bytes.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const foreign::TensorPlace& place = places[i];
    check(i == 0 || places[i - 1].name < place.name);
    check(place.bytes() <= static_cast<int64_t>(bytes.size()));
    check(extent_of(exact, place).size() <= bytes.size());
    const auto elements = static_cast<size_t>(place.shape.size());
    const auto memory = std::make_unique<char[]>(static_cast<size_t>(place.bytes()));
    const std::span all(memory.get(), static_cast<size_t>(place.bytes()));
    copy_elements(exact, place, 0, all);
    std::vector<float> values(elements);
    read_elements(place.type, memory.get(), values);
    if (elements < 2) continue;
    // The second half alone is the second half of the whole.
    const auto first = static_cast<size_t>(elements / 2 * static_cast<size_t>(size_of(place.type)));
    std::vector<char> half(all.size() - first);
    copy_elements(exact, place, static_cast<int64_t>(elements / 2), half);
    check(std::memcmp(half.data(), memory.get() + first, half.size()) == 0);
  }
}

template <class Read>
void places_or_error(std::string_view bytes, const Read& read) {
  try {
    read_all(bytes, read());
  } catch (const Error& error) {
    check(std::strncmp(error.what(), "fuzz: ", 6) == 0);
    check(error.code() == ErrorCode::bad_format);
  }
}

}  // namespace tril::fuzz
