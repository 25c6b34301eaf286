"""Texts for train_tokenizers.py: a small corpus in many scripts, and strings that are hard for a tokenizer.

Written for this purpose; every text is about the same mill.
"""

CORPUS = {
    "english": [
        "The mill stands by the river, and the miller grinds the grain of the whole valley.",
        "When the water is low the stones turn slowly; when it is high they don't stop at night.",
        "She's carried two sacks of flour to the market, and they'll sell them before noon.",
        "I've seen the old quern that her grandmother turned by hand, and it's still in use.",
    ],
    "french": [
        "Le moulin est au bord de la rivière, et le meunier moud le blé de toute la vallée.",
        "L'été, quand l'eau est basse, les meules tournent à peine; l'hiver, elles ne s'arrêtent plus.",
    ],
    "german": [
        "Die Mühle steht am Fluß, und der Müller mahlt das Getreide aus dem ganzen Tal.",
        "Größere Säcke trägt er nicht mehr, denn die Straße über den Hügel ist zu steil.",
    ],
    "polish": ["Młyn stoi nad rzeką, a młynarz miele zboże z całej doliny, choć źdźbła są już suche."],
    "turkish": ["Değirmen ırmağın kıyısındadır; değirmenci bütün vadinin buğdayını öğütür ve İçel'e gönderir."],
    "vietnamese": ["Cối xay nằm bên bờ sông, và người thợ xay bột cho cả thung lũng suốt mùa đông."],
    "russian": [
        "Мельница стоит у реки, и мельник мелет зерно со всей долины.",
        "Когда воды мало, жернова вращаются медленно, а весной они не останавливаются даже ночью.",
    ],
    "ukrainian": ["Млин стоїть біля річки, і мельник меле зерно з усієї долини; її м'який ґрунт родючий."],
    "greek": [
        "Ο μύλος στέκεται δίπλα στο ποτάμι και ο μυλωνάς αλέθει το σιτάρι όλης της κοιλάδας.",
        "Όταν το νερό είναι λίγο, οι πέτρες γυρίζουν αργά.",
    ],
    "arabic": [
        "تقع الطاحونة على ضفة النهر، ويطحن الطحان قمح الوادي كله.",
        "عندما يقل الماء تدور الأحجار ببطء، وفي الشتاء لا تتوقف أبدًا.",
    ],
    "hebrew": ["הטחנה עומדת על גדת הנהר, והטוחן טוחן את החיטה של כל העמק.", "כשהמים מעטים האבנים מסתובבות לאט."],
    "hindi": [
        "चक्की नदी के किनारे है और चक्कीवाला पूरी घाटी का अनाज पीसता है।",
        "जब पानी कम होता है तब पत्थर धीरे घूमते हैं।",
    ],
    "bengali": ["কলটি নদীর ধারে, আর কলওয়ালা সারা উপত্যকার শস্য পেষে।"],
    "tamil": ["ஆலை ஆற்றின் கரையில் உள்ளது, ஆலைக்காரர் பள்ளத்தாக்கு முழுவதின் தானியத்தை அரைக்கிறார்."],
    "thai": ["โรงสีอยู่ริมแม่น้ำ และคนโม่แป้งโม่ข้าวของทั้งหุบเขา", "เมื่อน้ำน้อยหินก็หมุนช้า"],
    "chinese": ["磨坊在河边，磨坊主磨整个山谷的粮食。", "水少的时候石磨转得很慢，春天水大，夜里也不停。"],
    "japanese": ["水車小屋は川のそばにあり、粉屋は谷じゅうの穀物をひいている。", "ミズガスクナイトキ、イシウスハユックリマワル。"],
    "korean": ["방앗간은 강가에 있고 방앗간 주인은 온 골짜기의 곡식을 빻는다.", "물이 적으면 돌이 천천히 돈다."],
    "georgian": ["წისქვილი მდინარის პირას დგას და მეწისქვილე მთელი ხეობის მარცვალს ფქვავს."],
    "armenian": ["Ջրաղացը գետի ափին է, և ջրաղացպանը աղում է ամբողջ հովտի ցորենը։"],
    "amharic": ["ወፍጮው በወንዙ ዳር ነው፣ ወፍጮ አስፈጪውም የሸለቆውን እህል ሁሉ ይፈጫል።"],
    "emoji": ["🌾🌾 → 🏭 → 🍞🥖! 😀😃😄 👍🏽 👨‍🌾👩‍🌾 ❤️ 🇬🇪🇰🇷🇹🇭"],
    "code": [
        "def grind(grain, turns=3):\n    for i in range(turns):\n        grain = [g // 2 for g in grain]\n    return grain\n",
        "int main(void) {\r\n\tprintf(\"%d\\n\", 42);\r\n\treturn 0;\r\n}\r\n",
        "SELECT name, weight FROM sacks WHERE weight >= 12.5 AND owner_id = 1007;",
        "{\"mill\": [1, 2, 3], \"open\": true, \"rate\": -1.5e-3}",
    ],
}

