// Languages by their codes, and detected in sentences written for this test.
#include "tril/text/languages.h"

#include <algorithm>
#include <set>
#include <utility>

#include "support/property.h"
#include "tril/text/language_codes.h"
#include "tril/text/language_lists.h"
#include "tril/text/letters.h"
#include "tril/text/unicode.h"

namespace tril::languages_test {
namespace {

TEST(Languages, BasesOfCodesOfAllKinds) {
  for (const char* code :
       {"en", "EN", "en-US", "en_XX", "eng", "eng_Latn", "__en__", ">>eng<<", "<2en>", "[en_XX]"}) {
    EXPECT_EQ(base_language(code), "en") << code;
  }
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"arb_Arab", "ar"}, {"arz_Arab", "arz"}, {"zho_Hant", "zh"}, {"yue_Hant", "yue"},
      {"nob_Latn", "no"}, {"nb", "no"},        {"nno_Latn", "nn"}, {"npi_Deva", "ne"},
      {"ne_NP", "ne"},    {"iw", "he"},        {"khk_Cyrl", "mn"}, {"kmr_Latn", "ku"},
      {"ast", "ast"},     {"xyz", "xyz"},      {"", ""},           {"e", ""},
      {"english", ""},    {"12", ""}};
  for (const auto& [code, base] : cases) EXPECT_EQ(base_language(code), base) << code;
}

TEST(Languages, ScriptsOfCodes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"en", "Latn"},       {"hi_IN", "Deva"},    {"zh", "Hans"},        {"zh_CN", "Hans"},
      {"zh-TW", "Hant"},    {"zho_Hant", "Hant"}, {"srp_Cyrl", "Cyrl"},  {"sr-Latn", "Latn"},
      {"sr", "Cyrl"},       {"ko_KR", "Hang"},    {"ja_XX", "Jpan"},     {"kas", ""},
      {"kas_Deva", "Deva"}, {"xyz", ""},          {"zh-hant-HK", "Hant"}};
  for (const auto& [code, script] : cases) EXPECT_EQ(script_of_language(code), script) << code;
}

TEST(Languages, Names) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"de", "German"},
      {"hin_Deva", "Hindi"},
      {"zh", "Chinese"},
      {"zh_CN", "Chinese (simplified)"},
      {"zho_Hant", "Chinese (traditional)"},
      {"pt-BR", "Portuguese (Brazil)"},
      {"pt_XX", "Portuguese"},
      {"en-US", "English (American)"},
      {"srp_Cyrl", "Serbian"},
      {"sr-Latn", "Serbian (Latin)"},
      {"kas_Arab", "Kashmiri (Arabic)"},
      {"kas", "Kashmiri"},
      {"qqq", "qqq"},
      {"not a code", "not a code"}};
  for (const auto& [code, name] : cases) EXPECT_EQ(language_name(code), name) << code;
}

