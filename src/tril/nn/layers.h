// The layers of a Transformer, and the set of parameters they name.
//
// A layer is a handful of tensors and the call that uses them; it knows nothing of models. Layers
// are built once, into a ParameterSet that owns the memory, and then only read: any number of
// threads may call them, each with its own Context.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tril/autograd/functions.h"
#include "tril/base/rng.h"

namespace tril::nn {

enum class Init { zero, one, xavier, normal };  // normal: standard deviation columns^-1/2

struct Parameter {
  std::string name;
  Tensor tensor;
  Init init;
};

class ParameterSet {
 public:
  // Called for each parameter before memory is allocated for it, and may raise: so a loader can
  // refuse a configuration that does not fit its file.
  using Gate = std::function<void(const std::string& name, const Shape& shape)>;
  // Keeps the weights and their packed forms.
  explicit ParameterSet(const Placement& placement = {}, Gate gate = {});
  // For inference: keeps matrices only in packed form; fill() makes it.
  ParameterSet(const Placement& placement, Compute compute, Gate gate = {});
  // The same on the CPU, with weights that are already packed: `find` returns them by name, shape
  // and type.
  using Find = std::function<Tensor(const std::string& name, const Shape& shape, DType type)>;
  ParameterSet(Compute compute, Find find);

  const Placement& placement() const { return placement_; }
  bool only_packed() const { return only_packed_; }
  // The form that products read.
  Compute compute() const { return form_->compute(); }

  // A new parameter, filled with zeros. Its name must be new.
  Tensor add(const std::string& name, const Shape& shape, Init init);
  // A matrix [out, in] to multiply by, to look rows up in, or both; the reference stays valid.
  enum class Use { table, linear };
  ops::LinearWeight& add_matrix(const std::string& name, int64_t out, int64_t in, Init init,
                                Use use);
  // Matrices and biases added during its lifetime are packed one after the other if that allows one
  // product for all of them (ops::are_stacked). `outs` are their outputs, in order.
  class Stack {
   public:
    Stack(ParameterSet& set, std::span<const int64_t> outs, int64_t in);
    ~Stack() { set_.stack_ = nullptr; }
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;

   private:
    friend class ParameterSet;
    ParameterSet& set_;
    ops::WeightStack stack_;
  };

  // Makes a table usable for products as well.
  void use_as_linear(ops::LinearWeight& matrix, const Tensor& bias);

  const std::vector<Parameter>& list() const { return list_; }
  // The rounded copy of a parameter that products read, number by number; undefined if there is
  // none.
  Tensor rounded(const Parameter& parameter) const;
  int64_t count() const { return count_; }  // of numbers, before they were packed
  // Everything packed for inference, under the names with which `find` is called.
  std::vector<Parameter> packed(Context& context, Compute compute, Arena& arena) const;
  // The same of a set that fill() packed: the tensors themselves.
  std::vector<Parameter> packed() const;
  // Where numbers are expressions: every parameter becomes leaves with its name.
  void name_leaves();
  // Whether a tape may record what uses them.
  bool can_be_recorded() const {
    return !only_packed() || placement_.activations == DType::expression;
  }
  // Draws every parameter according to its Init, each from its own random stream.
  void initialise(uint64_t seed);
  // Sets every parameter from f32 or bf16 tensors in host memory, by name, and packs what the
  // kernels read.
  using Source = std::function<Tensor(const std::string& name)>;
  void fill(Context& context, const Source& source);
  // Packs what the kernels read; to be called whenever weights changed.
  void pack(Context& context);
  // From now on also keeps what the backward pass reads packed.
  void prepare_training();

 private:
  struct Matrix {
    std::string name;
    ops::LinearWeight linear;
  };
  static void append_parts(const std::string& name, const ops::LinearWeight& packed,
                           std::vector<Parameter>& to);

  Placement placement_;
  Gate gate_;
  Find find_;
  bool only_packed_ = false;
  const ops::WeightForm* form_;
  Arena weights_;
  Arena panels_;
  Stack* stack_ = nullptr;
  std::vector<Parameter> list_;
  int64_t count_ = 0;
  std::deque<Matrix> matrices_;
};

enum class Bias { none, present };

// y = x Wᵀ + b
struct Linear {
  Linear() = default;
  Linear(ParameterSet& set, const std::string& name, int64_t out, int64_t in, Bias bias);
  explicit Linear(const ops::LinearWeight& shared) : weight(&shared) {}

  Tensor operator()(Context& context, const Tensor& x) const {
    return autograd::linear(context, x, *weight);
  }
  explicit operator bool() const { return weight != nullptr; }

  const ops::LinearWeight* weight = nullptr;
};

struct Norm {
  Norm() = default;
  Norm(ParameterSet& set, const std::string& name, ops::NormKind kind, int64_t columns,
       float epsilon);

  Tensor operator()(Context& context, const Tensor& x) const {
    return autograd::norm(context, kind, epsilon, x, weight, bias);
  }

  ops::NormKind kind = ops::NormKind::layer;
  float epsilon = 1e-5f;
  Tensor weight, bias;
};

// out(activation(in(x))), or gated: out(activation(gate(x)) in(x)).
struct FeedForward {
  enum class Form { plain, gated };
  FeedForward() = default;
  FeedForward(ParameterSet& set, const std::string& name, int64_t model, int64_t hidden,
              ops::Activation kind, Form form, Bias bias);

  Tensor operator()(Context& context, const Tensor& x) const {
    return out(context, hidden(context, x));
  }
  Tensor hidden(Context& context, const Tensor& x) const;  // after the activation

  ops::Activation activation = ops::Activation::relu;
  Linear in, gate, out;
};

}  // namespace tril::nn
