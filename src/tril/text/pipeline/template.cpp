#include "tril/text/pipeline/template.h"

#include <utility>

namespace tril::pipeline {
namespace {

LayoutToken fixed_token(int32_t id) { return {LayoutToken::Kind::token, id}; }

// The ids of a special token: {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}
std::vector<int32_t> special_ids(Component& tokens, const std::string& name) {
  Component token = tokens.object(name);
  const JsonValue& ids = token.get("ids");
  if (ids.kind != JsonValue::Kind::array) token.fail_field("ids", "an array");
  std::vector<int32_t> result;
  for (const JsonValue& id : ids.items) {
    result.push_back(token_id(id, concat(token.where(), ": ids")));
  }
  return result;
}

// Texts of one sequence: "single".
TokenLayout read_single(Component& component) {
  Component tokens = component.object("special_tokens");
  TokenLayout layout;
  bool text_seen = false;
  for (Component& part : component.list("single")) {
    if (part.find("Sequence") != nullptr) {
      Component sequence = part.object("Sequence");
      if (text_seen || sequence.text("id") != "A") part.refuse("a template of more than one text");
      text_seen = true;
      continue;
    }
    Component special = part.object("SpecialToken");
    for (const int32_t id : special_ids(tokens, special.text("id"))) {
      (text_seen ? layout.after : layout.before).push_back(fixed_token(id));
    }
    part.finish();
  }
  if (!text_seen) component.refuse("a template without a text");
  component.ignore({"pair"});
  return layout;
}

// ["</s>", 2]
int32_t named_id(Component& component, std::string_view field) {
  const JsonValue& pair = component.get(field);
  if (pair.kind != JsonValue::Kind::array || pair.items.size() != 2) {
    component.fail_field(field, "a token and its id");
  }
  return token_id(pair.items[1], concat(component.where(), ": ", field));
}

// One template around another.
void put_around(const TokenLayout& outer, TokenLayout& inner) {
  inner.before.insert(inner.before.begin(), outer.before.begin(), outer.before.end());
  inner.after.insert(inner.after.end(), outer.after.begin(), outer.after.end());
}

}  // namespace

TokenLayout read_template(Component component) {
  const std::string type = component.type();
  TokenLayout layout;
  if (type == "TemplateProcessing") {
    layout = read_single(component);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    layout.before = {fixed_token(named_id(component, "cls"))};
    layout.after = {fixed_token(named_id(component, "sep"))};
    component.ignore({"trim_offsets", "add_prefix_space"});
  } else if (type == "ByteLevel") {
    component.ignore({"trim_offsets", "add_prefix_space", "use_regex"});
  } else if (type == "Sequence") {
    for (Component& one : component.list("processors")) {
      put_around(read_template(std::move(one)), layout);
    }
  } else {
    component.refuse(concat("the post-processor ", printable(type), " is not supported"));
  }
  component.finish();
  return layout;
}

}  // namespace tril::pipeline