# What none of the languages above brings out. \u escapes where the character could not be told apart in an editor.
EDGES = [
    "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n\n", "\r\n", "\r\n\r\n", "\r", "\t", "\t\t", " \n", "\n ", " \n \n ",
    "  \n\n  ", "\n\t\n", "a ", " a", "  a", "   a", "a  b", "a   b", "a\nb", "a\n\nb", "a \n b", "a\n  b", "a  \n",
    "word\r\nnext", "word \r\n\r\n  next", "\ttab", "a\tb", "a\t\tb", "trailing   ", "   leading", "  both  ",
    "\u00a0", "\u00a0a", "a\u00a0b", " \u00a0a", "a \u00a0 b", "\u3000全角", "a\u2003b", "a\u2028b", "a\u2029b", "a\u0085b",
    "\u1680x", "\u202fx", "\u180ex", "\u200bzero width", "\ufeffmark", "soft\u00adhyphen", "\x00", "a\x00b", "\x01\x02\x1f\x7f",
    "\x1b[31mred\x1b[0m", "a\x0bb\x0cc", "\x1c\x1d\x1e", "\ufffd", "a\ufffdb", "\uffff", "\U0010ffff", "\ue000\uf8ff",
    "It's", "it's they're we'll I'd you've I'm don't", "IT'S THEY'RE WE'LL I'D YOU'VE I'M DON'T", "'s", " 's", "'S", "''s",
    "'re", "'Re", "'vE", "'LL", "'lL", "'l", "'r", "'v", "'", "''", "'''", "' s", "x'sy", "o'clock", "rock 'n' roll",
    "'\u017f", "it'\u017f here", "it\u2019s", "'d've", "y'all'd've", "'tis", "'more", "'dog", "1's", "5'11\"", "\n's", "\t'm",
    "0", "1", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "-1", "+1", "1e10", "0x1F", "007", " 1",
    "  1", "   123", "a1", "1a", "a1b2c3", "x = 12", "2024-02-29", "12:34:56", "$9.99", "100%", "1/2", "\u00bd", "x\u00b2", "\u2167",
    "\u0663\u0664\u0665", "\u096a\u0968", "\U0001d7d8\U0001d7d9", "\u2460\u2461\u2462", "\u4e00\u4e8c\u4e09", "\n1", "\n 1", "\t1", "1\n", "1 \n2", "1  2", "a  1",
    "!", "!!", "!?", "...", "\u2026", "a.b", "a. b", "a.\n", "a.\n\nb", "!\n\n", " !\n", "?!\r\n", "(a)", "[b]", "{c}", "<d>", "\"e\"",
    "-", "--", "---", "\u2014", "a-b", "a_b", "__init__", "_a", "a/b/c", "\\n", "a\\b", "@user", "#tag", "a@b.c", "x=y", "x==y", "//",
    "/* c */", "# c", "<!-- c -->", "&amp;", "~`^", "|", "a|b", "<|", "|>", "<|im_start", "https://example.org/a?b=c&d=e#f",
    "snake_case", "camelCase", "PascalCase", "UPPER", "MiXeD", "\u00e9", "e\u0301", "e\u0301e\u0301", "\u0301", " \u0301", "a\u0301\u0323", "a\u0323\u0301",
    "\u1ea5", "a\u0302\u0301", "\u212b", "\u00c5", "A\u030a", "\u1e9b\u0323", "\ud55c\uae00", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\uf900", "\u0958", "\u0915\u093c", "\u2126", "\ufb01",
    "\u01c5", "\u02b0", "\u00aa", "\u01bb", "\u1e9e", "\u0130stanbul", "\u00df", "ﬀ", "\u0f0b", "\u0e4d\u0e32", "नमस्ते", "क्ष", "த்", "\u0640", "\u0627\u0653",
    "😀", "👍🏽", "👨‍👩‍👧‍👦", "❤️", "🇬🇪", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "1️⃣", "a😀b", "😀😀", " 😀", "∑∫√≈≠", "𝔘𝔫𝔦", "𐍈", "𓀀", "☃", "\u20e3", "€5",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababab", "          x", "x          ", "!!!!!!!!!!!!!!!!!!!!", "\n\n\n\n\n\n\n\nx",
    "\u2581", "a\u2581b", "\u2581\u2581a", " \u2581", "\u2581 ", "\u0120a", "\u010a", "<0x41>", "<unk>x", "a millpond", " millpond", "millpond millpond", " millponds",
    "mill磨坊мельницаμύλος", "the磨 坊the", "日本語 and English", "Привет, world! 你好 123", "مرحبا 123 بالعالم", "שלום, עולם! 42",
]

# With the names of control tokens and of the user-defined token <tool_call>, whole and broken.
MARKERS = [
    "<|im_start|>", "<|im_end|>", "<|im_start|>user\nhi<|im_end|>\n", "<|im_start|>system\nGrind.<|im_end|>\n<|im_start|>assistant\n",
    "a<|im_end|>b", "a <|im_end|> b", "<|im_end|><|im_end|>", "<|im_end|>  two", "<|im_end|>\n\nnext", "<|im_start|", "|im_start|>", "<|im_start|>>", "<<|im_end|>",
    "<|im_<|im_end|>start|>", "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|>1", "1<|endoftext|>", "it<|im_end|>'s", "e<|im_end|>\u0301",
    "<tool_call>", "<tool_call>{\"name\": \"grind\"}</tool_call>", "x<tool_call>y", "x <tool_call> y", "<tool_call><|im_end|>", "<tool_call", "<tool_call>>",
    "<|im_start|>помощник\nда<|im_end|>", "<|im_start|>用户\n你好<|im_end|>",
]


def corpus():
    """Every sentence three times, in three orders, so that merges across the whole corpus are frequent enough."""
    sentences = [s for group in CORPUS.values() for s in group]
    return sentences + sentences[::-1] + sorted(sentences, key=len)


def plain_strings():
    """Unique, in a fixed order: the edges, the first half of each sentence, and pairs of scripts side by side."""
    first = [group[0] for group in CORPUS.values()]
    halves = [s[: len(s) // 2] for group in CORPUS.values() for s in group]
    pairs = [a[:14] + b[-9:] for a, b in zip(first, first[3:] + first[:3])]
    return list(dict.fromkeys(EDGES + halves + pairs))
