#include "tril/models/config.h"

#include <algorithm>
#include <iterator>

#include "tril/base/error.h"
#include "tril/io/json.h"

namespace tril {
namespace {

constexpr int64_t kMaxSize = 1 << 24;
constexpr int64_t kMaxLayers = 1024;

// Calls `visit` once for every field: the one list that reading, writing and checking share.
template <class Config, class Visit>
void each_field(Config& c, Visit& visit) {
  visit.integer("source_vocab", c.source_vocab, 0, kMaxSize);
  visit.integer("target_vocab", c.target_vocab, 1, kMaxSize);
  visit.integer("model", c.model, 1, 1 << 16);
  visit.integer("heads", c.heads, 1, 4096);
  visit.integer("kv_heads", c.kv_heads, 1, 4096);
  visit.integer("head_dim", c.head_dim, 1, 4096);
  visit.integer("feed_forward", c.feed_forward, 1, 1 << 20);
  visit.integer("encoder_layers", c.encoder_layers, 0, kMaxLayers);
  visit.integer("decoder_layers", c.decoder_layers, 1, kMaxLayers);
  visit.choice("norm", c.norm);
  visit.choice("norm_position", c.norm_position);
  visit.number("norm_epsilon", c.norm_epsilon, 1e-12, 1.0);
  visit.choice("activation", c.activation);
  visit.flag("gated", c.gated);
  visit.choice("position", c.position);
  visit.integer("max_length", c.max_length, 1, 1 << 20);
  visit.integer("window", c.window, 0, 1 << 20);
  visit.flag("tied", c.tied);
  visit.flag("bias", c.bias);
  visit.flag("output_bias", c.output_bias);
  visit.flag("embedding_norm", c.embedding_norm);
  visit.flag("embedding_scale", c.embedding_scale);
  visit.number("dropout", c.dropout, 0.0, 0.99);
}

// Those that format 2 adds. `visit` says which of them it wants, and learns of each whether it has
// its default.
template <class Config, class Visit>
void each_field_of_format_2(Config& c, Visit& visit) {
  const TransformerConfig usual{};
  const auto integer = [&](std::string_view name, auto field, int64_t min, int64_t max) {
    if (visit.wants(name, c.*field == usual.*field)) visit.integer(name, c.*field, min, max);
  };
  const auto number = [&](std::string_view name, auto field, double min, double max) {
    if (visit.wants(name, c.*field == usual.*field)) visit.number(name, c.*field, min, max);
  };
  const auto flag = [&](std::string_view name, auto field) {
    if (visit.wants(name, c.*field == usual.*field)) visit.flag(name, c.*field);
  };
  const auto choice = [&](std::string_view name, auto field) {
    if (visit.wants(name, c.*field == usual.*field)) visit.choice(name, c.*field);
  };
  using C = TransformerConfig;
  choice("sinusoid", &C::sinusoid);
  integer("first_position", &C::first_position, 0, 1 << 20);
  flag("share_source_target", &C::share_source_target);
  flag("share_target_output", &C::share_target_output);
  choice("bias_in", &C::bias_in);
  number("attention_scale", &C::attention_scale, 0.0, 1e6);
  number("output_scale", &C::output_scale, 1e-6, 1e6);
  integer("relative_buckets", &C::relative_buckets, 4, 1 << 16);
  integer("relative_distance", &C::relative_distance, 3, 1 << 20);
  number("rotary_base", &C::rotary_base, 1.0, 1e12);
  flag("rotary_rounded", &C::rotary_rounded);
  choice("rotary_scaling", &C::rotary_scaling);
  number("rotary_factor", &C::rotary_factor, 1.0, 1e6);
  number("rotary_low", &C::rotary_low, 1e-6, 1e6);
  number("rotary_high", &C::rotary_high, 1e-6, 1e6);
  integer("rotary_length", &C::rotary_length, 1, kMaxSize);
  choice("alibi_slopes", &C::alibi_slopes);
  integer("frozen_token", &C::frozen_token, -1, kMaxSize);
}

// Finds out whether a field of format 2 has another value than its default.
struct AnyChanged {
  bool changed = false;
  bool wants(std::string_view, bool is_default) {
    changed = changed || !is_default;
    return false;
  }
  void integer(std::string_view, int64_t, int64_t, int64_t) {}
  void number(std::string_view, double, double, double) {}
  void flag(std::string_view, bool) {}
  template <class Enum>
  void choice(std::string_view, Enum) {}
};

int64_t format_of(const TransformerConfig& config) {
  AnyChanged any;
  each_field_of_format_2(config, any);
  return any.changed ? 2 : 1;
}

struct Writer {
  JsonWriter json;
  bool wants(std::string_view, bool is_default) { return !is_default; }
  void integer(std::string_view name, int64_t value, int64_t, int64_t) { json.set(name, value); }
  void number(std::string_view name, double value, double, double) { json.set(name, value); }
  void flag(std::string_view name, bool value) { json.set(name, value); }
  template <class Enum>
  void choice(std::string_view name, Enum value) {
    json.set(name, word_for(value));
  }
};

struct Reader {
  JsonReader json;
  bool wants(std::string_view name, bool) { return json.has(name); }
  void integer(std::string_view name, int64_t& value, int64_t min, int64_t max) {
    value = json.get_int(name, min, max);
  }
  void number(std::string_view name, double& value, double min, double max) {
    value = json.get_double(name, min, max);
  }
  void flag(std::string_view name, bool& value) { value = json.get_bool(name); }
  template <class Enum>
  void choice(std::string_view name, Enum& value) {
    value = static_cast<Enum>(json.get_choice(name, Words<Enum>::kList));
  }
};

struct Checker {
  bool wants(std::string_view, bool) { return true; }
  template <class Number>
  void range(std::string_view name, Number value, Number min, Number max) {
    require(value >= min && value <= max, ErrorCode::invalid_argument, "configuration: ", name,
            " is ", value, ", expected ", min, " to ", max);
  }
  void integer(std::string_view name, int64_t value, int64_t min, int64_t max) {
    range(name, value, min, max);
  }
  void number(std::string_view name, double value, double min, double max) {
    range(name, value, min, max);
  }
  void flag(std::string_view, bool) {}
  template <class Enum>
  void choice(std::string_view name, Enum value) {
    range<int64_t>(name, static_cast<int64_t>(value), 0, std::ssize(Words<Enum>::kList) - 1);
  }
};

// How many numbers a position takes in the largest table that is made of positions.
int64_t table_columns(const TransformerConfig& c) {
  switch (c.position) {
    case PositionType::sinusoidal:
    case PositionType::learned: return c.model;
    case PositionType::rotary: return c.head_dim;
    case PositionType::alibi:
    case PositionType::relative: return 2 * c.heads;
    case PositionType::none: break;
  }
  return 1;
}

void check_sharing(const TransformerConfig& c) {
  const bool any = c.share_source_target || c.share_target_output;
  require(!any || !c.tied, ErrorCode::invalid_argument,
          "configuration: with tied embeddings all are one matrix: share_source_target and "
          "share_target_output are for models that are not tied");
  require(!any || !c.decoder_only(), ErrorCode::invalid_argument,
          "configuration: a decoder-only model has no source to tell apart: instead of sharing "
          "embeddings by pairs it may be tied");
  require(!c.share_source_target || !c.share_target_output, ErrorCode::invalid_argument,
          "configuration: share_source_target and share_target_output together are tied");
  require(!c.share_source_target || c.source_vocab == c.target_vocab, ErrorCode::invalid_argument,
          "configuration: share_source_target needs one vocabulary, but source_vocab is ",
          c.source_vocab, " and target_vocab ", c.target_vocab);
}

}  // namespace

TransformerConfig TransformerConfig::completed() const {
  TransformerConfig c = *this;
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_dim == 0 && c.heads > 0) {
    require(c.model % c.heads == 0, ErrorCode::invalid_argument, Field{"head_dim"},
            "configuration: a model ", c.model, " wide cannot be divided among ", c.heads,
            " heads");
    c.head_dim = c.model / c.heads;
  }
  return c;
}

