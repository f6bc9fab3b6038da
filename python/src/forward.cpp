// One call of a model's forward(), with its numbers as arrays that are not copied: they lie in the
// memory of the session that computed them, which the arrays keep alive.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <memory>

#include "bind.h"
#include "model.h"
#include "tril/models/session_state.h"
#include "tril/models/transformer.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// What an attention of one layer read, copied to the host as it was computed.
struct Attended {
  int64_t query = 0, key = 0;
  std::vector<float> queries, keys;  // [query, heads, head_dim], [key, kv_heads, head_dim]
  std::vector<Interval> sees;
  float scale = 0.0f;
  std::vector<float> bias;  // [heads, offsets]; empty: none
  int64_t bias_zero = 0;
};

class Watcher : public Observer {
 public:
  explicit Watcher(const TransformerConfig& config)
      : config_(config),
        encoder(static_cast<size_t>(config.encoder_layers)),
        masked(static_cast<size_t>(config.decoder_layers)),
        cross(static_cast<size_t>(config.decoder_only() ? 0 : config.decoder_layers)) {}

  void see(const Observation& o) override {
    if (o.layer < 0) return;
    const auto layer = static_cast<size_t>(o.layer);
    Attended& self = o.stack == Stack::decoder ? masked[layer] : encoder[layer];
    if (o.site == Site::query) add_query(self, o);
    if (o.site == Site::key) add_key(self, o);
    if (o.site == Site::cross_query) add_query(cross[layer], o);
    if (o.site == Site::cross_key) add_key(cross[layer], o);
  }

 private:
  void add_query(Attended& to, const Observation& o) const {
    to.query = o.tensor.shape()[0];
    to.queries = to_floats(o.tensor);
    to.sees.assign(o.intervals.begin(), o.intervals.end());
    to.scale = config_.attention_scale > 0.0
                   ? static_cast<float>(config_.attention_scale)
                   : 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
    if (o.options != nullptr && o.options->bias.defined()) {
      to.bias = to_floats(o.options->bias);
      to.bias_zero = o.options->bias_zero;
    }
  }
  static void add_key(Attended& to, const Observation& o) {
    to.key = o.tensor.shape()[0];
    to.keys = to_floats(o.tensor);
  }

  const TransformerConfig config_;

 public:
  std::vector<Attended> encoder, masked, cross;
};

// [heads, query, key] by the textbook's softmax, in double; zero where a row may not see the key.
std::vector<double> weights_of(const Attended& a, const TransformerConfig& config) {
  std::vector<double> weights(static_cast<size_t>(config.heads * a.query * a.key));
  const int64_t group = config.heads / config.kv_heads;
  const int64_t offsets = static_cast<int64_t>(a.bias.size()) / config.heads;
  for (int64_t head = 0; head < config.heads; ++head) {
    for (int64_t i = 0; i < a.query; ++i) {
      double* const row = weights.data() + (head * a.query + i) * a.key;
      const Interval sees = a.sees[static_cast<size_t>(i)];
      const float* const q = a.queries.data() + (i * config.heads + head) * config.head_dim;
      double largest = -HUGE_VAL;
      for (int64_t j = sees.lo; j < sees.hi; ++j) {
        const float* const k =
            a.keys.data() + (j * config.kv_heads + head / group) * config.head_dim;
        double dot = 0.0;
        for (int64_t d = 0; d < config.head_dim; ++d) dot += double{q[d]} * double{k[d]};
        row[j] = dot * double{a.scale};
        if (offsets > 0) {
          row[j] += double{a.bias[static_cast<size_t>(head * offsets + a.bias_zero + j - i)]};
        }
        largest = std::max(largest, row[j]);
      }
      double sum = 0.0;
      for (int64_t j = sees.lo; j < sees.hi; ++j) sum += row[j] = std::exp(row[j] - largest);
      for (int64_t j = sees.lo; j < sees.hi; ++j) row[j] /= sum;
    }
  }
  return weights;
}

// Everything of one call.
struct Pass {
  Transformer model;
  std::unique_ptr<Session> session;  // owns the memory of the tensors
  Tensor hidden, logits;
  TransformerConfig config;
  std::vector<Attended> encoder, masked, cross;
  std::vector<int32_t> source, target;
};
using HeldPass = Held<Pass>;

