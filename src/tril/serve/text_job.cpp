#include "tril/serve/text_job.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tril::serve {
namespace {

constexpr int64_t kManyResults = 64;  // an answer with more is put together by Workers `large`

int64_t lines_with_text(std::string_view text) {
  int64_t lines = 0;
  bool is_counted = false;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      is_counted = false;
    } else if (!is_counted && c != ' ' && c != '\t') {
      ++lines;
      is_counted = true;
    }
  }
  return lines;
}

}  // namespace

void LiveJobs::add(TextJob& job) {
  const std::lock_guard lock(mutex_);
  jobs_.insert(&job);
}

void LiveJobs::remove(TextJob& job) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(&job);
  changed_.notify_all();
}

void LiveJobs::end() {
  std::vector<std::shared_ptr<TextJob>> jobs;
  {
    const std::lock_guard lock(mutex_);
    for (TextJob* job : jobs_) {
      if (auto alive = job->weak_from_this().lock()) jobs.push_back(std::move(alive));
    }
  }
  for (const auto& job : jobs) job->cancel();
  jobs.clear();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty(); });
}

TextJob::TextJob(TextCall call, JobServices services)
    : call_(std::move(call)), services_(services) {
  services_.live.add(*this);
}

TextJob::~TextJob() { services_.live.remove(*this); }

// Cuts the texts into units.
void TextJob::plan(const CallLimits& limits, const std::function<void()>& check) {
  const auto too_many = [&] {
    return ApiError(413, "too_large",
                    concat("more than ", limits.max_units, " lines and sentences in one request"),
                    "text");
  };
  // Every line that is not blank is a unit at least: seen before anything is tokenized.
  int64_t lines = 0;
  for (const std::string& text : call_.texts)
    lines += call_.generates() ? 1 : lines_with_text(text);
  if (lines > limits.max_units) throw too_many();
  int64_t units = 0;
  for (size_t i = 0; i < call_.texts.size(); ++i) {
    if (call_.generates()) {
      TextPlan whole;
      whole.parts.push_back({.gap = {}, .source = call_.texts[i]});
      plans_.push_back(std::move(whole));
    } else {
      plans_.push_back(plan_text(call_.model->translator, call_.texts[i],
                                 call_.model->for_translator(call_.languages_of(i)), call_.split,
                                 {.max_parts = limits.max_units - units, .check = check}));
    }
    const TextPlan& plan = plans_.back();
    units += std::ssize(plan.parts);
    if (units > limits.max_units) throw too_many();
    if (!call_.prefixes.empty() && !call_.prefixes[i].empty() && plan.parts.size() > 1) {
      refuse("prefix", "prefix: a text of several lines or sentences cannot have one");
    }
    results_.emplace_back(plan.parts.size());
    written_.emplace_back(plan.parts.size());
  }
  joined_.resize(plans_.size());
  results_wanted_ = units * call_.options.search.n_best.value_or(1);
  if (results_wanted_ > limits.max_units) {
    throw ApiError(413, "too_large",
                   concat(results_wanted_, " results in one request: at most ", limits.max_units),
                   "n_best");
  }
}

void TextJob::start(const JobClient& client, const CallLimits& limits, Done done,
                    std::function<void()> news) {
  done_ = std::move(done);
  news_ = std::move(news);
  client_ = client.id;
  deadline_ = client.arrived + call_.timeout;
  const auto check = [&] {
    if (client.check) client.check();
    if (const auto why = unwanted()) throw ApiError(*why);
  };
  plan(limits, check);
  const std::string options = options_text(call_);
  left_ = 1;
  int64_t number = 0;
  try {
    for (size_t text = 0; text < plans_.size(); ++text) {
      for (size_t part = 0; part < plans_[text].parts.size(); ++part, ++number) {
        check();
        std::string key = unit_key(call_, options, text, plans_[text].parts[part].source, number);
        if (auto known = services_.cache.find(key)) {
          ++services_.metrics.cache_hits;
          cached_tokens_ += std::max<int64_t>(1, known->tokens_read);
          written_[text][part] = {.text = known->translation.text(), .whole = true};
          results_[text][part] = std::move(known);
          continue;
        }
        ++services_.metrics.cache_misses;
        Unit& unit = units_.emplace_back();
        unit.text = text;
        unit.part = part;
        unit.key = std::move(key);
        submit(unit, number);
      }
    }
    if (cached_tokens_ > 0) {
      services_.waiting.add(client_, cached_tokens_);
      waiting_tokens_ = cached_tokens_;
    }
  } catch (...) {
    done_ = nullptr;  // the caller is told by what is thrown
    cancel();
    count_down();
    throw;
  }
  services_.metrics.source_tokens += submitted_tokens_;
  if (news_ && number > std::ssize(units_)) news_();
  count_down();
}

