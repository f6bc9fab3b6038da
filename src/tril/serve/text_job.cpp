#include "tril/serve/text_job.h"

#include <algorithm>
#include <utility>

namespace tril::serve {

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

void TextJob::start(uint64_t client, const CallLimits& limits, Done done,
                    std::function<void()> news) {
  done_ = std::move(done);
  news_ = std::move(news);
  const Translator& translator = call_.model->translator;
  int64_t units = 0;
  for (size_t i = 0; i < call_.texts.size(); ++i) {
    const LanguagePair languages = call_.model->for_translator(call_.languages_of(i));
    if (call_.generates()) {
      TextPlan whole;
      whole.parts.push_back({.gap = {}, .source = call_.texts[i]});
      plans_.push_back(std::move(whole));
    } else {
      plans_.push_back(plan_text(translator, call_.texts[i], languages, call_.split));
    }
    const TextPlan& plan = plans_.back();
    units += std::ssize(plan.parts);
    if (!call_.prefixes.empty() && !call_.prefixes[i].empty() && plan.parts.size() > 1) {
      refuse("prefix", "prefix: a text of several lines or sentences cannot have one");
    }
    if (units > limits.max_units) {
      throw ApiError(413, "too_large",
                     concat("more than ", limits.max_units, " lines and sentences in one request"),
                     "text");
    }
    results_.emplace_back(plan.parts.size());
    written_.emplace_back(plan.parts.size());
  }
  const auto deadline = EngineClock::now() + call_.timeout;
  units_.reserve(static_cast<size_t>(units));  // their addresses are kept
  left_ = 1;
  int64_t number = 0;
  try {
    for (size_t text = 0; text < plans_.size(); ++text) {
      for (size_t part = 0; part < plans_[text].parts.size(); ++part, ++number) {
        const std::string key = unit_key(call_, text, plans_[text].parts[part].source, number);
        if (auto known = services_.cache.find(key)) {
          ++services_.metrics.cache_hits;
          written_[text][part] = {.text = known->translation.text(), .whole = true};
          results_[text][part] = std::move(known);
          continue;
        }
        ++services_.metrics.cache_misses;
        Unit& unit = units_.emplace_back();
        unit.text = text;
        unit.part = part;
        unit.key = key;
        submit(unit, number, client, deadline, news_ != nullptr);
      }
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

void TextJob::submit(Unit& unit, int64_t number, uint64_t client, EngineClock::time_point deadline,
                     bool streams) {
  TextRequest request{.line = plans_[unit.text].parts[unit.part].source};
  if (!call_.prefixes.empty()) request.prefix = call_.prefixes[unit.text];
  TranslateOptions options = call_.options;
  options.languages = call_.model->for_translator(call_.languages_of(unit.text));
  SubmitOptions terms{.number = number, .client = client, .deadline = deadline};
  const auto self = shared_from_this();
  if (streams) {
    terms.stream = [self, &unit](const StreamedText& news) {
      if (news.sample == 0) self->tell(unit, news);
    };
  }
  // Counted down twice over: once submitted, so that `tokens` is there, and once ready.
  left_ += 2;
  ++services_.metrics.units_in_flight;
  terms.ready = [self, &unit, streams] {
    if (streams) self->tell_whole(unit);
    --self->services_.metrics.units_in_flight;
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
  services_.metrics.queued_tokens += unit.tokens;
  count_down();
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
  for (const Unit& unit : units_) {
    if (unit.tokens > 0) unit.pending.cancel();
  }
}

void TextJob::count_down() {
  if (--left_ > 0) return;
  Workers& workers = call_.options.alignments ? services_.slow : services_.quick;
  workers.post([self = shared_from_this()] { self->finish(); });
}

void TextJob::finish() {
  for (const Unit& unit : units_) services_.metrics.queued_tokens -= unit.tokens;
  try {
    collect();
  } catch (const std::exception& error) {
    error_ = ApiError(500, "internal", error.what());
  }
  if (done_) std::exchange(done_, nullptr)(*this);
  news_ = nullptr;
}

void TextJob::collect() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  for (Unit& unit : units_) {
    // What it holds leads back to this job.
    const PendingTranslation pending = std::exchange(unit.pending, {});
    if (error_ || unit.tokens == 0) continue;
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
  }
}

std::string TextJob::join(size_t text, std::span<const std::string> units) const {
  // Text that is continued keeps its line breaks: they are its own.
  if (call_.generates()) return units.empty() ? std::string() : units.front();
  return plans_[text].join(units);
}

std::string TextJob::text_so_far(size_t text) const {
  std::vector<std::string> parts;
  bool is_open = false;
  {
    const std::lock_guard lock(mutex_);
    for (const Written& written : written_[text]) {
      if (!written.whole && written.text.empty()) break;
      parts.push_back(written.text);
      is_open = !written.whole;
      if (is_open) break;
    }
  }
  std::string so_far = join(text, parts);
  // What stands at the end of the text comes when its last unit is whole.
  if (is_open && parts.size() == plans_[text].parts.size()) {
    so_far.resize(so_far.size() - plans_[text].end.size());
  }
  return so_far;
}

}  // namespace tril::serve
