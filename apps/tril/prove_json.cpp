#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "prove.h"
#include "tril/base/cpu.h"
#include "tril/prove/report.h"

namespace tril::app {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const TokenPlace& place) {
  return {{"sentence", place.sentence}, {"position", place.position}};
}

Json json_of(const ProvedModel& proved, const TableEvidence& t) {
  const auto mask = [](const std::vector<TableEvidence::Seen>& rows) {
    Json list = Json::array();
    for (const auto& row : rows) list.push_back({row.begin, row.end});
    return list;
  };
  return {
      {"holds", t.holds()},
      {"weights",
       {{"seal", proved.model.seal().identity},
        {"memory_fnv1a_before", fmt::format("{:016x}", t.weights_before)},
        {"memory_fnv1a_after", fmt::format("{:016x}", t.weights_after)},
        {"tensors", t.tensors},
        {"nudged", t.nudged},
        {"logits", t.logits},
        {"moved_in_training", t.moved_in_training},
        {"moved_in_inference", t.moved_in_inference}}},
      {"mask", {{"training", mask(t.mask_in_training)}, {"inference", mask(t.mask_in_inference)}}},
      {"rows_changed_without_mask",
       {{"training", t.unmasked_training_rows},
        {"inference_in_one_call", t.unmasked_call_rows},
        {"inference_token_by_token", t.unmasked_step_rows}}},
      {"given", t.given},
      {"fed", {{"training", t.fed_in_training}, {"inference", t.fed_in_inference}}},
      {"predicted",
       {{"training", t.predicted_in_training}, {"inference", t.predicted_in_inference}}},
      {"mistaken", t.mistaken},
      {"mistakes_fed", t.followed},
      {"own_words", t.own_words},
      {"calls", {{"training", t.training_calls}, {"inference", t.inference_calls}}},
      {"rows", {{"training", t.training_rows}, {"inference", t.inference_rows}}}};
}

Json json_of(const LeakProbe& p) {
  Json leaks = Json::array();
  for (const HeadLeak& leak : p.heads_leaking) {
    leaks.push_back({{"layer", leak.layer},
                     {"head", leak.head},
                     {"row", json_of(leak.row)},
                     {"sees", json_of(leak.key)},
                     {"by", word_for(leak.poison)},
                     {"in", leak.where == HeadLeak::Where::output ? "output" : "query gradient"}});
  }
  Json object = {{"holds", p.holds()},
                 {"positions", p.positions},
                 {"poisoned", p.poisoned},
                 {"layers", p.layers},
                 {"heads", p.heads},
                 {"probes", p.probes},
                 {"coverage", p.coverage()},
                 {"mask", {{"rows", p.mask_rows}, {"wrong", p.mask_wrong}}},
                 {"controls", {{"heads", p.controls}, {"missed", p.controls_missed}}},
                 {"forbidden_pairs", p.forbidden_pairs},
                 {"values", p.values},
                 {"unfaithful", p.unfaithful},
                 {"leaks", leaks},
                 {"end_to_end",
                  {{"tokens", p.tokens_poisoned},
                   {"passes", p.passes},
                   {"values", p.hidden_values},
                   {"controls", p.hidden_controls},
                   {"missed", p.hidden_unreached}}}};
  if (!p.heads_blind.empty()) {
    Json blind = Json::array();
    for (const BlindHead& head : p.heads_blind) {
      blind.push_back({{"layer", head.layer},
                       {"head", head.head},
                       {"row", json_of(head.row)},
                       {"does_not_see", json_of(head.key)}});
    }
    object["blind"] = blind;
  }
  if (const auto first = p.first_future) {
    object["first_to_see_the_future"] = {{"row", json_of(first->row)},
                                         {"sees", json_of(first->key)},
                                         {"layer", first->layer},
                                         {"head", first->head}};
  }
  if (p.end_to_end) {
    object["end_to_end"]["leak"] = {{"row", json_of(p.end_to_end->row)},
                                    {"sees", json_of(p.end_to_end->key)}};
  }
  return object;
}

Json json_of(const SequentialLine& line) {
  const SequentialComparison& s = line.figures;
  const auto cost = [](const SequentialComparison::Cost& c) {
    return Json{
        {"calls", c.calls}, {"rows", c.rows}, {"seconds", c.seconds}, {"peak_bytes", c.peak_bytes}};
  };
  return {{"holds", s.holds()},
          {"rows", line.rows},
          {"length", line.length},
          {"tiny_model", line.on_tiny_model},
          {"in_fp32", line.in_fp32},
          {"sequential", cost(s.sequential)},
          {"parallel", cost(s.parallel)},
          {"time_ratio", s.time_ratio()},
          {"score_matrix_bytes", s.score_matrix_bytes},
          {"loss",
           {{"sequential", s.sequential_loss},
            {"parallel", s.parallel_loss},
            {"difference", s.loss_difference()},
            {"bound", s.loss_bound}}},
          {"positions",
           {{"compared", s.positions_compared},
            {"differing", s.positions_differing},
            {"elements", s.gradients_compared}}},
          {"sums",
           {{"elements", s.summed},
            {"share_of_bound", s.sum_share},
            {"in", s.sum_parameter},
            {"weakest_position", s.weakest_position},
            {"loss_noticed", s.none_is_lost()},
            {"silent_positions", s.silent_positions}}},
          {"gradient",
           {{"elements", s.gradients},
            {"difference", s.gradient_difference},
            {"in", s.worst_parameter},
            {"bound", s.gradient_bound},
            {"path_terms", s.path_terms}}}};
}