HeldPass* run(const Model& model, const std::vector<int32_t>& source,
              const std::vector<int32_t>& target, bool attention) {
  begin_use();
  const WithoutGil unlocked;
  const Transformer& transformer = model.translator->model();
  const TransformerConfig& config = transformer.config();
  require(!target.empty(), ErrorCode::invalid_argument, "forward: no target token");
  require(config.decoder_only() == source.empty(), ErrorCode::invalid_argument,
          config.decoder_only() ? "forward: a decoder-only model reads no source"
                                : "forward: the source has no token");
  Pass pass{transformer, std::make_unique<Session>(transformer, model.loading.threads),
            {},          {},
            config,      {},
            {},          {},
            source,      target};
  Session& session = *pass.session;
  Watcher watcher(config);
  const ObserverScope observing(session, attention ? &watcher : nullptr);
  Memory memory;
  if (!config.decoder_only()) {
    Rows rows;
    rows.add_sequence(source, {.slot = 0});
    memory = transformer.encode(rows, session);
  }
  Rows rows;
  rows.add_sequence(target, {.slot = session.open(), .segment = config.decoder_only() ? -1 : 0});
  pass.hidden = transformer.forward(rows, memory, session);
  pass.logits = transformer.logits(pass.hidden, session);
  pass.encoder = std::move(watcher.encoder);
  pass.masked = std::move(watcher.masked);
  pass.cross = std::move(watcher.cross);
  to_floats(pass.logits);  // waits for the device
  return new HeldPass(std::move(pass));
}

// Anything that speaks DLPack or the buffer protocol takes it without a copy.
using Array = nb::ndarray<nb::array_api, nb::c_contig>;

Array array_of(const Tensor& tensor, nb::handle owner) {
  const Device device = tensor.device();
  require(tensor.dense(), ErrorCode::internal, "forward: a tensor with gaps");
  const bool is_bf16 = tensor.dtype() == DType::bf16;
  const nb::dlpack::dtype type{static_cast<uint8_t>(is_bf16 ? nb::dlpack::dtype_code::Bfloat
                                                            : nb::dlpack::dtype_code::Float),
                               static_cast<uint8_t>(is_bf16 ? 16 : 32), 1};
  const size_t shape[] = {static_cast<size_t>(tensor.shape()[0]),
                          static_cast<size_t>(tensor.shape()[1])};
  return Array(tensor.raw(), 2, shape, owner, nullptr, type,
               on_gpu(device) ? nb::device::cuda::value : nb::device::cpu::value,
               on_gpu(device) ? device.index : 0);
}

using Weights = nb::ndarray<nb::numpy, double, nb::ndim<3>>;

Weights weights_array(const Attended& attended, const TransformerConfig& config) {
  auto* const weights = new std::vector<double>(weights_of(attended, config));
  const nb::capsule owner(
      weights, [](void* memory) noexcept { delete static_cast<std::vector<double>*>(memory); });
  return Weights(weights->data(),
                 {static_cast<size_t>(config.heads), static_cast<size_t>(attended.query),
                  static_cast<size_t>(attended.key)},
                 owner);
}

Weights attention_of(const HeldPass& pass, const std::string& which, int64_t layer) {
  const auto& all = which == "encoder" ? pass->encoder
                    : which == "cross" ? pass->cross
                                       : pass->masked;
  require(which == "encoder" || which == "cross" || which == "decoder", ErrorCode::invalid_argument,
          "attention: expected 'encoder', 'decoder' or 'cross', got '", which, "'");
  require(!all.empty() && all.front().query > 0, ErrorCode::invalid_argument,
          "attention: none was kept: ask for it with attention=True, of a model that has it");
  const auto layers = static_cast<int64_t>(all.size());
  require(layer >= -layers && layer < layers, ErrorCode::invalid_argument, "attention: layer ",
          layer, " of ", layers);
  return weights_array(all[static_cast<size_t>(layer < 0 ? layer + layers : layer)], pass->config);
}

}  // namespace

void bind_forward(nb::module_& module) {
  nb::class_<HeldPass>(module, "Pass", "The numbers of one call of the model.")
      .def_prop_ro("source", [](const HeldPass& p) { return p->source; })
      .def_prop_ro("target", [](const HeldPass& p) { return p->target; })
      .def_prop_ro("device", [](const HeldPass& p) { return to_string(p->logits.device()); })
      .def_prop_ro(
          "logits",
          [](nb::handle_t<HeldPass> self) {
            return array_of(nb::cast<const HeldPass&>(self)->logits, self);
          },
          nb::sig("def logits(self) -> typing.Any"),
          "[target, vocab], as an object with __dlpack__")
      .def_prop_ro(
          "hidden",
          [](nb::handle_t<HeldPass> self) {
            return array_of(nb::cast<const HeldPass&>(self)->hidden, self);
          },
          nb::sig("def hidden(self) -> typing.Any"),
          "[target, model], as an object with __dlpack__")
      .def("attention", &attention_of, "which"_a = "decoder", "layer"_a = -1,
           nb::sig("def attention(self, which: str = 'decoder', layer: int = -1) -> "
                   "numpy.typing.NDArray[numpy.float64]"),
           "[head, query, key], computed from the queries and keys by the plain formula.");
  module.def("forward", &run, "model"_a, "source"_a, "target"_a, "attention"_a = false);
}

}  // namespace tril::python
