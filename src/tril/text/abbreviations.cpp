#include "tril/text/abbreviations.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace tril {
namespace {

struct Abbreviations {
  std::string_view language, words;
};

// Those of "" count in every language: they are words in none of the others.
constexpr Abbreviations kAbbreviations[] = {
    {"",
     "dr mr mrs ms prof st mt rev capt lt sgt maj cmdr messrs mme mlle vs cf viz approx dept univ "
     "assn bros blvd jan feb aug sept nov dec e.g i.e al ibid resp bzw usw ca bspw evtl ggf inkl "
     "zzgl vgl geb gest str hr fr dipl ing phil dott sra srta avda ph.d eds pp "
     "г-н г-жа др проф акад гр тыс млн млрд ул напр "
     "डॉ डा प्रो पं कु"},
    {"en", "jr sr inc ltd corp co etc est vol adm supt pres hon gen col gov sen rep ed ave"},
    {"de",
     "abb abs abt allg anm art aufl bd bde begr bes betr bez bzgl co d.h dez dgl ehem eigtl "
     "einschl "
     "entspr erw etc exkl fam ff forts frl ges gegr ggü hl hrn hrsg hs i.d.r insb jan jh jhd jr "
     "kap "
     "kath lat max mind min mio mrd nachf nr nov o.ä okt phys pkt rd red reg rel s.o s.u sept skr "
     "sog std stv tel teilw u.a u.ä urspr usf v.a verf verh verm vorm wg z.b z.t zit ziff zus zw "
     "zzt gez mr"},
    {"nl",
     "bijv bv blz ca dhr drs dw enz evt excl fa fig hr incl ir jhr jl mej mevr mw nl nr o.a "
     "resp sr st tel vgl vlgs z.g z.s.m"},
    {"fr",
     "av art apr bd chap coll éd env etc ex fasc fig hab janv juil juill m mm mgr n°"
     " p.ex réf sté suiv tél vol boul"},
    {"es",
     "art avda cap cía d dña ed ee.uu etc fig gral lic núm ob pág págs pza sr sres tel ud uds "
     "vda vol"},
    {"pt", "av cap cia d eng etc ex exa exmo fig gov jr ltda pág págs sr srs sto tel vol"},
    {"it", "art avv cap ca cfr ecc ed es fig geom gent on pag pagg par prof s.p.a sigg vol"},
    {"sv",
     "bl.a bl d.v.s dvs e.d etc ev exkl f.d f.n fr.o.m inkl kl m.fl m.m nr o.s.v osv s.k "
     "t.ex t.o.m tel"},
    {"da", "bl bl.a d.v.s dvs eks ekskl f.eks fx hr inkl kl m.fl m.m nr osv pga tlf"},
    {"no", "bl bl.a dvs eks ekskl f.eks inkl kl m.fl m.m nr osv pga tlf"},
    {"fi", "esim jne ks mm ns nk ts tri huom klo n os puh synt vrt"},
    {"pl",
     "al ang art gen godz inż itd itp lek m.in mgr np nr os pkt pl por prof r red rozdz św "
     "tel tj tys tzn tzw ul wg ww zob zł"},
    {"cs",
     "angl apod atd č čl hod kap mgr mj mudr např nám obr odst př pozn resp sl str sv tel tj "
     "tř tzn tzv ul vč zejm"},
    {"sk",
     "angl apod atď č čl hod kap mgr napr nám obr odst pozn resp str sv tel tj tzn tzv ul "
     "vrát"},
    {"hu", "ált kb ld mi pl stb sz ti u.n utca tel ún vö"},
    {"ro", "art bd cca etc ex nr op pag pct str tel"},
    {"tr", "alm bkz bk cad çev doç hz mah no örn sok şti vb vd yrd yy"},
    {"ru",
     "вв гг г гл др долл напр обл оз пер пл просп р руб св сек см ср ст стр т табл тел тов "
     "ч экз"},
    {"uk", "вул гр грн див ім млрд млн напр обл пл р рр див св смт ст стор тис тел"},
    {"bg", "вж гр др ив млн напр обл оп проф св стр сп ул хил чл"},
    {"sr", "бр гђа итд нпр св стр тзв тј ул"},
    {"el", "αι αρ βλ δηλ εκατ κ κα κ.ά κλπ κ.λπ λ.χ π.χ σελ τηλ χιλ"},
    {"hi", "ई सं वि ए बी रु क्र"},
    {"vi", "tp ths gs pgs ts"},
    {"id", "dll dr dsb hlm jl no prof tgl yth"},
};

// Those that sentences end with. Left out are the names of Latin letters (जी, के, पी, सी), which
// stand for initials, unless they are what very many sentences end with (ਸੀ, "was").
constexpr Abbreviations kShortWords[] = {
    {"hi", "है हैं हूँ हूं था थे थी थीं हो ना हाँ हां दो लो दी ली की जा आ गा तो भी ही"},
    {"mr", "हो घे ये मी तू तो ते"},
    {"ne", "हो छ छु छौ छौँ छौं थे थी"},
    {"gu", "છે છું છો હા ના હું તું જા આ શું થા હો લો દો લે દે"},
    {"bn", "না নি হাঁ কি কী যা তো"},
    {"pa", "ਹੈ ਹਾਂ ਸੀ ਸਾਂ ਹੋ ਨਾ ਕੀ ਲੈ ਜਾ"},
    {"ta", "வா போ தா"},
    {"ml", "വാ പോ താ"},
    {"si", "නෑ බෑ"},
};

// Whether the word is one of a list with blanks between.
bool is_listed(std::string_view word, std::string_view list) {
  for (size_t at = list.find(word); at != list.npos; at = list.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

bool is_abbreviation(std::string_view word, std::string_view language) {
  if (word.empty()) return false;
  for (const auto& [code, words] : kAbbreviations) {
    if ((code.empty() || code == language) && is_listed(word, words)) return true;
  }
  return false;
}

bool is_abbreviation_of_number(std::string_view word) {
  return is_listed(word,
                   "no nos nr num núm n° art abs abb kap bd vol ch chap sec fig figs eq tab p pp "
                   "pag pág s str str sz č čl § tel ext гл рис стр табл ст см № кв д ca approx ver "
                   "op sez max min");
}

bool has_ordinals(std::string_view language) {
  return !language.empty() &&
         is_listed(language, "de da no nn cs sk hu fi hr sr bs sl pl et lv lt tr is fo lb mk");
}

bool is_short_word(std::string_view word, std::string_view language) {
  if (word.empty()) return false;
  const auto has_own = [&](const Abbreviations& one) { return one.language == language; };
  const bool any = std::none_of(std::begin(kShortWords), std::end(kShortWords), has_own);
  return std::any_of(std::begin(kShortWords), std::end(kShortWords), [&](const Abbreviations& one) {
    return (any || has_own(one)) && is_listed(word, one.words);
  });
}

bool is_month(std::string_view word) {
  return !word.empty() &&
         is_listed(word,
                   "Januar Jänner Februar März April Mai Juni Juli August September Oktober "
                   "November Dezember Jahrhundert Jahrhunderts Jahrestag Geburtstag Klasse");
}

}  // namespace tril
