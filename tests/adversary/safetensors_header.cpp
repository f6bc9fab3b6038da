#include "safetensors_header.h"

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

namespace adversary {
namespace {

using Json = nlohmann::ordered_json;

struct Parts {
  Json header;
  std::string tensors;
};

std::optional<Parts> parts_of(const std::string& bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size > bytes.size() - sizeof size) return std::nullopt;
  Parts parts;
  parts.header = Json::parse(bytes.substr(sizeof size, size), nullptr, false);
  if (!parts.header.is_object()) return std::nullopt;
  parts.tensors = bytes.substr(sizeof size + size);
  return parts;
}

}  // namespace

std::string comparable_checkpoint(const std::string& bytes) {
  std::optional<Parts> parts = parts_of(bytes);
  if (!parts || !parts->header.contains("__metadata__")) return bytes;
  Json& metadata = parts->header["__metadata__"];
  metadata.erase("tril_seal");
  if (metadata.contains("state") && metadata["state"].is_string()) {
    Json state = Json::parse(metadata["state"].get<std::string>(), nullptr, false);
    if (state.is_object()) state.erase("seconds");
    metadata["state"] = state;
  }
  return parts->header.dump() + parts->tensors;
}

std::string without_seal(const std::string& bytes) {
  std::optional<Parts> parts = parts_of(bytes);
  if (!parts || !parts->header.contains("__metadata__")) return "";
  Json& metadata = parts->header["__metadata__"];
  Json rest = Json::object();
  for (const auto& [name, value] : metadata.items()) {
    if (!name.starts_with("tril_seal") && !name.starts_with("tril_checksum")) rest[name] = value;
  }
  if (rest.size() == metadata.size()) return "";
  metadata = rest;
  std::string header = parts->header.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  std::string result(sizeof size, '\0');
  std::memcpy(result.data(), &size, sizeof size);
  return result + header + parts->tensors;
}

}  // namespace adversary
