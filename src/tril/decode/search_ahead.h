// Search on a device that is not waited for. Internal to decode/.
//
// The device chooses the next tokens and which hypotheses they continue by itself, so that the step
// after next can be enqueued before anyone has seen what came of the last one. The host is told of
// every step's candidates one step later and goes through the same search with them: it alone says
// what a sentence's hypotheses are and when it is done (decode/hypotheses.h). Where the two differ
// there is none: both order the same numbers in the same way. A sentence that turns out to be done
// has one step too many behind it, which nobody looks at; its place is then taken by the next.
#pragma once

#include "tril/decode/search.h"

namespace tril {

// Greedy and beam search over the whole vocabulary can; samples are drawn by the host, and an
// observer wants to see each step when it is made.
bool can_search_ahead(const SearchOptions& options, const Session& session);

// As search(), with its options checked.
void search_ahead(const Transformer& model, const SearchOptions& options, int64_t slots,
                  const NextRequest& next, const SearchDone& done, Session& session,
                  const SearchTrace& trace);

}  // namespace tril
