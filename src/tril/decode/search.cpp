#include "tril/decode/search.h"

#include <memory>

#include "tril/decode/engine.h"

namespace tril {

void search(const Transformer& model, const SearchOptions& options, int64_t slots,
            const NextRequest& next, const SearchDone& done, Session& session,
            const SearchTrace& trace) {
  const auto shared = std::make_shared<const SearchOptions>(options);
  const int64_t width = options.width();
  bool stopped = false;
  Engine::check(options, slots, model);
  Engine engine(model, {.slots = slots}, session);
  const RequestEvents events{
      .done =
          [&](RequestOutcome&& outcome) {
            if (stopped) return;
            if (outcome.error) throw Error(*outcome.error);
            stopped = stopped || !done({outcome.number, std::move(outcome.hypotheses)});
          },
      .step = trace};
  while (!stopped) {
    while (engine.has_room_for(width)) {
      std::optional<SearchRequest> request = next();
      if (!request) break;
      engine.submit(std::move(*request), shared, events);
    }
    if (engine.idle()) return;
    engine.step();
  }
}

}  // namespace tril
