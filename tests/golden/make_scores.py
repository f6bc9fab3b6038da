"""Makes the golden files of tests/text/{bleu,chrf,unicode}_test.cpp with sacreBLEU.

    python3 -m venv /tmp/scores && /tmp/scores/bin/pip install sacrebleu==2.6.0 regex==2026.11.9
    /tmp/scores/bin/python tests/golden/make_scores.py            # writes tests/golden/scores/
    /tmp/scores/bin/python tests/golden/make_scores.py --check    # the same bytes again?

Made with Python 3.11.7, sacrebleu 2.6.0, regex 2026.11.9. (From Python 3.12 on sum() is compensated,
which may change the last bit of a BLEU score; the test's bound has room for that.) sacreBLEU is an
oracle only; nothing of it is needed to build or test tril. All sentences are written for this file.

A case is a corpus: hypotheses, and for each of them its references. Beside it stand what sacreBLEU
makes of it: the tokens of every hypothesis, and every field of every score. characters.json says what
is white space, and of each class of characters how many there are and what their code points sum to.
"""

import argparse
import json
import os
import sys

import regex
from sacrebleu.metrics import BLEU, CHRF

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scores")

TOKENIZERS = ["13a", "intl", "char", "none"]
# Method and value; None is the method's default.
SMOOTHINGS = [("exp", None), ("floor", None), ("floor", 0.25), ("add-k", None), ("add-k", 0.5),
              ("none", None)]

# All of ASCII that is neither letter nor digit nor white.
MARKS = [chr(point) for point in range(0x21, 0x7F) if not chr(point).isalnum()]

