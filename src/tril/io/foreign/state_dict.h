// The tensors that the pickle of a PyTorch state dict describes, as views of storages that lie
// elsewhere in the file. Internal to io/.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/io/foreign/pickle.h"
#include "tril/io/stored_type.h"
#include "tril/tensor/shape.h"

namespace tril::foreign {

// What a state dict may name: functions that rebuild a tensor, and types of storages.
std::span<const std::string_view> state_dict_globals();

struct Storage {
  StoredType type = StoredType::f32;
  int64_t elements = 0;
  int64_t bytes() const { return elements * size_of(type); }
};

struct StorageView {
  std::string name;  // of the tensor
  std::string storage;
  int64_t offset = 0;  // in elements
  Shape shape{};
  std::array<int64_t, Shape::kMaxRank> strides{};
};

struct StateDict {
  std::map<std::string, Storage, std::less<>> storages;  // by key
  std::vector<StorageView> views;                        // sorted by name
};

// Every view lies inside its storage. Raises `bad_format`; errors begin with `where`.
StateDict read_state_dict(const Pickle& pickle, const std::string& where);

}  // namespace tril::foreign