// Every code of the models' lists has a name, a base and a script, no two NLLB codes one name.
TEST(Languages, AllOfTheListsAreKnown) {
  std::vector<std::string> all = nllb_languages();
  for (const auto& list : {m2m100_languages(), mbart50_languages(), wmt21_languages()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  for (const std::string& code : all) {
    EXPECT_NE(language_name(code), code);
    EXPECT_FALSE(base_language(code).empty()) << code;
    EXPECT_NE(script_from_code(script_of_language(code)), Script::none) << code;
  }
  std::set<std::string> names;
  for (const std::string& code : nllb_languages()) {
    EXPECT_TRUE(names.insert(language_name(code)).second) << language_name(code);
  }
}

TEST(Languages, JoinedSentences) {
  for (const char* code : {"zh", "zho_Hant", "ja_XX", "yue_Hant"}) {
    EXPECT_TRUE(joins_sentences(code)) << code;
  }
  for (const char* code : {"en", "th", "ko", "hi", "km", ""}) {
    EXPECT_FALSE(joins_sentences(code)) << code;
  }
}

TEST(Languages, FindTheCodeThatAClientMeans) {
  const auto nllb = nllb_languages(), m2m = m2m100_languages(), mbart = mbart50_languages();
  const auto found = [](const std::vector<std::string>& codes, const char* wanted) {
    return find_language(codes, wanted).value_or("-");
  };
  EXPECT_EQ(found(nllb, "en"), "eng_Latn");
  EXPECT_EQ(found(nllb, "zh"), "zho_Hans");
  EXPECT_EQ(found(nllb, "zh-TW"), "zho_Hant");
  EXPECT_EQ(found(nllb, "zt"), "zho_Hant");
  EXPECT_EQ(found(nllb, "pt-BR"), "por_Latn");
  EXPECT_EQ(found(nllb, "ar"), "arb_Arab");
  EXPECT_EQ(found(nllb, "nb"), "nob_Latn");
  EXPECT_EQ(found(nllb, "kas_Deva"), "kas_Deva");
  EXPECT_EQ(found(nllb, "ks"), "-") << "two scripts, none of them usual";
  EXPECT_EQ(found(nllb, "sr-Latn"), "-") << "not in that script";
  EXPECT_EQ(found(nllb, "tlh"), "-");
  EXPECT_EQ(found(nllb, ""), "-");
  EXPECT_EQ(found(m2m, "deu_Latn"), "de");
  EXPECT_EQ(found(m2m, "ZH-HANS"), "zh");
  EXPECT_EQ(found(m2m, "zho_Hant"), "-");
  EXPECT_EQ(found(mbart, "en-GB"), "en_XX");
  EXPECT_EQ(found(mbart, "zh"), "zh_CN");
  EXPECT_EQ(found({"pt_PT", "pt_BR"}, "pt-BR"), "pt_BR");
  EXPECT_EQ(found({"en_GB", "en_US"}, "en"), "en_GB");
  EXPECT_EQ(found({"EN", "en"}, "en"), "en") << "the same comes first";
}

TEST(Languages, EveryCodeFindsItself) {
  const auto nllb = nllb_languages();
  for (const std::string& code : nllb) EXPECT_EQ(find_language(nllb, code), code);
}

TEST(Languages, OldCodesAndCodesOfGroups) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"mo", "ro"},   {"ji", "yi"},  {"jw", "jv"},  {"fil", "tl"}, {"chi", "zh"}, {"zt", "zh"},
      {"kok", "gom"}, {"msa", "ms"}, {"swa", "sw"}, {"wel", "cy"}, {"uzb", "uz"}, {"pb", "pt"}};
  for (const auto& [code, base] : cases) EXPECT_EQ(base_language(code), base) << code;
}

