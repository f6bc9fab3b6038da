// A run: requests by plan, answers checked and counted. One thread, which the socket's events and
// the plan wake.
#pragma once

#include "options.h"
#include "report.h"

namespace load {

// Writes --answers while it runs. Raises std::runtime_error for files and addresses it cannot use.
Report run(const Options& options);

}  // namespace load