void TextJob::submit(Unit& unit, int64_t number) {
  TextRequest request{.line = plans_[unit.text].parts[unit.part].source};
  if (!call_.prefixes.empty()) request.prefix = call_.prefixes[unit.text];
  TranslateOptions options = call_.options;
  options.languages = call_.model->for_translator(call_.languages_of(unit.text));
  SubmitOptions terms{.number = number, .client = client_, .deadline = deadline_};
  const auto self = shared_from_this();
  const bool streams = news_ != nullptr;
  if (streams) {
    terms.stream = [self, &unit](const StreamedText& news) {
      if (news.sample == 0) self->tell(unit, news);
    };
  }
  // Counted down twice over: once submitted, so that `tokens` is there, and once ready.
  left_ += 2;
  ++services_.metrics.units_in_flight;
  terms.ready = [self, &unit, streams] {
    try {
      if (streams) self->tell_whole(unit);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the end tells it
    }
    --self->services_.metrics.units_in_flight;
    self->settle(unit);
    self->count_down();
  };
  try {
    unit.pending = call_.model->translator.submit(std::move(request), options, terms);
  } catch (...) {
    --services_.metrics.units_in_flight;
    left_ -= 2;
    throw;
  }
  unit.tokens = std::max<int64_t>(1, unit.pending.tokens_read());
  submitted_tokens_ += unit.tokens;
  try {
    services_.waiting.add(client_, unit.tokens);
  } catch (...) {
    unit.before_settled = 3;  // never: it was not added
    count_down();
    throw;
  }
  settle(unit);
  count_down();
}

void TextJob::settle(Unit& unit) {
  if (--unit.before_settled == 0) services_.waiting.remove(client_, unit.tokens);
}

// What is certain of a unit so far.
void TextJob::tell(const Unit& unit, const StreamedText& news) {
  {
    const std::lock_guard lock(mutex_);
    Written& written = written_[unit.text][unit.part];
    written.tokens.insert(written.tokens.end(), news.tokens.begin(), news.tokens.end());
    written.text = news.text;
  }
  news_();
}

// That was all of it. Bytes of a character that was never completed count now, too.
void TextJob::tell_whole(const Unit& unit) {
  {
    const std::lock_guard lock(mutex_);
    Written& written = written_[unit.text][unit.part];
    written.text = call_.model->translator.tokenizer().decode(written.tokens);
    written.whole = true;
  }
  news_();
}

void TextJob::cancel() {
  if (cancelled_.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  try {
    std::vector<PendingTranslation> submitted;
    for (const Unit& unit : units_) {
      if (unit.tokens > 0) submitted.push_back(unit.pending);
    }
    PendingTranslation::cancel(submitted);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): they go on to their ends
  }
}

void TextJob::count_down() {
  if (--left_ > 0) return;
  Workers& workers = call_.options.alignments         ? services_.slow
                     : results_wanted_ > kManyResults ? services_.large
                                                      : services_.quick;
  // An alignment takes a pass of the model: others have their turn after each.
  workers.post_steps(client_, [self = shared_from_this()] {
    return self->finish(self->call_.options.alignments);
  });
}

bool TextJob::finish(bool in_steps) {
  try {
    if (collect(in_steps)) return true;
  } catch (const std::exception& error) {
    error_ = ApiError(500, "internal", error.what());
  }
  try {
    if (done_) std::exchange(done_, nullptr)(*this);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory to say so
  }
  news_ = nullptr;
  if (waiting_tokens_ > 0) services_.waiting.remove(client_, waiting_tokens_);
  return false;
}

std::optional<ApiError> TextJob::unwanted() const {
  if (cancelled_) return api_error_of({ErrorCode::cancelled, "cancelled"});
  if (EngineClock::now() < deadline_) return std::nullopt;
  return api_error_of({ErrorCode::timed_out, "too late"});
}

bool TextJob::collect(bool in_steps) {
  if (collected_ == 0) {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  if (!error_) error_ = unwanted();
  while (collected_ < units_.size()) {
    Unit& unit = units_[collected_++];
    // What it holds leads back to this job.
    const PendingTranslation pending = std::exchange(unit.pending, {});
    if (error_ || unit.tokens == 0) continue;
    if (error_ = unwanted(); error_) continue;
    try {
      auto result = std::make_shared<const UnitResult>(
          UnitResult{pending.get(), pending.tokens_read(), call_.generates()});
      services_.cache.put(unit.key, result);
      services_.metrics.target_tokens += result->tokens_written();
      results_[unit.text][unit.part] = std::move(result);
    } catch (const Error& error) {
      error_ = api_error_of(error);
      if (call_.texts.size() > 1 && error_->status < 500) {
        error_->message = concat("text ", unit.text + 1, ": ", error_->message);
      }
      if (error_->field.empty() && error_->status == 400) error_->field = "text";
    }
    if (in_steps && !error_ && collected_ < units_.size()) return true;
  }
  return false;
}

std::string TextJob::join(size_t text, std::span<const std::string> units) const {
  // Text that is continued keeps its line breaks: they are its own.
  if (call_.generates()) return units.empty() ? std::string() : units.front();
  return plans_[text].join(units);
}

std::string TextJob::text_so_far(size_t text) const {
  if (call_.generates()) {
    const std::lock_guard lock(mutex_);
    return written_[text].front().text;
  }
  const TextPlan& plan = plans_[text];
  const std::lock_guard lock(mutex_);
  const std::vector<Written>& written = written_[text];
  Joined& joined = joined_[text];
  for (; joined.parts < written.size() && written[joined.parts].whole; ++joined.parts) {
    plan.append(joined.text, joined.parts, written[joined.parts].text);
  }
  std::string so_far = joined.text;
  if (joined.parts == written.size()) {
    so_far += plan.end;
  } else if (!written[joined.parts].text.empty()) {
    plan.append(so_far, joined.parts, written[joined.parts].text);
  }
  return so_far;
}

}  // namespace tril::serve
