#include <fmt/core.h>

#include "commands.h"
#include "lesson.h"

namespace tril::app {
namespace {

struct Line {
  const char* english;
  const char* english_text;
  const char* hindi;
  const char* hindi_text;
  const char* claims;  // that support it
};

constexpr Line kLines[] = {
    {"Purpose",
     "The mask hides the future, so that each position depends only on itself and on what "
     "came before it.",
     "उद्देश्य",
     "मास्क आगे के शब्दों को छिपाता है, ताकि हर स्थिति केवल अपने और अपने से पहले के "
     "शब्दों पर निर्भर रहे।",
     "18, 21"},
    {"Mechanism",
     "0 or −∞ is added to each score before the softmax. A forbidden weight becomes "
     "exactly 0, the others still sum to 1.",
     "तरीका",
     "softmax से पहले हर स्कोर में 0 या −∞ जोड़ा जाता है। वर्जित स्थानों का भार ठीक 0 हो जाता "
     "है, बाकी का योग 1 रहता है।",
     "27, 28"},
    {"Training",
     "The true words are fed, shifted right after START (teacher forcing). forward() is "
     "called once and computes all positions.",
     "प्रशिक्षण",
     "START के बाद सही शब्द एक स्थान खिसकाकर दिए जाते हैं (teacher forcing)। forward() "
     "एक बार चलता है और सभी स्थितियों की गणना करता है।",
     "7, 9"},
    {"Inference", "The model's own words are fed. forward() is called once per token.", "अनुमान",
     "मॉडल को उसके अपने लिखे शब्द दिए जाते हैं। forward() हर टोकन के लिए एक बार चलता है।", "8, 10"},
    {"Location",
     "In the self-attention of the decoder, the first sub-layer of each block. Neither "
     "the encoder nor cross-attention has it.",
     "स्थान",
     "डिकोडर के self-attention में, जो हर ब्लॉक की पहली उप-परत है। एनकोडर और "
     "cross-attention में नहीं।",
     "35, 37"},
    {"The point",
     "Both phases are the same function, bit for bit: parallel in training, token by "
     "token at inference.",
     "सार",
     "दोनों चरण एक ही फलन (function) हैं, बिट-दर-बिट: प्रशिक्षण में समानांतर, अनुमान में "
     "टोकन-दर-टोकन।",
     "1, 9"},
};

}  // namespace

bool show_summary(const LessonFlags& flags) {
  const bool hindi = flags.hindi;
  fmt::print("{}\n\n", hindi ? "Masked attention: एक नज़र में।" : "Masked attention in six lines.");
  Table table;
  for (const Line& line : kLines) {
    table.push_back({hindi ? line.hindi : line.english, hindi ? line.hindi_text : line.english_text,
                     fmt::format("claims {}", line.claims)});
  }
  print_table(table, Align::left, "");
  print_heading("", hindi ? "आगे पढ़ने के लिए:" : "To read on:");
  print_table({{"Vaswani et al. 2017: Attention Is All You Need", "arxiv.org/abs/1706.03762"},
               {"Rush 2018: The Annotated Transformer", "aclanthology.org/W18-2509"},
               {"Bengio et al. 2015: Scheduled Sampling", "arxiv.org/abs/1506.03099"},
               {"Michel et al. 2019: Are Sixteen Heads Really Better than One?",
                "arxiv.org/abs/1905.10650"},
               {"Dao et al. 2022: FlashAttention", "arxiv.org/abs/2205.14135"},
               {"Leviathan et al. 2023: Fast Inference via Speculative Decoding",
                "arxiv.org/abs/2211.17192"}},
              Align::left);
  return true;
}

}  // namespace tril::app