TEST(LanguageCodes, KeepsTheFirstCodeOfEachLanguage) {
  LanguageCodes codes;
  EXPECT_FALSE(codes.find("en"));
  EXPECT_TRUE(codes.add_new("en_XX"));
  EXPECT_FALSE(codes.add_new("eng_Latn"));
  EXPECT_FALSE(codes.add_new("en"));
  EXPECT_TRUE(codes.add_new("zho_Hans"));
  EXPECT_FALSE(codes.add_new("zh"));
  EXPECT_TRUE(codes.add_new("zh-TW"));
  EXPECT_TRUE(codes.add_new("klingon"));
  EXPECT_FALSE(codes.add_new("klingon"));
  EXPECT_TRUE(codes.add_new("elvish")) << "no code, but not the same";
  EXPECT_EQ(codes.all(),
            (std::vector<std::string>{"en_XX", "zho_Hans", "zh-TW", "klingon", "elvish"}));
  EXPECT_EQ(codes.find("EN-us"), "en_XX");
  EXPECT_EQ(codes.find("zt"), "zh-TW");
  EXPECT_EQ(codes.find("elvish"), "elvish");
  EXPECT_FALSE(codes.find("dwarvish"));
  EXPECT_EQ(codes.same_base("cmn_Hant"), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(codes.same_base("eng"), std::vector<size_t>{0});
  EXPECT_TRUE(codes.same_base("de").empty());
}

// Codes given at once are all kept, as find_language() searches them all.
TEST(LanguageCodes, FindsAmongAllThatAreGiven) {
  const std::vector<std::string> given = {"pt_PT", "pt_BR", "sr-Latn", "sr", "EN", "en"};
  const LanguageCodes codes(given);
  EXPECT_EQ(codes.all(), given);
  EXPECT_EQ(codes.find("pt-BR"), "pt_BR");
  EXPECT_EQ(codes.find("por"), "pt_PT");
  EXPECT_EQ(codes.find("srp_Cyrl"), "sr");
  EXPECT_EQ(codes.find("srp_Latn"), "sr-Latn");
  EXPECT_EQ(codes.find("en"), "en");
}

struct Written {
  const char* code;
  const char* text;
};
constexpr Written kWritten[] = {
    {"en", "The children were waiting for the bus when it started to rain."},
    {"en", "Where did you put my keys?"},
    {"de", "Die Kinder warteten auf den Bus, als es zu regnen begann."},
    {"de", "Wo hast du meine Schlüssel hingelegt?"},
    {"fr", "Les enfants attendaient le bus quand il a commencé à pleuvoir."},
    {"fr", "Où as-tu mis mes clés ?"},
    {"es", "Los niños esperaban el autobús cuando empezó a llover."},
    {"es", "¿Dónde has puesto mis llaves?"},
    {"it", "I bambini aspettavano l'autobus quando ha cominciato a piovere."},
    {"it", "Dove hai messo le mie chiavi?"},
    {"pt", "As crianças esperavam pelo ônibus quando começou a chover."},
    {"pt", "Onde você colocou as minhas chaves?"},
    {"nl", "De kinderen wachtten op de bus toen het begon te regenen."},
    {"nl", "Waar heb je mijn sleutels gelaten?"},
    {"sv", "Barnen väntade på bussen när det började regna."},
    {"sv", "Var har du lagt mina nycklar?"},
    {"da", "Børnene ventede på bussen, da det begyndte at regne."},
    {"da", "Hvor har du lagt mine nøgler?"},
    {"fi", "Mihin sinä laitoit minun avaimeni?"},
    {"pl", "Dzieci czekały na autobus, kiedy zaczęło padać."},
    {"pl", "Gdzie położyłeś moje klucze?"},
    {"cs", "Děti čekaly na autobus, když začalo pršet."},
    {"cs", "Kam jsi dal moje klíče?"},
    {"sk", "Deti čakali na autobus, keď začalo pršať."},
    {"sk", "Kam si dal moje kľúče?"},
    {"hu", "A gyerekek a buszra vártak, amikor elkezdett esni az eső."},
    {"ro", "Copiii așteptau autobuzul când a început să plouă."},
    {"ro", "Unde ai pus cheile mele?"},
    {"tr", "Yağmur başladığında çocuklar otobüsü bekliyorlardı."},
    {"tr", "Anahtarlarımı nereye koydun?"},
    {"vi", "Bọn trẻ đang đợi xe buýt thì trời bắt đầu mưa."},
    {"vi", "Bạn để chìa khóa của tôi ở đâu?"},
    {"id", "Kamu taruh kunci saya di mana? Saya tidak bisa menemukannya karena gelap."},
    {"ms", "Saya tidak boleh pergi kerana kereta saya rosak dan wang saya habis."},
    {"sw", "Watoto walikuwa wakisubiri basi mvua ilipoanza kunyesha."},
    {"sw", "Umeweka wapi funguo zangu?"},
    {"sl", "Otroci so čakali na avtobus, ko je začelo deževati."},
    {"sl", "Kam si dal moje ključe?"},
    {"et", "Lapsed ootasid bussi, kui hakkas vihma sadama."},
    {"et", "Kuhu sa mu võtmed panid?"},
    {"lv", "Bērni gaidīja autobusu, kad sāka līt."},
    {"lv", "Kur tu noliki manas atslēgas?"},
    {"lt", "Vaikai laukė autobuso, kai pradėjo lyti."},
    {"lt", "Kur padėjai mano raktus?"},
    {"sq", "Fëmijët po prisnin autobusin kur filloi të binte shi."},
    {"sq", "Ku i ke vënë çelësat e mi?"},
    {"ca", "Els nens esperaven l'autobús quan va començar a ploure."},
    {"ca", "On has posat les meves claus?"},
    {"af", "Die kinders het vir die bus gewag toe dit begin reën."},
    {"af", "Waar het jy my sleutels gesit?"},
    {"tl", "Naghihintay ang mga bata ng bus nang magsimulang umulan."},
    {"tl", "Saan mo inilagay ang mga susi ko?"},
    {"is", "Börnin biðu eftir strætó þegar það byrjaði að rigna."},
    {"is", "Hvar settir þú lyklana mína?"},
    {"uz", "Yomg'ir yog'a boshlaganda bolalar avtobusni kutayotgan edi."},
    {"cy", "Roedd y plant yn aros am y bws pan ddechreuodd hi fwrw glaw."},
    {"ga", "Bhí na páistí ag fanacht leis an mbus nuair a thosaigh sé ag cur báistí."},
    {"ru", "Дети ждали автобус, когда пошёл дождь."},
    {"ru", "Куда ты положил мои ключи?"},
    {"uk", "Діти чекали на автобус, коли почався дощ."},
    {"uk", "Куди ти поклав мої ключі?"},
    {"be", "Дзеці чакалі аўтобус, калі пайшоў дождж."},
    {"bg", "Децата чакаха автобуса, когато започна да вали."},
    {"bg", "Къде си сложил ключовете ми?"},
    {"sr", "Деца су чекала аутобус када је почела да пада киша."},
    {"sr", "Где си ставио моје кључеве?"},
    {"mk", "Децата го чекаа автобусот кога почна да врне."},
    {"mk", "Каде ги стави моите клучеви?"},
    {"kk", "Балалар автобус күтіп тұрғанда жаңбыр жауа бастады."},
    {"mn", "Хүүхдүүд автобус хүлээж байтал бороо орж эхлэв."},
    {"ar", "كان الأطفال ينتظرون الحافلة عندما بدأ المطر."},
    {"ar", "أين وضعت مفاتيحي؟"},
    {"fa", "بچه‌ها منتظر اتوبوس بودند که باران شروع شد."},
    {"fa", "کلیدهای من را کجا گذاشتی؟"},
    {"ur", "بچے بس کا انتظار کر رہے تھے جب بارش شروع ہو گئی۔"},
    {"ur", "تم نے میری چابیاں کہاں رکھی ہیں؟"},
    {"ps", "ماشومانو بس ته انتظار کاوه چې باران پیل شو."},
    {"hi", "बच्चे बस का इंतज़ार कर रहे थे जब बारिश शुरू हो गई।"},
    {"hi", "तुमने मेरी चाबियाँ कहाँ रखी हैं?"},
    {"mr", "पाऊस सुरू झाला तेव्हा मुले बसची वाट पाहत होती."},
    {"mr", "तू माझ्या चाव्या कुठे ठेवल्यास?"},
    {"ne", "पानी पर्न थाल्दा केटाकेटीहरू बस पर्खिरहेका थिए।"},
    {"ne", "तिमीले मेरो साँचो कहाँ राख्यौ?"},
    {"el", "Τα παιδιά περίμεναν το λεωφορείο όταν άρχισε να βρέχει."},
    {"he", "הילדים חיכו לאוטובוס כשהתחיל לרדת גשם."},
    {"ja", "雨が降り始めたとき、子供たちはバスを待っていた。"},
    {"zh", "下雨的时候，孩子们正在等公共汽车。"},
    {"zh", "下雨的時候，孩子們正在等公車。"},
    {"ko", "비가 오기 시작했을 때 아이들은 버스를 기다리고 있었다."},
    {"th", "เด็กๆ กำลังรอรถเมล์ตอนที่ฝนเริ่มตก"},
    {"bn", "বৃষ্টি শুরু হলে বাচ্চারা বাসের জন্য অপেক্ষা করছিল।"},
    {"ta", "மழை பெய்யத் தொடங்கியபோது குழந்தைகள் பேருந்துக்காகக் காத்திருந்தனர்."},
    {"te", "వర్షం మొదలైనప్పుడు పిల్లలు బస్సు కోసం ఎదురు చూస్తున్నారు."},
    {"gu", "વરસાદ શરૂ થયો ત્યારે બાળકો બસની રાહ જોતા હતા."},
    {"pa", "ਜਦੋਂ ਮੀਂਹ ਸ਼ੁਰੂ ਹੋਇਆ ਤਾਂ ਬੱਚੇ ਬੱਸ ਦੀ ਉਡੀਕ ਕਰ ਰਹੇ ਸਨ।"},
    {"am", "ዝናብ ሲጀምር ልጆቹ አውቶቡስ እየጠበቁ ነበር።"},
    {"hy", "Երեխաները սպասում էին ավտոբուսին, երբ սկսվեց անձրևը։"},
    {"ka", "ბავშვები ავტობუსს ელოდებოდნენ, როცა წვიმა დაიწყო."},
    {"en", "I cannot remember the name of the street, but it is close to the market."},
    {"de", "Ich kann mich nicht an den Namen der Straße erinnern, aber sie liegt nahe am Markt."},
    {"fr", "Je ne me souviens pas du nom de la rue, mais elle est proche du marché."},
    {"es", "No recuerdo el nombre de la calle, pero está cerca del mercado."},
    {"it", "Non ricordo il nome della strada, ma è vicino al mercato."},
    {"pt", "Não me lembro do nome da rua, mas fica perto do mercado."},
    {"nl", "Ik weet de naam van de straat niet meer, maar hij ligt dicht bij de markt."},
    {"sv", "Jag minns inte vad gatan heter, men den ligger nära torget."},
    {"da", "Jeg kan ikke huske, hvad gaden hedder, men den ligger tæt på torvet."},
    {"no", "Jeg husker ikke hva gata heter, men den ligger nær torget."},
    {"fi", "En muista kadun nimeä, mutta se on lähellä toria."},
    {"pl", "Nie pamiętam nazwy ulicy, ale jest blisko targu."},
    {"cs", "Nepamatuji si jméno ulice, ale je blízko tržiště."},
    {"sk", "Nepamätám si názov ulice, ale je blízko trhoviska."},
    {"hu", "Nem emlékszem az utca nevére, de közel van a piachoz."},
    {"ro", "Nu-mi amintesc numele străzii, dar este aproape de piață."},
    {"tr", "Sokağın adını hatırlamıyorum ama pazara yakın."},
    {"vi", "Tôi không nhớ tên con phố, nhưng nó ở gần chợ."},
    {"id", "Saya tidak ingat nama jalannya, tetapi letaknya dekat pasar."},
    {"ms",
     "Saya tidak ingat nama jalan itu kerana saya jarang ke sana, cuba tanya awak punya kawan."},
    {"sw", "Sikumbuki jina la barabara hiyo, lakini iko karibu na soko."},
    {"et", "Ma ei mäleta tänava nime, aga see on turu lähedal."},
    {"lv", "Es neatceros ielas nosaukumu, bet tā ir netālu no tirgus."},
    {"lt", "Neprisimenu gatvės pavadinimo, bet ji yra netoli turgaus."},
    {"sq", "Nuk më kujtohet emri i rrugës, por është afër tregut."},
    {"ca", "No recordo el nom del carrer, però és a prop del mercat."},
    {"tl", "Hindi ko maalala ang pangalan ng kalye, pero malapit ito sa palengke."},
    {"is", "Ég man ekki hvað gatan heitir en hún er nálægt markaðnum."},
    {"ru", "Я не помню, как называется улица, но она рядом с рынком."},
    {"uk", "Я не пам'ятаю, як називається вулиця, але вона біля ринку."},
    {"be", "Я не памятаю, як называецца вуліца, але яна каля рынку."},
    {"bg", "Не помня как се казва улицата, но е близо до пазара."},
    {"sr", "Не сећам се имена улице, али је близу пијаце."},
    {"mk", "Не се сеќавам како се вика улицата, но е блиску до пазарот."},
    {"ar", "لا أتذكر اسم الشارع لكنه قريب من السوق."},
    {"fa", "نام خیابان را به یاد ندارم اما نزدیک بازار است."},
    {"ur", "مجھے گلی کا نام یاد نہیں لیکن وہ بازار کے قریب ہے۔"},
    {"hi", "मुझे सड़क का नाम याद नहीं है, लेकिन वह बाज़ार के पास है।"},
    {"mr", "मला रस्त्याचे नाव आठवत नाही, पण तो बाजाराजवळ आहे."},
    {"ne", "मलाई सडकको नाम याद छैन, तर त्यो बजार नजिक छ।"},
    {"en", "Good evening"},
    {"fr", "Bonsoir à tous"},
    {"es", "Buenas noches"},
    {"ru", "Добрый вечер"},
    {"hi", "शुभ संध्या"},
    {"pl", "Dobry wieczór"},
    {"tr", "İyi akşamlar"},
    {"nl", "Goedenavond allemaal"},
};

TEST(DetectLanguage, OfWrittenSentences) {
  const auto nllb = nllb_languages();
  for (const auto& [code, text] : kWritten) {
    const auto found = detect_language(text, nllb);
    ASSERT_FALSE(found.empty()) << text;
    EXPECT_EQ(base_language(found.front().code), code) << text;
  }
}

TEST(DetectLanguage, SaysHowSureItIs) {
  const std::vector<std::string> both = {"en", "hi"};
  const auto english = detect_language("The cat is on the table and it will not come down.", both);
  ASSERT_FALSE(english.empty());
  EXPECT_EQ(english.front().code, "en");
  EXPECT_GT(english.front().confidence, 0.95);
  const auto spanish = detect_language("El gato está en la mesa y no quiere bajar.", both);
  EXPECT_TRUE(spanish.empty() || spanish.front().confidence < 0.1);
  EXPECT_TRUE(detect_language("123 !? 😀", both).empty());
  EXPECT_TRUE(detect_language("", both).empty());
  EXPECT_TRUE(detect_language("Привет, как дела?", both).empty());
  EXPECT_TRUE(detect_language("hello", {}).empty());
}

TEST(DetectLanguage, WaysOfWritingChinese) {
  const auto nllb = nllb_languages();
  EXPECT_EQ(detect_language("我们现在开车回家", nllb).front().code, "zho_Hans");
  EXPECT_EQ(detect_language("我們現在開車回家", nllb).front().code, "zho_Hant");
  EXPECT_EQ(detect_language("佢哋而家喺邊度呀", nllb).front().code, "yue_Hant");
  EXPECT_EQ(detect_language("我們現在開車回家", std::vector<std::string>{"en", "zh"}).front().code,
            "zh");
}

RC_GTEST_PROP(DetectLanguage, GivesShares, ()) {
  const std::u32string letters = U"aeinst .,äéñßабвиыїابتيषहिमんア中国한1\u200D😀\n";
  const auto picks =
      *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, letters.size()));
  std::u32string text;
  for (const size_t pick : picks) text.push_back(letters[pick]);
  using Codes = std::vector<std::string>;
  const Codes candidates = *rc::gen::element(nllb_languages(), m2m100_languages(),
                                             Codes{"en", "en_XX", "xx"}, Codes{"ja"});
  const auto found = detect_language(encode_utf8(text), candidates);
  double sum = 0.0, last = 1.0;
  for (const auto& [code, confidence] : found) {
    RC_ASSERT(std::find(candidates.begin(), candidates.end(), code) != candidates.end());
    RC_ASSERT(confidence > 0.0 && confidence <= last);
    last = confidence;
    sum += confidence;
  }
  RC_ASSERT(sum <= 1.0 + 1e-9);
}

TEST(Letters, SmallOnes) {
  EXPECT_EQ(small_letter(U'Ä'), U'ä');
  EXPECT_EQ(small_letter(U'Ž'), U'ž');
  EXPECT_EQ(small_letter(U'Ł'), U'ł');
  EXPECT_EQ(small_letter(U'Ơ'), U'ơ');
  EXPECT_EQ(small_letter(U'Я'), U'я');
  EXPECT_EQ(small_letter(U'Ё'), U'ё');
  EXPECT_EQ(small_letter(U'Ώ'), U'ώ');
  EXPECT_EQ(small_letter(U'Ա'), U'ա');
  for (const char32_t c : U"xß÷×हа中") EXPECT_EQ(small_letter(c), c);
  for (char32_t c = 0; c < 0x10000; ++c) {
    EXPECT_EQ(small_letter(small_letter(c)), small_letter(c)) << static_cast<uint32_t>(c);
  }
}

}  // namespace
}  // namespace tril::languages_test
