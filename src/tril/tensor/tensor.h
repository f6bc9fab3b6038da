// Tensor: a typed, shaped handle to memory of the step that made it. Copying copies the handle.
//
// Tensors are row-major and dense, except for a column_slice() of a matrix, whose rows lie apart:
// only operations that say so accept it, the others raise. A default Tensor is undefined and means
// that there is none (a Linear without bias). Constness is that of the handle: whether a tensor is
// written is said where it is passed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tril/base/dtype.h"
#include "tril/base/error.h"
#include "tril/device/device.h"
#include "tril/tensor/shape.h"
#include "tril/tensor/ticket.h"

namespace tril {

class TensorMemory;  // tensor/arena.h: what owns the memory of a step

class Tensor {
 public:
  Tensor() = default;
  // Not initialised.
  Tensor(TensorMemory& memory, const Shape& shape, DType type = DType::f32);

  // Elements that `owner` keeps alive but did not allocate; never to be written.
  static Tensor view(const TensorMemory& owner, const void* elements, const Shape& shape,
                     DType type);

  bool defined() const { return data_ != nullptr || ticket_.memory != 0; }
  const Shape& shape() const { return shape_; }
  int64_t size() const { return shape_.size(); }
  int64_t rows() const { return shape_.rows(); }
  int64_t columns() const { return shape_.columns(); }
  DType dtype() const { return type_; }
  Device device() const { return device_; }

  // Raises when the tensor is undefined, of another type, not in host memory, not dense, or from a
  // step that has ended since.
  template <class T = float>
  T* data() const {
    check_readable(dtype_of<T>(), Device::cpu);
    return static_cast<T*>(data_);
  }
  // The same for its device's memory, for operations to pass to kernels.
  template <class T = float>
  T* on_device() const {
    check_readable(dtype_of<T>(), device_);
    return static_cast<T*>(data_);
  }
  void* raw() const;
  // The first row, for callers that use row_stride(): the tensor need not be dense.
  template <class T = float>
  T* rows_on_device() const {
    check_kind(dtype_of<T>(), device_);
    return static_cast<T*>(raw_rows());
  }
  void* raw_rows() const;
  bool dense() const { return row_stride_ == 0; }
  // From one row of the first axis to the next, in elements.
  int64_t row_stride() const {
    return !dense() ? row_stride_ : shape_.rank() == 0 || shape_[0] == 0 ? 0 : size() / shape_[0];
  }
  // Identifies a tensor: two handles to the same memory have the same address. Never dereferenced.
  const void* address() const { return data_; }
  // For a slice, the address of the tensor it is part of; null for a whole one.
  const void* part_of() const { return part_of_; }

  // The same elements in another shape; where rows lie apart, with the same number of rows.
  Tensor reshaped(const Shape& shape) const;
  // Rows [begin, end) of the first axis.
  Tensor slice(int64_t begin, int64_t end) const;
  // Columns [begin, end) of a dense matrix as a tensor of its own: unlike a slice it has a gradient
  // (and then the matrix itself must not have one).
  Tensor column_slice(int64_t begin, int64_t end) const;
  // The matrix whose column_slice()s these are, all of them, in this order; undefined if they are
  // not. They may have been reshaped since.
  static Tensor joined(std::span<const Tensor> parts);

 private:
  void check_kind(DType type, Device device) const;
  void check_readable(DType type, Device device) const {
    check_kind(type, device);
    raw();
  }

  void* data_ = nullptr;
  const void* part_of_ = nullptr;
  Shape shape_;
  Ticket ticket_;
  DType type_ = DType::f32;
  Device device_ = Device::cpu;
  int64_t row_stride_ = 0;  // 0: dense
};

// A tensor that may be read and not written: what a model gives away of its weights. Whoever may
// write may read, so a Tensor is one; there is no way back.
class ConstTensor {
 public:
  ConstTensor() = default;
  ConstTensor(const Tensor& tensor) : tensor_(tensor) {}  // NOLINT: see above

  bool defined() const { return tensor_.defined(); }
  const Shape& shape() const { return tensor_.shape(); }
  int64_t size() const { return tensor_.size(); }
  int64_t rows() const { return tensor_.rows(); }
  int64_t columns() const { return tensor_.columns(); }
  DType dtype() const { return tensor_.dtype(); }
  Device device() const { return tensor_.device(); }
  bool dense() const { return tensor_.dense(); }
  int64_t row_stride() const { return tensor_.row_stride(); }
  // These raise as a Tensor's do.
  template <class T = float>
  const T* data() const {
    return tensor_.data<T>();
  }
  template <class T = float>
  const T* on_device() const {
    return tensor_.on_device<T>();
  }
  const void* raw() const { return tensor_.raw(); }
  const void* raw_rows() const { return tensor_.raw_rows(); }
  const void* address() const { return tensor_.address(); }

 private:
  Tensor tensor_;
};
struct NamedConstTensor {
  std::string name;
  ConstTensor tensor;
};

// The elements of a tensor on any device and of any type, as fp32, for reading results; waits for
// the device.
std::vector<float> to_floats(const ConstTensor& tensor);
// The same as a view, copied only if they are not already fp32 in host memory. Valid as long as the
// tensor.
class OnHost {
 public:
  explicit OnHost(const ConstTensor& tensor);
  const float* data() const { return data_; }
  std::span<const float> values() const { return {data_, size_}; }
  std::span<const float> row(int64_t row, int64_t columns) const {
    return values().subspan(static_cast<size_t>(row * columns), static_cast<size_t>(columns));
  }

 private:
  std::vector<float> copy_;
  const float* data_;
  size_t size_;
};
// From the same number of fp32 values, rounded where the tensor's type is narrower.
void set_values(const Tensor& tensor, std::span<const float> values);
void set_zero(const Tensor& tensor);
// Elementwise into a tensor of the same size on any device, rounded where its type is narrower.
void copy_into(const ConstTensor& from, const Tensor& to);

}  // namespace tril