Json json_of(const EveryInputPlace& place) {
  return {{"stack", place.stack == Stack::encoder ? "encoder" : "decoder"},
          {"layer", place.layer},
          {"site", place.site},
          {"head", place.head},
          {"position", place.position},
          {"of_neighbour", place.of_neighbour},
          {"length", place.length},
          {"reached", place.reached},
          {"in_source", place.in_source},
          {"in_other_sentence", place.in_other}};
}

Json json_of(const EveryInputLine& line) {
  const EveryInputResult& r = line.figures;
  Json json = {{"weights", word_for(line.compute)},
               {"kernels", word_for(line.order)},
               {"length", line.length},
               {"every_length", line.every_length},
               {"tiny_model", line.on_tiny_model},
               {"holds", r.holds()},
               {"operations", r.operations},
               {"numbers", r.numbers},
               {"logits", r.logits},
               {"distinct", r.distinct},
               {"expected_distinct", r.expected_distinct},
               {"differing", r.differing},
               {"missing", r.missing},
               {"forbidden", r.forbidden},
               {"short_reach", r.short_reach},
               {"wrong_masks", r.wrong_masks},
               {"passes", r.passes},
               {"cached_rows", r.cached_rows},
               {"calls_alone", r.calls_alone},
               {"copied_blocks", r.copied_blocks},
               {"seconds", r.seconds}};
  if (r.first_difference) json["first_difference"] = json_of(*r.first_difference);
  if (r.first_leak) json["first_leak"] = json_of(*r.first_leak);
  if (r.first_short_reach) json["first_short_reach"] = json_of(*r.first_short_reach);
  if (r.first_wrong_mask) json["first_wrong_mask"] = json_of(*r.first_wrong_mask);
  return json;
}

Json json_of(const EveryGradientPlace& place) {
  Json json = {{"loss", place.loss}, {"up_to", place.up_to}};
  if (place.parameter.empty()) {
    json["activation"] = json_of(place.at);
  } else {
    json["parameter"] = place.parameter;
    json["element"] = place.element;
  }
  if (place.reached >= 0) {
    json["reached"] = place.reached;
    json["in_source"] = place.in_source;
    json["in_other"] = place.in_other;
  }
  return json;
}

Json json_of(const EveryGradientLine& line) {
  const EveryGradientResult& r = line.figures;
  Json json = {{"length", line.length},
               {"every_position", line.every_position},
               {"tiny_model", line.on_tiny_model},
               {"holds", r.holds()},
               {"operations", r.operations},
               {"losses", r.losses},
               {"parameters", r.parameters},
               {"numbers", r.numbers},
               {"with_gradient", r.with_gradient},
               {"differing", r.differing},
               {"missing", r.missing},
               {"forbidden", r.forbidden},
               {"short_reach", r.short_reach},
               {"silent", r.silent},
               {"seconds", r.seconds}};
  if (r.first_difference) json["first_difference"] = json_of(*r.first_difference);
  if (r.first_leak) json["first_leak"] = json_of(*r.first_leak);
  if (r.first_short_reach) json["first_short_reach"] = json_of(*r.first_short_reach);
  if (!r.first_silent.empty()) json["first_silent"] = r.first_silent;
  return json;
}

}  // namespace

void print_json(const ProvedModel& proved, const ProofReport& report) {
  Json agreement = Json::array();
  for (const AgreementLine& line : report.agreement) {
    const Agreement& a = line.figures;
    agreement.push_back({{"writing", word_for(line.writing)},
                         {"company", word_for(line.company)},
                         {"without_end", line.without_end},
                         {"sequences", a.sequences},
                         {"positions", a.positions},
                         {"parallel_calls", a.parallel_calls},
                         {"stepwise_calls", a.stepwise_calls},
                         {"logits", a.logits},
                         {"differing", a.differing},
                         {"source_values", a.source_values},
                         {"source_differing", a.source_differing},
                         {"forked", a.forked},
                         {"moved", a.moved},
                         {"misread", a.misread}});
    if (a.first) {
      agreement.back()["first"] = {{"sequence", a.first->sequence},
                                   {"position", a.first->position}};
    }
  }
  Json sequential = Json::array();
  for (const SequentialLine& line : report.sequential) sequential.push_back(json_of(line));
  Json every_input = Json::array();
  for (const EveryInputLine& line : report.every_input) every_input.push_back(json_of(line));
  Json gradients = Json::array();
  for (const EveryGradientLine& line : report.every_gradient) gradients.push_back(json_of(line));
  Json failed = Json::array();
  for (const Section section : report.failed()) failed.push_back(word_for(section));
  const Json document = {{"model", proved.flags.model},
                         {"masked", !proved.flags.unmasked},
                         {"text", proved.text.origin},
                         {"sentences", report.sentences},
                         {"positions", report.positions},
                         {"holds", report.holds()},
                         {"failed", failed},
                         {"table", json_of(proved, report.table)},
                         {"agreement",
                          {{"holds", report.holds(Section::agreement)},
                           {"longest", report.longest},
                           {"ways", agreement}}},
                         {"leaks", json_of(report.leaks)},
                         {"sequential",
                          {{"holds", report.holds(Section::sequential)},
                           {"without_gradients", report.without_gradients},
                           {"cases", sequential}}},
                         {"every_input",
                          {{"holds", report.holds(Section::every_input)},
                           {"cases", every_input},
                           {"gradients", gradients}}},
                         {"machine", cpu_name()},
                         {"target", to_string(current_target())},
                         {"threads", proved.threads},
                         {"seconds", proved.seconds}};
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace tril::app
