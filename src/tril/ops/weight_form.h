// Forms of weights: how a weight [out, in] is stored for products, and how it is multiplied.
//
// A WeightForm is one stateless object per form: it says what a packed weight consists of, packs
// and unpacks it, and multiplies by it. A LinearWeight names its form and holds what the form
// packed. Callers ask the form what it can do, never for its name or the device. A new form is one
// class in ops/forms and one entry in the list in weight_form.cpp. Any thread may use a form.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "tril/base/compute.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

using tril::Compute;

class WeightForm;

// A weight, its bias, and what its form packed of them. Training keeps the weight, and whoever
// changes it packs it again; if no gradients are needed, the packed parts are enough.
struct LinearWeight {
  static constexpr size_t kMostParts = 3;

  Tensor weight{};  // [out, in], f32; undefined if only packed parts are kept
  Tensor bias{};    // [out], f32, or undefined
  int64_t out = 0;  // the weight's sizes, also if only packed parts are kept
  int64_t in = 0;
  const WeightForm* form = nullptr;        // null: form_of() chooses one, which packs for each use
  std::array<Tensor, kMostParts> parts{};  // the form's own; undefined ones are not kept
};
// From an existing weight.
LinearWeight linear_weight(const Tensor& weight, const Tensor& bias = {});

// Rows [begin, end) of an input and the weight they are multiplied by.
struct RowsByWeight {
  int64_t begin = 0;
  int64_t end = 0;
  const LinearWeight* weight = nullptr;
};

// Whether a product replaces what is in its result or is added to it.
enum class SliceOfSum { first, further };

// Memory for weights stored one after the other, part by part, and how much of it is used.
struct WeightStack {
  std::array<Tensor, LinearWeight::kMostParts> room{};
  std::array<int64_t, LinearWeight::kMostParts> taken{};
};

class WeightForm {
 public:
  virtual ~WeightForm() = default;
  WeightForm(const WeightForm&) = delete;
  WeightForm& operator=(const WeightForm&) = delete;

  Compute compute() const { return compute_; }
  // Whether contexts of this placement can multiply by weights in this form.
  virtual bool suits(const Placement& placement) const = 0;
  // Raises `unsupported` if this machine cannot multiply in this form.
  virtual void check_supported() const {}
  // Raises `unsupported` if sums of this many terms are too long.
  virtual void check_terms(int64_t /*in*/) const {}

  // ---- memory
  // What a packed weight consists of, in the order of LinearWeight::parts. Files name a part by the
  // weight's name and this one.
  struct Part {
    std::string_view name;
    Shape shape;
    DType type;
  };
  virtual std::vector<Part> parts(int64_t out, int64_t in) const = 0;
  // Allocates in `arena` what pack() fills, if it is not allocated yet.
  virtual void allocate(Arena& arena, LinearWeight& linear) const;
  // The same for what gradients read, if that is packed separately.
  virtual void allocate_for_gradients(Arena& /*arena*/, LinearWeight& /*linear*/) const {}

  // ---- packing
  // Fills the allocated parts. The weight, f32 or bf16, may be in host memory, and is not needed
  // afterwards. `bias` is that of `to`, or undefined.
  void pack(Context& context, const Tensor& weight, const Tensor& bias,
            const LinearWeight& to) const;
  // Row `row` of the weight as products see it, for a weight in host memory.
  virtual void unpack_row(const LinearWeight& linear, int64_t row, float* to) const;
  // The weight's rows in memory, if kernels can look them up there; else undefined.
  struct Rows {
    Tensor table{};  // f32 or bf16
    int64_t stride = 0;
  };
  virtual Rows rows(const LinearWeight& linear) const { return {linear.weight, linear.in}; }
  // Outputs `rows` as a weight of their own, in memory of `arena`; the caller has checked `rows`.
  virtual LinearWeight part_of(Context& context, const LinearWeight& linear,
                               std::span<const int32_t> rows, Arena& arena) const;
  // The part that holds `parameter` (the weight or the bias) rounded, element by element, so that
  // an optimiser can write both at once; undefined if packing does more than round.
  virtual Tensor rounded(const LinearWeight& /*linear*/, const Tensor& /*parameter*/) const {
    return {};
  }

  // ---- products. Shapes are checked and results allocated; all weights have this form.
  // y[i] = x W[i]ᵀ + b[i], of at most kernels::kMostProducts weights.
  virtual void multiply(Context& context, const Tensor& x,
                        std::span<const LinearWeight* const> weights,
                        std::span<const Tensor> y) const = 0;
  // The same with a weight of its own, which part_of() made, for every part of the rows.
  virtual void multiply_rows(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                             std::span<const Tensor> y) const;
  // dx = dy W; with SliceOfSum::further, dx += dy W.
  virtual void input_gradient(Context& context, const Tensor& dy,
                              std::span<const LinearWeight* const> weights, const Tensor& dx,
                              SliceOfSum slice) const;
  // The number of outputs, padding included, with which large products are fastest if a row of
  // their result has room for it.
  virtual int64_t padded_outputs(int64_t out) const { return out; }

  // ---- what only some forms can do
  // ReLU of a product in one operation.
  virtual bool has_relu() const { return false; }
  virtual void multiply_relu(Context& context, const Tensor& x, const LinearWeight& linear,
                             const Tensor& y) const;
  // Several weights stored one after the other, which are multiplied as one: stack_for() allocates
  // memory for them (undefined if the form cannot do this), place() gives a weight its share,
  // are_stacked() recognises them, and multiply_stacked() writes their outputs side by side into y.
  // input_gradient() of such weights takes the dy of all of them side by side.
  virtual WeightStack stack_for(Arena& /*arena*/, std::span<const int64_t> /*outs*/,
                                int64_t /*in*/) const {
    return {};
  }
  virtual void place(WeightStack& /*stack*/, LinearWeight& /*linear*/) const {}
  virtual bool are_stacked(std::span<const LinearWeight* const> /*weights*/) const { return false; }
  virtual void multiply_stacked(Context& context, const Tensor& x,
                                std::span<const LinearWeight* const> weights,
                                const Tensor& y) const;

 protected:
  explicit WeightForm(Compute compute) : compute_(compute) {}

 private:
  // pack() of a weight in f32, in memory of the context's device.
  virtual void fill(Context& context, const Tensor& weight, const Tensor& bias,
                    const LinearWeight& to) const = 0;

  Compute compute_;
};

// The names of the forms that suit a placement.
std::vector<Compute> computes_for(const Placement& placement);
// The form of this name for a placement; raises `unsupported` if there is none.
const WeightForm& form_for(const Placement& placement, Compute compute);
// The form for weights that are kept as they are, as in training: bf16 where activations are bf16,
// else fp32.
const WeightForm& form_for(const Placement& placement);
// The weight's own form or, if it names none, form_for(context.placement()). Raises `unsupported`
// if it does not suit the context.
const WeightForm& form_of(const Context& context, const LinearWeight& linear);

// A weight in a form for inference, in memory of `arena`, without its bias; nothing is shared with
// `weight`, which may be in host memory.
LinearWeight packed_for(Context& context, const Tensor& weight, Compute compute, Arena& arena);

}  // namespace tril::ops
