#include "tril/tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "tril/tensor/arena.h"

namespace tril {

Tensor::Tensor(TensorMemory& memory, const Shape& shape, DType type) : shape_(shape), type_(type) {
  auto& arena = static_cast<Arena&>(memory);
  ticket_ = arena.ticket();
  device_ = arena.device();
  int64_t bytes = 0;
  require(!__builtin_mul_overflow(shape.size(), size_of(type), &bytes), ErrorCode::invalid_argument,
          "tensor ", shape, " is too large");
  data_ = arena.allocate(bytes);
}

Tensor Tensor::view(const TensorMemory& owner, const void* elements, const Shape& shape,
                    DType type) {
  const auto& arena = static_cast<const Arena&>(owner);
  Tensor tensor;
  tensor.data_ = const_cast<void*>(elements);
  tensor.shape_ = shape;
  tensor.ticket_ = arena.ticket();
  tensor.type_ = type;
  tensor.device_ = arena.device();
  return tensor;
}

void* Tensor::raw() const {
  void* memory = raw_rows();
  require(dense(), ErrorCode::internal, "tensor ", shape_, " was read as if it were dense");
  return memory;
}

void* Tensor::raw_rows() const {
  require(defined(), ErrorCode::invalid_argument, "an undefined tensor was read");
  require(is_current(ticket_), ErrorCode::invalid_argument, "tensor ", shape_,
          " is stale: its arena was reset or destroyed since it was made");
  return data_;
}

void Tensor::check_kind(DType type, Device device) const {
  raw_rows();
  require(device == device_, ErrorCode::internal, "tensor ", shape_, " on ", device_,
          " was read on ", device);
  require(type == type_, ErrorCode::invalid_argument, "a tensor of ", type_, " was read as ", type);
}

Tensor Tensor::reshaped(const Shape& shape) const {
  require(shape.size() == size(), ErrorCode::shape_mismatch, "reshape: ", shape_, " has ", size(),
          " elements, ", shape, " has ", shape.size());
  require(dense() || (shape.rank() > 0 && shape[0] == shape_[0]), ErrorCode::unsupported,
          "reshape: ", shape_, " to ", shape, ", but its rows lie apart");
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  require(shape_.rank() >= 1 && begin >= 0 && begin <= end && end <= shape_[0],
          ErrorCode::invalid_argument, "slice: rows ", begin, " to ", end, " of ", shape_);
  Tensor result = *this;
  result.part_of_ = part_of_ != nullptr ? part_of_ : data_;
  result.data_ = static_cast<char*>(raw_rows()) + begin * row_stride() * size_of(type_);
  switch (shape_.rank()) {
    case 1: result.shape_ = Shape{end - begin}; break;
    case 2: result.shape_ = Shape{end - begin, shape_[1]}; break;
    case 3: result.shape_ = Shape{end - begin, shape_[1], shape_[2]}; break;
    default: result.shape_ = Shape{end - begin, shape_[1], shape_[2], shape_[3]}; break;
  }
  return result;
}

Tensor Tensor::column_slice(int64_t begin, int64_t end) const {
  require(shape_.rank() == 2 && begin >= 0 && begin <= end && end <= shape_[1],
          ErrorCode::invalid_argument, "column_slice: columns ", begin, " to ", end, " of ",
          shape_);
  Tensor result = *this;
  result.data_ = static_cast<char*>(raw()) + begin * size_of(type_);
  result.shape_ = Shape{shape_[0], end - begin};
  result.row_stride_ = end - begin == shape_[1] ? 0 : shape_[1];
  return result;
}

Tensor Tensor::joined(std::span<const Tensor> parts) {
  int64_t columns = 0;
  for (const Tensor& part : parts) {
    if (!part.defined() || part.dense() || part.shape_.rank() == 0 ||
        part.row_stride_ != parts[0].row_stride_ || part.shape_[0] != parts[0].shape_[0] ||
        part.type_ != parts[0].type_ || part.device_ != parts[0].device_ ||
        part.data_ != static_cast<char*>(parts[0].data_) + columns * size_of(part.type_)) {
      return {};
    }
    columns += part.shape_[0] == 0 ? 0 : part.size() / part.shape_[0];
  }
  if (parts.empty() || columns != parts[0].row_stride_) return {};
  Tensor result = parts[0];
  result.shape_ = Shape{parts[0].shape_[0], columns};
  result.row_stride_ = 0;
  return result;
}

namespace {

// The rows one behind the other, even where they lie apart.
std::vector<char> bytes_of(const ConstTensor& tensor) {
  const int64_t each = size_of(tensor.dtype());
  std::vector<char> bytes(static_cast<size_t>(tensor.size() * each));
  const auto read = [&](std::vector<char>& to) {
    copy(Device::cpu, to.data(), tensor.device(), tensor.raw_rows(),
         static_cast<int64_t>(to.size()));
  };
  if (tensor.dense() || tensor.size() == 0) {
    read(bytes);
    return bytes;
  }
  const int64_t rows = tensor.shape()[0];
  const int64_t row = tensor.size() / rows * each;
  const int64_t step = tensor.row_stride() * each;
  std::vector<char> apart(static_cast<size_t>((rows - 1) * step + row));
  read(apart);
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(bytes.data() + i * row, apart.data() + i * step, static_cast<size_t>(row));
  }
  return bytes;
}

}  // namespace

std::vector<float> to_floats(const ConstTensor& tensor) {
  const std::vector<char> bytes = bytes_of(tensor);
  std::vector<float> result(static_cast<size_t>(tensor.size()));
  if (result.empty()) return result;  // memcpy takes no null pointer, not even for no bytes
  if (tensor.dtype() == DType::f32) {
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  require(tensor.dtype() == DType::bf16, ErrorCode::unsupported, "a tensor of ", tensor.dtype(),
          " has no fp32 numbers");
  for (size_t i = 0; i < result.size(); ++i) {
    BFloat16 value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    result[i] = to_f32(value);
  }
  return result;
}

OnHost::OnHost(const ConstTensor& tensor) : size_(static_cast<size_t>(tensor.size())) {
  if (!on_gpu(tensor.device()) && tensor.dtype() == DType::f32 && tensor.dense()) {
    data_ = tensor.data();
  } else {
    copy_ = to_floats(tensor);
    data_ = copy_.data();
  }
}

void set_values(const Tensor& tensor, std::span<const float> values) {
  require(static_cast<int64_t>(values.size()) == tensor.size(), ErrorCode::shape_mismatch,
          "copy: ", values.size(), " numbers into ", tensor.shape());
  const auto bytes = tensor.size() * size_of(tensor.dtype());
  if (tensor.dtype() == DType::f32) {
    return copy(tensor.device(), tensor.raw(), Device::cpu, values.data(), bytes);
  }
  require(tensor.dtype() == DType::bf16, ErrorCode::unsupported, "copy: into a tensor of ",
          tensor.dtype());
  std::vector<BFloat16> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), to_bf16);
  copy(tensor.device(), tensor.raw(), Device::cpu, rounded.data(), bytes);
}

void set_zero(const Tensor& tensor) {
  fill_zero(tensor.device(), tensor.raw(), tensor.size() * size_of(tensor.dtype()));
}

void copy_into(const ConstTensor& from, const Tensor& to) {
  require(from.size() == to.size(), ErrorCode::shape_mismatch, "copy: ", from.shape(), " into ",
          to.shape());
  if (from.dtype() != to.dtype() || !from.dense()) return set_values(to, to_floats(from));
  copy(to.device(), to.raw(), from.device(), from.raw(), from.size() * size_of(from.dtype()));
}

}  // namespace tril