CASES = {
    "english": [
        ("The cat sat quietly on the old mat.", ["The cat was sitting quietly on the mat."]),
        ("Prices rose by 3.5% to $1,000.50, he said.",
         ["Prices went up by 3.5% to $1,000.50, he said."]),
        ("\"Well,\" she said, \"it's a state-of-the-art 10-year-old boat (almost).\"",
         ["\"Well\", she said, \"it is a state-of-the-art, 10-year-old boat (nearly).\""]),
        ("I cannot say; ask him/her: a+b=c, x<y, {1}, [2] ~ 3 ^ 4 | 5 \\ 6 @ 7 # 8 & 9 * `10` _!",
         ["I cannot say, ask her/him: a + b = c, x < y, {1}, [2] ~3 ^4 |5 \\6 @7 #8 &9 *`10`_ !"]),
    ],
    "german": [
        ("Die Größe des Hauses überraschte uns alle sehr.",
         ["Die Größe dieses Hauses hat uns alle sehr überrascht."]),
        ("„Schön“, sagte er, „dass es am 3. Mai um 14.30 Uhr beginnt.“",
         ["»Schön«, sagte er, »dass es am 3. Mai um 14.30 Uhr anfängt.«"]),
        ("Das kostet 1.000,50 € – nicht 1 000,50 €…", ["Es kostet 1.000,50 €, nicht 1 000,50 €…"]),
    ],
    "hindi": [
        ("मैं कल बाज़ार गया था।", ["मैं कल बाज़ार गया था और फल लाया।"]),
        ("क्या आप १,२३४.५६ रुपये देंगे? नहीं॥", ["क्या आप १,२३४.५६ रुपए देंगे? नहीं ॥"]),
        ("उसने कहा, “यह हिन्दी है”।", ["उसने कहा कि “यह हिंदी है”।"]),
        ("सन् १९४७। ₹५०० मात्र।", ["सन् १९४७ में। ₹ ५०० मात्र।"]),
    ],
    "chinese and japanese": [
        ("猫坐在旧垫子上。", ["那只猫静静地坐在垫子上。"]),
        ("他说：“价格上涨了3.5%，到１，０００元！”", ["他说：“价格涨了3.5%，达到１，０００元。”"]),
        ("猫は古いマットの上に座っていた。", ["猫がマットの上に静かに座っていました。"]),
        ("「はい」、と彼女は言った…。", ["「はい」と、彼女は言った。"]),
    ],
    "mixed scripts": [
        ("Wi-Fi के लिए пароль: абв123 (日本) ½ ② Ⅷ × 5°C 👍🏽 #tag @name",
         ["Wi-Fi का пароль: абв 123 (日本) ½ ② Ⅷ × 5 °C 👍🏽 #tag @name"]),
        ("e\u0301 \u00e9 \u200b\ufeff\u200d zero\u200bwidth 𝟘,𝟙 𐄀 \U00010fff \U000e0001",
         ["\u00e9 e\u0301 zero width 𝟘,𝟙 𐄀 \U00010fff \U000e0001"]),
        # Younger than what Python 3.11 knows, not than what its module regex does: U+20C1 is a
        # symbol of Unicode 17.0, U+1B7F a punctuation mark of 16.0, U+11F43 one of 15.0.
        ("\u20c0\u20c15 a\u20c1b x\U00011f43y \u1b7fz 5\u1b7f6", ["\u20c0 \u20c1 5 a \u20c1 b x y"]),
        ("ΑΣ Σίσυφος; İstanbul, ﬁn, DŽ.", ["ΑΣ Σίσυφος· İstanbul fin DŽ."]),
    ],
    "empty hypotheses": [
        ("", ["There is something here."]), ("The dog barks at night.", ["The dog barks at night."]),
        ("   ", ["And here."]), ("\u3000\u00a0\u0085", ["Here too, once more."]),
    ],
    "empty references": [
        ("There is something here.", [""]), ("The dog barks at night.", ["The dog barks at night."]),
        ("And here.", [" \t "]), ("", [""]),
    ],
    "all empty": [("", [""]), ("", [""])],
    "empty hypothesis alone": [("", ["words that nobody said"])],
    "empty reference alone": [("words that nobody asked for", [""])],
    "white space": [
        ("a\u00a0b\u3000c\u0085d\te\u2028f\u202fg\u205fh\u1680i\x1cj\x1fk\x0bl\x0cm\rn o  p ",
         ["a b c d e f g h i j k l m n o p"]),
        (" leading and trailing \u3000", ["leading and trailing"]),
        ("no\u200bbreak\u180ehere\ufeff \x00 \x1b .", ["no break here . \x00 \x1b"]),
        ("ends in 5. \t", ["ends in 5."]), ("ends in 5.\u00a0", ["ends in 5. "]),
    ],
    "entities": [
        ("&quot;Fish &amp; chips&quot; cost &lt; 5 &gt; 3 &amp;lt; &amp;amp; &apos; &#39; &; &",
         ["\"Fish & chips\" cost < 5 > 3 &lt; &amp; ' ' & ; &"]),
        ("AT&amp;T and R&D&quot", ["AT&T and R&amp;D&quot;"]),
    ],
    "skipped and hyphens": [
        ("before <skipped> after<skipped>end", ["before after end"]),
        ("<skip<skipped>ped> inter-\nnational\nlines -\n", ["inter-\nnational lines -"]),
        ("a word at the end-", ["a word at the end-\n"]),
        ("-<skipped>\nodd \r\n", ["odd"]),
    ],
    "numbers": [
        ("1,000.50 .5 5. 5.a a.5 1.2.3 1,,2 ..5 5..6 ... ,,, a,.b 1-2 -1 1--2 1-a a-1 2024-05-06",
         ["1,000.50 .5 5 . 5 .a a .5 1.2.3 1 , , 2 . .5 5..6 … 1 - 2 - 1 1 - - 2 1 - a a-1"]),
        ("٣,٤ ३.४ １．２ ½.½ Ⅳ.Ⅳ 5!6 5!a a!6 !! 5!", ["٣,٤ ३.४ １．２ ½.½ Ⅳ.Ⅳ 5!6 5! a a! 6 ! ! 5!"]),
        ("99.9%, 1/2, 3:45, 6'7\", 8×9", ["99.9 %, 1/2, 3:45, 6'7\", 8 × 9"]),
    ],
    "short hypothesis": [("Yes.", ["Yes, that is what we have been told by everyone over there."])],
    "long hypothesis": [
        ("the the the the the the the the big big dog ran and ran and ran and ran away again and again"
         " and again until the very end of the very long day", ["The big dog ran away."]),
    ],
    "no match": [("alpha beta gamma delta epsilon", ["one two three four five"])],
    "one word right": [("alpha beta gamma delta epsilon", ["one two gamma four five"])],
    "two words right": [("alpha beta gamma delta epsilon zeta", ["one beta gamma four five six"])],
    "three words, no more": [("alpha beta gamma", ["alpha beta gamma"])],
    "perfect": [("An exact copy is a copy, exactly.", ["An exact copy is a copy, exactly."])],
    "several references": [
        ("The quick fox jumped over the lazy dog.",
         ["A quick fox jumped over a lazy dog.", "The fast fox jumps over the dog.",
          "The quick brown fox leapt over the lazy old dog."]),
        ("a a a b", ["a a c", "a b b d e", "a a a"]),
        ("one two three", ["one two", "one two three four", "x"]),
        ("", ["", "something", "else entirely"]),
    ],
    "differing numbers of references": [
        ("The bird sang all morning long.", ["The bird sang all morning.", "A bird sang for hours."]),
        ("It rained.", ["It was raining."]),
        ("It stopped soon.", ["Soon it stopped.", "It was soon over."]),
    ],
    "punctuation on words": [
        ("(hi) 'hello' --dash-- \"quoted\" a. .a . .. ... (a) ¡hola! «mot» -",
         ["( hi ) 'hello' -- dash -- \"quoted\" a . . a … (a) hola mot"]),
        (" ".join(f"w{mark} {mark}w" for mark in MARKS), [" ".join(f"w {mark}" for mark in MARKS)]),
    ],
}


