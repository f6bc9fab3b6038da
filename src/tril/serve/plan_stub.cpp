#include "tril/translate/text_plan.h"
#include "tril/translate/doubt.h"
namespace tril {
TextPlan plan_text(const Translator&, std::string_view text, const LanguagePair&, Split) {
  TextPlan plan; std::string gap; 
  while (!text.empty()) { size_t e = std::min(text.find('\n'), text.size()); if (e>0) { plan.parts.push_back({gap, std::string(text.substr(0,e))}); gap.clear(); } if (e<text.size()) gap+="\n"; text.remove_prefix(std::min(e+1,text.size())); }
  plan.end = gap; return plan; }
std::string TextPlan::join(std::span<const std::string> t) const { std::string s; for (size_t i=0;i<t.size();++i) s += parts[i].gap + t[i]; if (t.size()==parts.size()) s+=end; return s; }
std::string doubt_about(const Translator&, std::string_view, const LanguagePair&) { return {}; }
}
