// Shared by the tests of the page: pages, elements, ways to get there.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "browser/webdriver.h"
#include "explain/examples.h"
#include "support/temp_folder.h"

namespace tril::testing {

// Where pictures are written: TRIL_BROWSER_OUTPUT, or browser-output.
std::string output_folder();

// Writes the page and gives its path.
std::string write_page(const TempFolder& folder, const std::string& name, const std::string& page);

// "−1.250" as the page writes it.
double number_in(std::string text);

struct CellPlace {
  const std::vector<AttentionRecord>* records;
  std::string kind;
  size_t layer;
  int64_t head, row, key;
};

// Chooses kind, layer and head, and clicks the middle of the cell in the matrix of training.
void choose(Browser& browser, const CellPlace& at);

// The page's state (page/state.js).
Json state_of(Browser& browser);

// No warning, no error, and no request except for the page itself.
void expect_quiet(Browser& browser, const std::string& path);

class PageTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static ExplainOptions small_options();
  // A page of "how are you" by the small model.
  std::string small_page(const ExplainOptions& options = small_options()) const;

  TempFolder folder_;
};

// The largest page that is promised something, made once.
struct LongPage {
  Explanation explanation;
  std::string page;
};
const LongPage& long_page();

}  // namespace tril::testing
