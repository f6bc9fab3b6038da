#include "tril/io/foreign/safetensors_places.h"

#include <algorithm>
#include <utility>

#include "tril/io/safetensors_header.h"

namespace tril::foreign {

std::vector<TensorPlace> read_safetensors_places(std::string_view bytes, const std::string& file,
                                                 SafetensorsMetadata& metadata) {
  using safetensors::kLengthBytes;
  const int64_t length =
      safetensors::read_length(bytes.substr(0, kLengthBytes), std::ssize(bytes), file);
  const int64_t begin = kLengthBytes + length;
  const std::string_view text = bytes.substr(kLengthBytes, static_cast<size_t>(length));
  safetensors::Header header =
      safetensors::read_header(text, std::ssize(bytes) - begin, file, SafetensorsTypes::all);
  std::vector<TensorPlace> places;
  places.reserve(header.entries.size());
  for (safetensors::Entry& entry : header.entries) {
    places.push_back({std::move(entry.name), entry.type, entry.shape, begin + entry.begin,
                      dense_strides(entry.shape)});
  }
  std::sort(places.begin(), places.end(),
            [](const TensorPlace& a, const TensorPlace& b) { return a.name < b.name; });
  metadata = std::move(header.info.metadata);
  return places;
}

}  // namespace tril::foreign
