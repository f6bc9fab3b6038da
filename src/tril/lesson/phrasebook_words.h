// The lexicon of the phrasebook: everything that cannot be composed, in tables that a teacher can
// read. Internal to lesson/.
#pragma once

namespace tril::phrasebook {

enum class Gender { masculine, feminine };
enum class Respect { plain, honoured };

struct Noun {
  const char* english;
  const char* english_plural;  // "" where no plural is used
  Gender gender;
  const char* direct;
  const char* oblique;  // before a postposition: कमरे में
  const char* plural;
  const char* plural_oblique;
  Respect respect = Respect::plain;
};

struct Adjective {
  const char* english;
  const char* masculine;
  const char* masculine_plural;  // and oblique
  const char* feminine;
  const char* comparative = "";  // English; "" where none is used
};
constexpr Adjective invariable(const char* english, const char* hindi,
                               const char* comparative = "") {
  return {english, hindi, hindi, hindi, comparative};
}

struct Profession {
  const char* english;
  const char* english_plural;
  const char* masculine;  // the plural is the same for all of these
  const char* feminine;
};

// A verb with its object, if any: नहीं and question words go between the two.
struct Action {
  const char* english;
  const char* third;
  const char* ing;
  const char* object;
  const char* stem;
  const char* future;  // of वह, masculine
  const char* command;
  enum Object { none, masculine, feminine, masculine_plural, feminine_plural } agrees = none;
};

struct Person {
  const char* english;
  const char* hindi;
  Gender gender;
};

struct Word {
  const char* english;
  const char* hindi;
};

// One letter, because they occur in every line of the tables.
inline constexpr Gender m = Gender::masculine;  // NOLINT(readability-identifier-naming)
inline constexpr Gender f = Gender::feminine;   // NOLINT(readability-identifier-naming)

// clang-format off
inline constexpr Noun kElders[] = {
    {"father", "", m, "पिताजी", "पिताजी", "", "", Respect::honoured},
    {"mother", "", f, "माँ", "माँ", "", "", Respect::honoured},
    {"grandfather", "", m, "दादाजी", "दादाजी", "", "", Respect::honoured},
    {"grandmother", "", f, "दादीजी", "दादीजी", "", "", Respect::honoured},
};
inline constexpr Noun kSpouses[] = {
    {"husband", "", m, "पति", "पति", "", "", Respect::honoured},
    {"wife", "", f, "पत्नी", "पत्नी", "", "", Respect::honoured},
};
inline constexpr Noun kKin[] = {
    {"brother", "brothers", m, "भाई", "भाई", "भाई", "भाइयों"},
    {"sister", "sisters", f, "बहन", "बहन", "बहनें", "बहनों"},
    {"son", "sons", m, "बेटा", "बेटे", "बेटे", "बेटों"},
    {"daughter", "daughters", f, "बेटी", "बेटी", "बेटियाँ", "बेटियों"},
    {"friend", "friends", m, "दोस्त", "दोस्त", "दोस्त", "दोस्तों"},
};
inline constexpr Noun kWomanFriend = {"friend", "", f, "दोस्त", "दोस्त", "", ""};
inline constexpr Noun kFamily = {"family", "", m, "परिवार", "परिवार", "", ""};
inline constexpr Noun kPeople[] = {
    {"boy", "boys", m, "लड़का", "लड़के", "लड़के", "लड़कों"},
    {"girl", "girls", f, "लड़की", "लड़की", "लड़कियाँ", "लड़कियों"},
    {"man", "men", m, "आदमी", "आदमी", "आदमी", "आदमियों"},
    {"woman", "women", f, "औरत", "औरत", "औरतें", "औरतों"},
    {"child", "children", m, "बच्चा", "बच्चे", "बच्चे", "बच्चों"},
};
inline constexpr Noun kThings[] = {  // that one carries, of any colour
    {"book", "books", f, "किताब", "किताब", "किताबें", "किताबों"},
    {"pen", "pens", m, "पेन", "पेन", "पेन", "पेनों"},
    {"watch", "watches", f, "घड़ी", "घड़ी", "घड़ियाँ", "घड़ियों"},
    {"phone", "phones", m, "फ़ोन", "फ़ोन", "फ़ोन", "फ़ोनों"},
    {"shirt", "shirts", f, "कमीज़", "कमीज़", "कमीज़ें", "कमीज़ों"},
    {"umbrella", "umbrellas", m, "छाता", "छाते", "छाते", "छातों"},
};
inline constexpr Noun kPicture = {"picture", "pictures", f, "तस्वीर", "तस्वीर", "तस्वीरें", "तस्वीरों"};
inline constexpr Noun kContainers[] = {
    {"bag", "bags", m, "थैला", "थैले", "थैले", "थैलों"},
    {"box", "boxes", m, "डिब्बा", "डिब्बे", "डिब्बे", "डिब्बों"},
};
inline constexpr Noun kFurniture[] = {
    {"table", "tables", f, "मेज़", "मेज़", "मेज़ें", "मेज़ों"},
    {"chair", "chairs", f, "कुर्सी", "कुर्सी", "कुर्सियाँ", "कुर्सियों"},
};
inline constexpr Noun kDoors[] = {
    {"door", "doors", m, "दरवाज़ा", "दरवाज़े", "दरवाज़े", "दरवाज़ों"},
    {"window", "windows", f, "खिड़की", "खिड़की", "खिड़कियाँ", "खिड़कियों"},
};
inline constexpr Noun kCar = {"car", "cars", f, "गाड़ी", "गाड़ी", "गाड़ियाँ", "गाड़ियों"};
inline constexpr Noun kTree = {"tree", "trees", m, "पेड़", "पेड़", "पेड़", "पेड़ों"};
inline constexpr Noun kAnimals[] = {
    {"dog", "dogs", m, "कुत्ता", "कुत्ते", "कुत्ते", "कुत्तों"},
    {"cat", "cats", f, "बिल्ली", "बिल्ली", "बिल्लियाँ", "बिल्लियों"},
    {"horse", "horses", m, "घोड़ा", "घोड़े", "घोड़े", "घोड़ों"},
    {"cow", "cows", f, "गाय", "गाय", "गायें", "गायों"},
};
inline constexpr Noun kFruit[] = {
    {"apple", "apples", m, "सेब", "सेब", "सेब", "सेबों"},
    {"mango", "mangoes", m, "आम", "आम", "आम", "आमों"},
    {"banana", "bananas", m, "केला", "केले", "केले", "केलों"},
    {"orange", "oranges", m, "संतरा", "संतरे", "संतरे", "संतरों"},
};
inline constexpr Noun kSnacks[] = {
    {"egg", "eggs", m, "अंडा", "अंडे", "अंडे", "अंडों"},
    {"roti", "rotis", f, "रोटी", "रोटी", "रोटियाँ", "रोटियों"},
};
inline constexpr Noun kDrinks[] = {
    {"water", "", m, "पानी", "पानी", "", ""},
    {"tea", "", f, "चाय", "चाय", "", ""},
    {"milk", "", m, "दूध", "दूध", "", ""},
    {"coffee", "", f, "कॉफ़ी", "कॉफ़ी", "", ""},
    {"juice", "", m, "जूस", "जूस", "", ""},
};
inline constexpr Noun kFood[] = {
    {"food", "", m, "खाना", "खाने", "", ""},
    {"rice", "", m, "चावल", "चावल", "", ""},
};
inline constexpr Noun kSpices[] = {
    {"sugar", "", f, "चीनी", "चीनी", "", ""},
    {"salt", "", m, "नमक", "नमक", "", ""},
};
inline constexpr Noun kPlaces[] = {
    {"station", "stations", m, "स्टेशन", "स्टेशन", "स्टेशन", "स्टेशनों"},
    {"market", "markets", m, "बाज़ार", "बाज़ार", "बाज़ार", "बाज़ारों"},
    {"hospital", "hospitals", m, "अस्पताल", "अस्पताल", "अस्पताल", "अस्पतालों"},
    {"school", "schools", m, "स्कूल", "स्कूल", "स्कूल", "स्कूलों"},
    {"temple", "temples", m, "मंदिर", "मंदिर", "मंदिर", "मंदिरों"},
    {"bank", "banks", m, "बैंक", "बैंक", "बैंक", "बैंकों"},
    {"hotel", "hotels", m, "होटल", "होटल", "होटल", "होटलों"},
    {"office", "offices", m, "दफ़्तर", "दफ़्तर", "दफ़्तर", "दफ़्तरों"},
    {"shop", "shops", f, "दुकान", "दुकान", "दुकानें", "दुकानों"},
};
inline constexpr Noun kSights[] = {  // places that one does not walk into on an errand
    {"river", "rivers", f, "नदी", "नदी", "नदियाँ", "नदियों"},
    {"garden", "gardens", m, "बगीचा", "बगीचे", "बगीचे", "बगीचों"},
    {"toilet", "toilets", m, "शौचालय", "शौचालय", "शौचालय", "शौचालयों"},
};
inline constexpr Noun kHomes[] = {
    {"house", "houses", m, "घर", "घर", "घर", "घरों"},
    {"room", "rooms", m, "कमरा", "कमरे", "कमरे", "कमरों"},
    {"village", "villages", m, "गाँव", "गाँव", "गाँव", "गाँवों"},
    {"city", "cities", m, "शहर", "शहर", "शहर", "शहरों"},
};
inline constexpr Noun kKitchen = {"kitchen", "", f, "रसोई", "रसोई", "", ""};
inline constexpr Noun kSubjects[] = {  // that one learns or enjoys
    {"Hindi", "", f, "हिंदी", "हिंदी", "", ""},
    {"English", "", f, "अंग्रेज़ी", "अंग्रेज़ी", "", ""},
    {"music", "", m, "संगीत", "संगीत", "", ""},
    {"cricket", "", m, "क्रिकेट", "क्रिकेट", "", ""},
};

inline constexpr Adjective kQualities[] = {  // of things and animals
    {"good", "अच्छा", "अच्छे", "अच्छी", "better"},
    {"big", "बड़ा", "बड़े", "बड़ी", "bigger"},
    {"small", "छोटा", "छोटे", "छोटी", "smaller"},
    invariable("beautiful", "सुंदर"),
    invariable("clean", "साफ़", "cleaner"),
};
inline constexpr Adjective kAges[] = {  // of things, never of the living
    {"new", "नया", "नए", "नई", "newer"},
    {"old", "पुराना", "पुराने", "पुरानी", "older"},
};
inline constexpr Adjective kPrices[] = {
    {"expensive", "महँगा", "महँगे", "महँगी"},
    {"cheap", "सस्ता", "सस्ते", "सस्ती", "cheaper"},
};
inline constexpr Adjective kColours[] = {
    invariable("red", "लाल"),
    invariable("white", "सफ़ेद"),
    {"black", "काला", "काले", "काली"},
    {"blue", "नीला", "नीले", "नीली"},
};
inline constexpr Adjective kTraits[] = {  // of people, lasting
    {"tall", "लंबा", "लंबे", "लंबी", "taller"},
    {"good", "अच्छा", "अच्छे", "अच्छी"},
    invariable("kind", "दयालु"),
    invariable("honest", "ईमानदार"),
    invariable("clever", "होशियार"),
};
inline constexpr Adjective kMoods[] = {  // of people, passing
    invariable("happy", "खुश"),
    invariable("sad", "उदास"),
    {"tired", "थका हुआ", "थके हुए", "थकी हुई"},
    invariable("sick", "बीमार"),
    invariable("busy", "व्यस्त"),
    invariable("angry", "नाराज़"),
    invariable("worried", "परेशान"),
};
inline constexpr Adjective kStates[] = {  // as kMoods, but without degree
    {"alone", "अकेला", "अकेले", "अकेली"},
    invariable("fine", "ठीक"),
    invariable("ready", "तैयार"),
};
inline constexpr Adjective kTastes[] = {
    {"good", "अच्छा", "अच्छे", "अच्छी"},
    {"cold", "ठंडा", "ठंडे", "ठंडी"},
    invariable("hot", "गरम"),
    invariable("tasty", "स्वादिष्ट"),
};
inline constexpr Adjective kSweet = {"sweet", "मीठा", "मीठे", "मीठी"};
inline constexpr Adjective kOpen[] = {
    {"open", "खुला", "खुले", "खुली"},
    invariable("closed", "बंद"),
};

inline constexpr Profession kProfessions[] = {
    {"doctor", "doctors", "डॉक्टर", "डॉक्टर"},
    {"teacher", "teachers", "अध्यापक", "अध्यापिका"},
    {"student", "students", "छात्र", "छात्रा"},
    {"engineer", "engineers", "इंजीनियर", "इंजीनियर"},
    {"farmer", "farmers", "किसान", "किसान"},
    {"singer", "singers", "गायक", "गायिका"},
};

inline constexpr Action kActions[] = {
    {"drink tea", "drinks tea", "drinking tea", "चाय", "पी", "पिएगा", "पीजिए", Action::feminine},
    {"drink milk", "drinks milk", "drinking milk", "दूध", "पी", "पिएगा", "पीजिए", Action::masculine},
    {"eat rice", "eats rice", "eating rice", "चावल", "खा", "खाएगा", "खाइए", Action::masculine},
    {"eat mangoes", "eats mangoes", "eating mangoes", "आम", "खा", "खाएगा", "खाइए", Action::masculine_plural},
    {"read a book", "reads a book", "reading a book", "एक किताब", "पढ़", "पढ़ेगा", "पढ़िए", Action::feminine},
    {"read the newspaper", "reads the newspaper", "reading the newspaper", "अखबार", "पढ़", "पढ़ेगा", "पढ़िए", Action::masculine},
    {"write a letter", "writes a letter", "writing a letter", "एक चिट्ठी", "लिख", "लिखेगा", "लिखिए", Action::feminine},
    {"learn Hindi", "learns Hindi", "learning Hindi", "हिंदी", "सीख", "सीखेगा", "सीखिए", Action::feminine},
    {"speak English", "speaks English", "speaking English", "अंग्रेज़ी", "बोल", "बोलेगा", "बोलिए", Action::feminine},
    {"speak Hindi", "speaks Hindi", "speaking Hindi", "हिंदी", "बोल", "बोलेगा", "बोलिए", Action::feminine},
    {"play cricket", "plays cricket", "playing cricket", "क्रिकेट", "खेल", "खेलेगा", "खेलिए", Action::masculine},
    {"watch television", "watches television", "watching television", "टीवी", "देख", "देखेगा", "देखिए", Action::masculine},
    {"buy vegetables", "buys vegetables", "buying vegetables", "सब्ज़ियाँ", "खरीद", "खरीदेगा", "खरीदिए", Action::feminine_plural},
    {"cook", "cooks", "cooking", "खाना", "बना", "बनाएगा", "बनाइए", Action::masculine},
    {"work", "works", "working", "काम", "कर", "करेगा", "कीजिए", Action::masculine},
    {"dance", "dances", "dancing", "", "नाच", "नाचेगा", "नाचिए"},
    {"sleep", "sleeps", "sleeping", "", "सो", "सोएगा", "सोइए"},
    {"go home", "goes home", "going home", "घर", "जा", "जाएगा", "जाइए"},
    {"go to school", "goes to school", "going to school", "स्कूल", "जा", "जाएगा", "जाइए"},
    {"go to the market", "goes to the market", "going to the market", "बाज़ार", "जा", "जाएगा", "जाइए"},
    {"go to the office", "goes to the office", "going to the office", "दफ़्तर", "जा", "जाएगा", "जाइए"},
    {"go to the temple", "goes to the temple", "going to the temple", "मंदिर", "जा", "जाएगा", "जाइए"},
};
inline constexpr Action kComing[] = {
    {"come", "comes", "coming", "", "आ", "आएगा", "आइए"},
    {"go", "goes", "going", "", "जा", "जाएगा", "जाइए"},
};
inline constexpr Action kAbilities[] = {
    {"speak Hindi", "speaks Hindi", "speaking Hindi", "हिंदी", "बोल", "बोलेगा", "बोलिए", Action::feminine},
    {"speak English", "speaks English", "speaking English", "अंग्रेज़ी", "बोल", "बोलेगा", "बोलिए", Action::feminine},
    {"play cricket", "plays cricket", "playing cricket", "क्रिकेट", "खेल", "खेलेगा", "खेलिए", Action::masculine},
    {"cook", "cooks", "cooking", "खाना", "बना", "बनाएगा", "बनाइए", Action::masculine},
    {"dance", "dances", "dancing", "", "नाच", "नाचेगा", "नाचिए"},
    {"read Hindi", "reads Hindi", "reading Hindi", "हिंदी", "पढ़", "पढ़ेगा", "पढ़िए", Action::feminine},
    {"write Hindi", "writes Hindi", "writing Hindi", "हिंदी", "लिख", "लिखेगा", "लिखिए", Action::feminine},
};
inline constexpr Action kWhereabouts[] = {  // that one does somewhere
    {"live", "lives", "living", "", "रह", "रहेगा", "रहिए"},
    {"work", "works", "working", "काम", "कर", "करेगा", "कीजिए", Action::masculine},
    {"sleep", "sleeps", "sleeping", "", "सो", "सोएगा", "सोइए"},
    {"play", "plays", "playing", "", "खेल", "खेलेगा", "खेलिए"},
};
inline constexpr Action kWithObject[] = {  // whose object one may ask for: आप क्या खा रहे हैं
    {"eat", "eats", "eating", "", "खा", "खाएगा", "खाइए"},
    {"drink", "drinks", "drinking", "", "पी", "पिएगा", "पीजिए"},
    {"read", "reads", "reading", "", "पढ़", "पढ़ेगा", "पढ़िए"},
    {"write", "writes", "writing", "", "लिख", "लिखेगा", "लिखिए"},
    {"buy", "buys", "buying", "", "खरीद", "खरीदेगा", "खरीदिए"},
    {"do", "does", "doing", "", "कर", "करेगा", "कीजिए"},
};

inline constexpr Person kNames[] = {
    {"Ravi", "रवि", m}, {"Mohan", "मोहन", m}, {"Amit", "अमित", m}, {"Raj", "राज", m},
    {"Sita", "सीता", f}, {"Anita", "अनीता", f}, {"Meera", "मीरा", f}, {"Priya", "प्रिया", f},
};
inline constexpr Word kCities[] = {
    {"Delhi", "दिल्ली"}, {"Mumbai", "मुंबई"}, {"Jaipur", "जयपुर"}, {"Varanasi", "वाराणसी"},
};
inline constexpr Word kCountries[] = {
    {"India", "भारत"}, {"Nepal", "नेपाल"}, {"America", "अमेरिका"}, {"Japan", "जापान"},
};
inline constexpr Word kGreetings[] = {
    {"Hello", "नमस्ते"}, {"Good morning", "सुप्रभात"}, {"Good evening", "शुभ संध्या"},
    {"Good night", "शुभ रात्रि"}, {"Thank you", "धन्यवाद"}, {"Sorry", "माफ़ कीजिए"},
    {"Congratulations", "बधाई हो"},
};
inline constexpr Word kDays[] = {
    {"Monday", "सोमवार"}, {"Tuesday", "मंगलवार"}, {"Wednesday", "बुधवार"}, {"Thursday", "गुरुवार"},
    {"Friday", "शुक्रवार"}, {"Saturday", "शनिवार"}, {"Sunday", "रविवार"},
};
inline constexpr Word kHabits[] = {  // when one usually does it
    {"every day", "रोज़"}, {"in the morning", "सुबह"}, {"in the evening", "शाम को"},
    {"at night", "रात को"},
};
inline constexpr Word kPrepositions[] = {
    {"near", "के पास"}, {"behind", "के पीछे"}, {"in front of", "के सामने"},
    {"under", "के नीचे"}, {"on", "पर"}, {"in", "में"},
};
inline constexpr Word kRightThere[] = {
    {"at home", "घर पर"}, {"at school", "स्कूल में"}, {"at the station", "स्टेशन पर"},
    {"here", "यहाँ"}, {"there", "वहाँ"},
};
inline constexpr Word kErrands[] = {  // where one goes; the Hindi needs no postposition
    {"school", "स्कूल"}, {"the market", "बाज़ार"}, {"the temple", "मंदिर"},
    {"the hospital", "अस्पताल"}, {"the office", "दफ़्तर"},
};
inline constexpr Word kAilments[] = {
    {"a fever", "बुखार"}, {"a cold", "ज़ुकाम"}, {"a cough", "खाँसी"},
};
inline constexpr Word kPains[] = {
    {"a headache", "सिर"}, {"a stomach ache", "पेट"}, {"a toothache", "दाँत"},
};

// मुझे भूख लगी है: the feeling comes to the person.
struct Feeling {
  const char* english;
  const char* noun;
  const char* verb;
  Gender gender;
};
inline constexpr Feeling kFeelings[] = {
    {"hungry", "भूख", "लगी", f},     {"thirsty", "प्यास", "लगी", f},
    {"cold", "ठंड", "लग रही", f},   {"hot", "गर्मी", "लग रही", f},
    {"sleepy", "नींद", "आ रही", f}, {"afraid", "डर", "लग रहा", m},
};

// 1 to 20 have the index of their value less one; then the tens and a hundred.
inline constexpr Word kNumbers[] = {
    {"one", "एक"}, {"two", "दो"}, {"three", "तीन"}, {"four", "चार"}, {"five", "पाँच"},
    {"six", "छह"}, {"seven", "सात"}, {"eight", "आठ"}, {"nine", "नौ"}, {"ten", "दस"},
    {"eleven", "ग्यारह"}, {"twelve", "बारह"}, {"thirteen", "तेरह"}, {"fourteen", "चौदह"},
    {"fifteen", "पंद्रह"}, {"sixteen", "सोलह"}, {"seventeen", "सत्रह"}, {"eighteen", "अठारह"},
    {"nineteen", "उन्नीस"}, {"twenty", "बीस"}, {"thirty", "तीस"}, {"forty", "चालीस"},
    {"fifty", "पचास"}, {"sixty", "साठ"}, {"seventy", "सत्तर"}, {"eighty", "अस्सी"},
    {"ninety", "नब्बे"}, {"a hundred", "सौ"},
};
// clang-format on

}  // namespace tril::phrasebook