void TransformerConfig::check() const {
  Checker checker;
  each_field(*this, checker);
  each_field_of_format_2(*this, checker);
  require(heads % kv_heads == 0, ErrorCode::invalid_argument, "configuration: heads is ", heads,
          ", kv_heads ", kv_heads, ": heads must be a multiple");
  require(position != PositionType::rotary || head_dim % 2 == 0, ErrorCode::invalid_argument,
          "configuration: head_dim is ", head_dim, ": rotary positions need an even one");
  constexpr int64_t kMaxTable = int64_t{1} << 26;
  require(max_length * table_columns(*this) <= kMaxTable, ErrorCode::invalid_argument,
          "configuration: max_length is ", max_length, ": its tables would take more than ",
          kMaxTable, " numbers");
  require((source_vocab == 0) == decoder_only(), ErrorCode::invalid_argument,
          "configuration: source_vocab is ", source_vocab, " with ", encoder_layers,
          " encoder layers: a decoder-only model has neither, others have both");
  require(position != PositionType::sinusoidal || sinusoid == Sinusoid::interleaved ||
              (model % 2 == 0 && model >= 4),
          ErrorCode::invalid_argument, "configuration: model is ", model,
          ": sinusoids in halves need an even width of at least 4");
  require(decoder_only() || !tied || source_vocab == target_vocab, ErrorCode::invalid_argument,
          "configuration: tied embeddings need one vocabulary, but source_vocab is ", source_vocab,
          " and target_vocab ", target_vocab);
  check_sharing(*this);
  require(position != PositionType::relative ||
              (relative_buckets % 2 == 0 && relative_distance > relative_buckets / 2),
          ErrorCode::invalid_argument, "configuration: relative_buckets is ", relative_buckets,
          " and relative_distance ", relative_distance,
          ": buckets must be even, and the distance more than half of them");
  require(rotary_scaling != RotaryScaling::llama3 || rotary_low < rotary_high,
          ErrorCode::invalid_argument, "configuration: rotary_low is ", rotary_low,
          ", rotary_high ", rotary_high, ": the first must be smaller");
  require(frozen_token < target_vocab && (decoder_only() || frozen_token < source_vocab),
          ErrorCode::invalid_argument, "configuration: frozen_token is ", frozen_token,
          ", which is not in every vocabulary");
}

std::string to_json(const TransformerConfig& config) {
  Writer writer;
  writer.json.set("format", format_of(config));
  writer.json.set("architecture", "transformer");
  const TransformerConfig complete = config.completed();
  each_field(complete, writer);
  if (format_of(config) == 2) each_field_of_format_2(complete, writer);
  return writer.json.to_string();
}

TransformerConfig config_from_json(std::string_view text, const std::string& file) {
  Reader reader{JsonReader(text, file)};
  const int64_t format = reader.json.get_int("format", 1, 2);
  reader.json.get_choice("architecture", {"transformer"});
  TransformerConfig config;
  each_field(config, reader);
  if (format == 2) each_field_of_format_2(config, reader);
  reader.json.finish();
  try {
    config.check();
  } catch (const Error& error) {
    fail(ErrorCode::bad_format, file, ": ", error.what());
  }
  return config;
}

}  // namespace tril
