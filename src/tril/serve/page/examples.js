// Sentences to try, by the language they are in.

const kSentences = {
  ar: ["كيف حالك؟", "أخي يقرأ كتابًا", "شكرًا جزيلاً"],
  bn: ["আপনি কেমন আছেন?", "আমার ভাই একটি বই পড়ছে"],
  cs: ["Jak se máte?", "Můj bratr čte knihu", "Děkuji mnohokrát"],
  de: [
    "Wie geht es dir?", "Mein Bruder liest ein Buch", "Ein Hund läuft durch den Schnee",
    "Vielen Dank"
  ],
  en: [
    "How are you?", "My brother is reading a book", "I am fine", "Thank you",
    "Where is the hospital?"
  ],
  es: ["¿Cómo estás?", "Mi hermano lee un libro", "Un perro corre por la nieve", "Muchas gracias"],
  fr: [
    "Comment allez-vous ?", "Mon frère lit un livre", "Un chien court dans la neige",
    "Merci beaucoup"
  ],
  he: ["מה שלומך?", "אחי קורא ספר", "תודה רבה"],
  hi: ["आप कैसे हैं", "मेरा भाई एक किताब पढ़ रहा है", "मैं ठीक हूँ", "धन्यवाद"],
  it: ["Come stai?", "Mio fratello legge un libro", "Grazie mille"],
  ja: ["お元気ですか。", "弟は本を読んでいます。", "ありがとうございます。"],
  nl: ["Hoe gaat het met je?", "Mijn broer leest een boek", "Hartelijk dank"],
  pl: ["Jak się masz?", "Mój brat czyta książkę", "Dziękuję bardzo"],
  pt: ["Como vai você?", "Meu irmão está lendo um livro", "Muito obrigado"],
  ru: ["Как дела?", "Мой брат читает книгу", "Большое спасибо"],
  sv: ["Hur mår du?", "Min bror läser en bok", "Tack så mycket"],
  ta: ["நீங்கள் எப்படி இருக்கிறீர்கள்?", "நன்றி"],
  tr: ["Nasılsınız?", "Kardeşim bir kitap okuyor", "Çok teşekkür ederim"],
  uk: ["Як справи?", "Мій брат читає книгу", "Щиро дякую"],
  zh: ["你好吗？", "我哥哥在看书。", "非常感谢"]
};
const kBeginnings = ["Once upon a time", "The weather today", "My brother is reading"];

// {text, lang} of those in a language, by its tag ("" where it is not known: English); for a model
// that detects the language, one sentence in each of its first few.
export function examplesFor({tag, tags = []}) {
  const base = (one) => one ? new Intl.Locale(one).language : "";
  const of = (language) => (kSentences[language] ?? []).map((text) => ({text, lang: language}));
  if (tags.length === 0) return of(tag ? base(tag) : "en");
  const known = [...new Set(tags.map(base))].filter((language) => language in kSentences);
  return known.slice(0, 5).map((language) => of(language)[1]);
}

export function beginnings() {
  return kBeginnings.map((text) => ({text, lang: "en"}));
}
