#include "tril/explain/architecture.h"

#include <vector>

#include "tril/base/error.h"
#include "tril/base/plot.h"

namespace tril {
namespace {

using plot::drawing;
using plot::number;
using plot::picture;
using plot::text;

constexpr double kBoxWidth = 250, kBoxHeight = 46, kGap = 26;
constexpr std::string_view kStyle =
    ".part{fill:#0072b2;fill-opacity:.1;stroke:#0072b2}.masked{fill:#d55e00;fill-opacity:.16;"
    "stroke:#d55e00}.frame{fill:none;stroke:#888;stroke-dasharray:5 4}.flow{stroke:#666;fill:none}"
    ".tip{fill:#666}.residual{stroke:#666;fill:none;stroke-dasharray:2 3}\n"
    "text.name{text-anchor:middle;font-weight:600;fill:#111}text.shape{text-anchor:middle}"
    "text.note{fill:#444}\n"
    "@media(prefers-color-scheme:dark){.part{fill:#56b4e9;stroke:#56b4e9}.masked{fill:#e69f00;"
    "stroke:#e69f00}.flow,.residual{stroke:#999}.tip{fill:#999}text.name{fill:#eee}"
    "text.note{fill:#bbb}}\n";

struct Part {
  std::string name;
  std::string shape{};  // a line below the name
  bool masked = false;  // by the causal mask
  bool residual = false;
  bool from_encoder = false;  // the encoder's output enters from the side
};

// One column of boxes from the bottom to the top, with a frame around those of a layer.
class Column {
 public:
  Column(double left, double bottom) : left_(left), y_(bottom) {}

  double middle() const { return left_ + kBoxWidth / 2; }
  double top() const { return y_; }
  const std::string& svg() const { return svg_; }

  void words(const std::string& what) {
    svg_ += text(middle(), y_, "class=\"name\"", what);
    y_ -= 16;
  }

  // Returns the vertical centre of the box.
  double add(const Part& part) {
    arrow(y_, y_ - kGap);
    y_ -= kGap + kBoxHeight;
    svg_ += concat("<rect class=\"", part.masked ? "masked" : "part", "\" x=\"", number(left_),
                   "\" y=\"", number(y_), "\" width=\"", number(kBoxWidth), "\" height=\"",
                   number(kBoxHeight), "\" rx=\"6\"/>\n");
    svg_ += text(middle(), y_ + (part.shape.empty() ? 28 : 20), "class=\"name\"", part.name);
    if (!part.shape.empty()) svg_ += text(middle(), y_ + 36, "class=\"shape\"", part.shape);
    if (part.residual) skip(y_ + kBoxHeight + kGap / 2, y_ - kGap / 2);
    return y_ + kBoxHeight / 2;
  }

  void begin_block() { block_ = y_ - kGap / 4; }
  void end_block(const std::string& name) {
    const double top = y_ - kGap * 0.75;
    svg_ += concat("<rect class=\"frame\" x=\"", number(left_ - 14), "\" y=\"", number(top),
                   "\" width=\"", number(kBoxWidth + 50), "\" height=\"", number(block_ - top),
                   "\" rx=\"10\"/>\n");
    svg_ += text(left_ - 8, top + 15, "class=\"note\"", name);
    y_ -= 10;
  }

 private:
  void arrow(double from, double to) {
    svg_ += concat("<path class=\"flow\" d=\"M", number(middle()), " ", number(from), "V",
                   number(to + 5), "\"/>\n<path class=\"tip\" d=\"M", number(middle() - 4), " ",
                   number(to + 6), "h8l-4 -6z\"/>\n");
  }
  // The residual connection: around the box, from below it to above it.
  void skip(double from, double to) {
    const double side = left_ + kBoxWidth + 16;
    svg_ += concat("<path class=\"residual\" d=\"M", number(middle()), " ", number(from), "H",
                   number(side), "V", number(to), "H", number(middle() + 8), "\"/>\n");
    svg_ += text(side + 4, (from + to) / 2 + 4, "class=\"note\"", "+");
  }