def columns(segments):
    """One list a reference, as sacreBLEU wants them; None where a segment has no such reference."""
    width = max(len(references) for _, references in segments)
    return [[references[i] if i < len(references) else None for _, references in segments]
            for i in range(width)]


def bleu_scores(segments):
    hypotheses = [hypothesis for hypothesis, _ in segments]
    scores = []
    for tokenizer in TOKENIZERS:
        for method, value in SMOOTHINGS if tokenizer == "13a" else SMOOTHINGS[:1]:
            metric = BLEU(tokenize=tokenizer, smooth_method=method, smooth_value=value)
            score = metric.corpus_score(hypotheses, columns(segments))
            # add-k adds to the counts it reports; ours are those of the text.
            plain = BLEU(tokenize=tokenizer).corpus_score(hypotheses, columns(segments))
            scores.append(dict(
                tokenizer=tokenizer, smoothing=method, value=value, score=score.score,
                precisions=score.precisions, brevity_penalty=score.bp, matches=plain.counts,
                totals=plain.totals, hypothesis_length=score.sys_len,
                reference_length=score.ref_len, line=line(metric, score)))
    return scores


def chrf_scores(segments):
    hypotheses = [hypothesis for hypothesis, _ in segments]
    scores = []
    for word_orders in [0, 1, 2]:
        metric = CHRF(word_order=word_orders)
        score = metric.corpus_score(hypotheses, columns(segments))
        by_segment = metric._extract_corpus_statistics(hypotheses, columns(segments))
        scores.append(dict(word_orders=word_orders, score=score.score,
                           counts=[sum(column) for column in zip(*by_segment)],
                           line=line(metric, score)))
    return scores


def line(metric, score):
    """sacreBLEU's own, up to the version, whose place the test fills in."""
    signature = metric.get_signature()
    signature.info["version"] = "VERSION"
    return score.format(signature=str(signature))


def tokens(hypothesis):
    result = {}
    for tokenizer in TOKENIZERS:
        metric = BLEU(tokenize=tokenizer)
        result[tokenizer] = " ".join(metric._preprocess_segment(hypothesis).split())
    return result


def make_cases():
    cases = []
    for name, segments in CASES.items():
        cases.append(dict(
            name=name, hypotheses=[hypothesis for hypothesis, _ in segments],
            references=[references for _, references in segments],
            tokens=[tokens(hypothesis) for hypothesis, _ in segments],
            bleu=bleu_scores(segments), chrf=chrf_scores(segments)))
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    return f"[\n{lines}\n]\n"


def make_characters():
    points = [point for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF]
    facts = {"white space": [point for point in points if chr(point).isspace()]}
    for name in ["P", "S", "N"]:
        pattern = regex.compile(r"\p{%s}" % name)
        members = [point for point in points if pattern.match(chr(point))]
        facts[name] = dict(count=len(members), sum=sum(members))
    return json.dumps(facts) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    arguments = parser.parse_args()
    os.makedirs(FOLDER, exist_ok=True)
    for name, text in {"cases.json": make_cases(), "characters.json": make_characters()}.items():
        path = os.path.join(FOLDER, name)
        if not arguments.check:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            continue
        with open(path, encoding="ascii") as file:
            if file.read() != text:
                sys.exit(f"make_scores: {name} is not what would be made")


if __name__ == "__main__":
    main()