  double left_, y_, block_ = 0.0;
  std::string svg_;
};

std::string position_text(PositionType position) {
  switch (position) {
    case PositionType::sinusoidal:
    case PositionType::learned: return concat(" + ", word_for(position), " positions");
    case PositionType::rotary:
    case PositionType::alibi:
    case PositionType::relative:
      return concat(" (", word_for(position), " positions in attention)");
    case PositionType::none: break;
  }
  return "";
}

std::string heads_text(const TransformerConfig& c, const char* rows, const char* columns) {
  return concat(c.heads, c.heads == 1 ? " head" : " heads", " of ", c.head_dim, ", scores ", rows,
                " × ", columns);
}

std::string feed_forward_text(const TransformerConfig& c) {
  return concat(c.model, " → ", c.feed_forward, " → ", c.model);
}

const char* norm_text(const TransformerConfig& c) {
  return c.norm_position == NormPosition::pre ? "+ is the residual; a norm before each sub-layer"
                                              : "+ is the residual; a norm after each sub-layer";
}

std::string layers_text(const char* stack, int64_t layers) {
  return concat(stack, ": ", layers, layers == 1 ? " such layer" : " such layers");
}

struct Drawn {
  double width = 0.0, height = 0.0;
  std::string body;
};

Drawn draw_stacks(const TransformerConfig& given) {
  const TransformerConfig c = given.completed();
  const bool decoder_only = c.decoder_only();
  // Without cross-attention there is one box fewer.
  const double height = decoder_only ? 428 : 500, bottom = height - 40;
  const double decoder_left = decoder_only ? 40 : 420;
  std::string body;
  double memory_from = 0.0;
  if (!decoder_only) {
    Column encoder(40, bottom);
    encoder.words("source: n tokens");
    encoder.add({.name = "embedding", .shape = concat("n × ", c.model, position_text(c.position))});
    encoder.begin_block();
    encoder.add({.name = "self-attention, no causal mask",
                 .shape = heads_text(c, "n", "n"),
                 .residual = true});
    encoder.add({.name = "feed-forward", .shape = feed_forward_text(c), .residual = true});
    encoder.end_block(layers_text("encoder", c.encoder_layers));
    memory_from = encoder.top() - kGap / 2;
    body += encoder.svg();
    body += concat("<path class=\"flow\" d=\"M", number(encoder.middle()), " ",
                   number(encoder.top()), "V", number(memory_from), "H355\"/>\n");
  }
  Column decoder(decoder_left, bottom);
  decoder.words(decoder_only ? "text: m tokens, START first" : "target: m tokens, START first");
  decoder.add({.name = "embedding", .shape = concat("m × ", c.model, position_text(c.position))});
  decoder.begin_block();
  decoder.add({.name = "masked self-attention",
               .shape = heads_text(c, "m", "m"),
               .masked = true,
               .residual = true});
  if (!decoder_only) {
    const double y = decoder.add({.name = "cross-attention",
                                  .shape = heads_text(c, "m", "n"),
                                  .residual = true,
                                  .from_encoder = true});
    body += concat("<path class=\"flow\" d=\"M355 ", number(memory_from), "V", number(y), "H",
                   number(decoder_left - 6), "\"/>\n<path class=\"tip\" d=\"M",
                   number(decoder_left - 6), " ", number(y - 4), "v8l6 -4z\"/>\n");
  }
  decoder.add({.name = "feed-forward", .shape = feed_forward_text(c), .residual = true});
  decoder.end_block(layers_text("decoder", c.decoder_layers));
  const std::string scaled =
      c.output_scale == 1.0 ? "" : concat(", times ", plot::decimals(c.output_scale, 3));
  decoder.add(
      {.name = "linear", .shape = concat(c.model, " → ", c.target_vocab, " tokens", scaled)});
  decoder.add({.name = "softmax", .shape = concat("m × ", c.target_vocab, " probabilities")});
  body += decoder.svg();
  body +=
      text(40, height - 8, "class=\"note\"",
           concat("The causal mask sits in the orange box and nowhere else. ", norm_text(c), "."));
  return {decoder_only ? 420.0 : 740.0, height, body};
}

}  // namespace

std::string draw_architecture(const TransformerConfig& config) {
  const Drawn drawn = draw_stacks(config);
  return picture(drawn.width, drawn.height, drawn.body, kStyle);
}

std::string architecture_for_page(const TransformerConfig& config) {
  const Drawn drawn = draw_stacks(config);
  return drawing(drawn.width, drawn.height, drawn.body);
}

}  // namespace tril
